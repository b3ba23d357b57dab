//! Installs the unpacked mariadbd into a directory and builds its command line, for the servers of
//! tests and a user's own.
//!
//! Nothing of the machine's own server or configuration is read: callers pass `--no-defaults` or
//! their own file first.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::drive::plugin;

use crate::shared::{paths, process};

/// Lines of the error log that a message shows at most.
const LOG_LINES: usize = 30;

/// Creates a data directory with an empty database `test` and an account root without a password.
pub fn install(data: &Path) -> Result<()> {
    let basedir = paths::mariadb()?;
    let mut command = Command::new(basedir.join("bin/mariadb-install-db"));
    command.args(["--no-defaults", "--force", "--auth-root-authentication-method=normal", "--skip-test-db"]);
    command.arg(format!("--basedir={}", basedir.display())).arg(format!("--datadir={}", data.display()));
    if process::is_root() {
        command.arg("--user=root");
    }
    process::output(&mut command)?;
    std::fs::create_dir_all(data.join("test"))?;
    Ok(())
}

/// Adds the paths of the data, the temporary files and the error log in `directory`, and of the
/// socket.
pub fn add_places(command: &mut Command, directory: &Path, socket: &Path) -> Result<()> {
    let at = |name: &str| directory.join(name).display().to_string();
    command.arg(format!("--basedir={}", paths::mariadb()?.display()));
    command.arg(format!("--datadir={}", at("data"))).arg(format!("--socket={}", socket.display()));
    command.arg(format!("--tmpdir={}", at("tmp"))).arg(format!("--log-error={}", at("server.err")));
    if process::is_root() {
        command.arg("--user=root");
    }
    Ok(())
}

/// Loads the plugin with its pool in `directory`, its log in `log`, if that is another. Directories
/// in DRAM are taken for persistent memory, and those on a disk are durable. The environment
/// variable `PERDURA_EMULATE_MODEL` names a medium to model then.
pub fn add_perdura(command: &mut Command, directory: &Path, log: Option<&Path>) {
    command.arg("--plugin-maturity=experimental").arg(format!("--plugin-load-add={}", plugin::LIBRARY));
    command.arg(format!("--perdura-dir={}", directory.join("pool").display()));
    if let Some(log) = log {
        command.arg(format!("--perdura-log-dir={}", log.display()));
    }
    if process::is_in_dram(log.unwrap_or(directory)) {
        command.arg("--perdura-emulate=ON");
        if let Ok(model) = std::env::var("PERDURA_EMULATE_MODEL") {
            command.arg(format!("--perdura-emulate-model={model}"));
        }
    }
}

/// The error log of the server in `directory`.
pub fn log(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("server.err")).unwrap_or_default()
}

/// The end of the error log, for messages.
pub fn log_tail(directory: &Path) -> String {
    let log = log(directory);
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
