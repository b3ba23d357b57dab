//! Runs the crash explorer, which lets the real recovery open every kind of image that a power loss
//! may legally leave.
//!
//! The explorer is a crate of its own, perdura-crash, so that this tooling builds without the
//! engine and the maps.

use anyhow::Result;

use crate::shared::process;

/// `explore [--seed N] [--images N | --minutes N | --forever] [--product engine|map]
/// [--scenario NAME] [--no-mutations] [--plant NAME] [--costs]`,
/// passed on unchanged.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut command = process::cargo();
    command.args(["run", "--quiet", "--release", "--package", "perdura-crash", "--"]).args(arguments);
    process::run(&mut command)
}
