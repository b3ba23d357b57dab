//! Makes a tarball of what a user installs: the plugin, the command, a configuration to start from, the licences.

use std::process::Command;

use anyhow::{Context, Result};

use crate::{paths, plugin, process};

const CONFIGURATION: &str = "\
# Perdura, a storage engine on persistent memory. Copy beside the server's other configuration files.
[mariadb]
plugin-maturity = experimental
plugin-load-add = ha_perdura
# A directory on a DAX file system, writable by the server:
perdura-dir = /mnt/pmem0/perdura
# Without persistent memory, for trials only (data survive a crash of the server, not a loss of power):
# perdura-emulate = ON
";

/// Writes build/perdura-VERSION-mariadb-VERSION.tar.gz.
pub fn run() -> Result<()> {
    plugin::build()?;
    process::run(process::cargo().args(["build", "--release", "--package", "perdura-cli"]))?;
    let server = std::fs::read_to_string(paths::build().join("mariadb/DEBIAN_VERSION"))?;
    let server = server.trim().rsplit(':').next().unwrap_or_default().to_owned();
    let name = format!("perdura-{}-mariadb-{server}", env!("CARGO_PKG_VERSION"));
    let staging = paths::build().join(&name);
    std::fs::create_dir_all(&staging)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| paths::top().join("target"), Into::into);
    let files = [
        (paths::build().join("plugin/ha_perdura.so"), "ha_perdura.so"),
        (target.join("release/perdura"), "perdura"),
        (paths::top().join("LICENSE-MIT"), "LICENSE-MIT"),
        (paths::top().join("LICENSE-APACHE"), "LICENSE-APACHE"),
        (paths::top().join("LICENSE-GPL-2.0"), "LICENSE-GPL-2.0"),
        (paths::top().join("README.md"), "README.md"),
    ];
    for (source, to) in files {
        std::fs::copy(&source, staging.join(to)).with_context(|| source.display().to_string())?;
    }
    std::fs::write(staging.join("perdura.cnf"), CONFIGURATION)?;
    let archive = paths::build().join(format!("{name}.tar.gz"));
    process::run(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(paths::build()).arg(&name))?;
    println!("{}", archive.display());
    Ok(())
}
