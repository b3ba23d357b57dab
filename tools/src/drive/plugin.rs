//! Builds ha_perdura.so, and the benchmarks' null engine, and links them into the unpacked server.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::fs::FlockOperation;

use crate::shared::{paths, process};

/// File name of the library, as `plugin-load-add` takes it.
pub const LIBRARY: &str = "ha_perdura";

/// File name of the library of the transactional engine that stores nothing (bench/null_engine).
pub const NULL_LIBRARY: &str = "ha_bench_null";

/// Builds the plugin with the unpacked server's headers and links it into that server's plugin
/// directory. Concurrent steps of `cargo xtask test` call this at any time: one builds while the
/// others wait, and the link is never missing.
pub fn build() -> Result<()> {
    make("plugin/mariadb", LIBRARY)
}

/// The same for the null engine.
pub fn build_null() -> Result<()> {
    make("bench/null_engine", NULL_LIBRARY)
}

/// Builds the test of damaged keys under the sanitizers and returns the program.
pub fn build_key_damage() -> Result<PathBuf> {
    const PROGRAM: &str = "key-damage";
    let (directory, _lock) = claim()?;
    process::run(
        Command::new("make")
            .args(["--silent", "--no-print-directory", "-C"])
            .arg(paths::top().join("plugin/mariadb"))
            .arg(PROGRAM),
    )?;
    Ok(directory.join(PROGRAM))
}

/// The directory of what is built here, and its lock.
fn claim() -> Result<(PathBuf, File)> {
    let directory = paths::of_server("plugin");
    std::fs::create_dir_all(&directory)?;
    let path = directory.join("lock");
    let lock = File::create(&path).with_context(|| path.display().to_string())?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive).with_context(|| path.display().to_string())?;
    Ok((directory, lock))
}

/// Runs make in `source`, which builds `library` in build/plugin, and links that into the server's
/// plugin directory.
fn make(source: &str, library: &str) -> Result<()> {
    let plugins = paths::server_plugins()?;
    let (directory, _lock) = claim()?;
    process::run(Command::new("make").args(["--silent", "--no-print-directory", "-C"]).arg(paths::top().join(source)))?;
    let built = directory.join(library).with_extension("so");
    ensure!(built.exists(), "{source} made no {}", built.display());
    let link = plugins.join(library).with_extension("so");
    if std::fs::read_link(&link).is_ok_and(|target| target == built) {
        return Ok(());
    }
    let new = link.with_extension("so.new");
    if std::fs::symlink_metadata(&new).is_ok() {
        std::fs::remove_file(&new).with_context(|| new.display().to_string())?;
    }
    symlink(&built, &new).with_context(|| new.display().to_string())?;
    std::fs::rename(&new, &link).with_context(|| link.display().to_string())
}
