//! Builds ha_perdura.so and puts it before the unpacked server.

use std::os::unix::fs::symlink;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{paths, process};

/// Name of the library, as the server is told to load it.
pub const LIBRARY: &str = "ha_perdura";

/// Builds the plugin against the unpacked server's headers and links it into that server's plugin directory.
pub fn build() -> Result<()> {
    let plugins = paths::server_plugins()?;
    process::run(
        Command::new("make").args(["--silent", "--no-print-directory", "-C"]).arg(paths::top().join("plugin/mariadb")),
    )?;
    let library = paths::build().join("plugin").join(LIBRARY).with_extension("so");
    ensure!(library.exists(), "plugin/mariadb made no {}", library.display());
    let link = plugins.join(LIBRARY).with_extension("so");
    if std::fs::symlink_metadata(&link).is_ok() {
        std::fs::remove_file(&link).with_context(|| link.display().to_string())?;
    }
    symlink(&library, &link).with_context(|| link.display().to_string())
}
