//! Runs simulated clusters of perdura-kv.
//!
//! The simulator's program is a crate of its own, perdura-sim, so that this tooling builds without
//! the server.

use anyhow::Result;

use crate::shared::process;

/// `sim [--seed N] [--seeds N] [--plant NAME] [--no-plants]`, passed on unchanged.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut command = process::cargo();
    command.args(["run", "--quiet", "--release", "--package", "perdura-sim", "--"]).args(arguments);
    process::run(&mut command)
}
