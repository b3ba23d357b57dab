//! `cargo xtask verify`: everything that can be judged without running the product. It writes
//! nothing but Cargo's own target directory.

mod architecture;
mod circles;
mod headers;
mod invariants;
mod language;
mod layers;
mod licences;
mod plugin;
mod rooms;
mod tree;

use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::plots;
use crate::shared::{paths, process, steps};

type Step = (&'static str, fn() -> Result<()>);

const STEPS: [Step; 15] = [
    ("format", format),
    ("shell syntax", shell),
    ("words, paths and file sizes", tree::check),
    ("paths and length of docs/ARCHITECTURE.md", architecture::check),
    ("first lines of sources", headers::check),
    ("words of docs/glossary.md, and comments", language::check),
    ("layers point downward", || layers::check(&metadata(true)?)),
    ("rooms and files without circles", || rooms::check(&metadata(true)?)),
    ("files of the plugin without circles", plugin::check),
    ("invariants are cited", invariants::check),
    ("pictures of docs/benchmarks agree with their results", plots::check),
    ("licences of dependencies", || licences::check(&metadata(false)?)),
    ("lock file of fuzz/", fuzz_lock),
    ("clippy", clippy),
    ("docs", docs),
];

/// Runs all steps, even after a failure, and closes with `N passed, N failed`.
pub fn run() -> Result<()> {
    steps::run("verify", &STEPS)
}

fn format() -> Result<()> {
    process::run(process::cargo().args(["fmt", "--all", "--check"]))
}

fn shell() -> Result<()> {
    let tracked = tree::tracked()?;
    let scripts = tracked.iter().filter(|path| path.ends_with(".sh") || path.as_str() == ".ci/run");
    for script in scripts {
        process::run(Command::new("bash").arg("-n").arg(script).current_dir(paths::top()))?;
    }
    Ok(())
}

/// The fuzz targets are no member of the workspace, so no other step notices that their lock file
/// is stale.
fn fuzz_lock() -> Result<()> {
    let mut command = process::cargo();
    command.args(["metadata", "--locked", "--format-version", "1", "--manifest-path", "fuzz/Cargo.toml"]);
    process::output(&mut command).context("fuzz/Cargo.lock; without --locked the command mends it").map(|_| ())
}

fn clippy() -> Result<()> {
    process::run(process::cargo().args(["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn docs() -> Result<()> {
    let mut command = process::cargo();
    process::run(command.args(["doc", "--quiet", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

fn metadata(own_only: bool) -> Result<Value> {
    let mut command = process::cargo();
    command.args(["metadata", "--format-version", "1"]);
    if own_only {
        command.arg("--no-deps");
    }
    Ok(serde_json::from_str(&process::output(&mut command)?)?)
}
