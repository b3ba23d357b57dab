//! Builds ha_perdura.so and links it into the unpacked server.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::fs::FlockOperation;

use crate::{paths, process};

/// File name of the library, as `plugin-load-add` takes it.
pub const LIBRARY: &str = "ha_perdura";

/// Builds the plugin with the unpacked server's headers and links it into that server's plugin directory. Concurrent steps of
/// `cargo xtask test` call this at any time: one builds while the others wait, and the link is never missing.
pub fn build() -> Result<()> {
    let plugins = paths::server_plugins()?;
    let directory = paths::build().join("plugin");
    std::fs::create_dir_all(&directory)?;
    let lock = File::create(directory.join("lock")).context("build/plugin/lock")?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive).context("build/plugin/lock")?;
    process::run(
        Command::new("make").args(["--silent", "--no-print-directory", "-C"]).arg(paths::top().join("plugin/mariadb")),
    )?;
    let library = directory.join(LIBRARY).with_extension("so");
    ensure!(library.exists(), "plugin/mariadb made no {}", library.display());
    let link = plugins.join(LIBRARY).with_extension("so");
    if std::fs::read_link(&link).is_ok_and(|target| target == library) {
        return Ok(());
    }
    let new = link.with_extension("so.new");
    if std::fs::symlink_metadata(&new).is_ok() {
        std::fs::remove_file(&new).with_context(|| new.display().to_string())?;
    }
    symlink(&library, &new).with_context(|| new.display().to_string())?;
    std::fs::rename(&new, &link).with_context(|| link.display().to_string())
}
