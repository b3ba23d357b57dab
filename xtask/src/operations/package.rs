//! The package, unpacked beside a fresh server that takes its plugin and its configuration from there and from nowhere else.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mysql::prelude::Queryable;

use crate::server::{Options, Server};
use crate::{client, package, paths, plugin, process};

/// Makes the package and does what its README says.
pub fn run() -> Result<()> {
    let archive = package::make()?;
    let unpacked = paths::medium().join(format!("server-{}-package", std::process::id()));
    std::fs::create_dir_all(&unpacked)?;
    let outcome = try_out(&archive, &unpacked);
    std::fs::remove_dir_all(&unpacked)?;
    outcome
}

fn try_out(archive: &Path, unpacked: &Path) -> Result<()> {
    process::run(Command::new("tar").args(["--strip-components=1", "-xzf"]).arg(archive).arg("-C").arg(unpacked))?;
    package::check_links(unpacked)?;
    let readme = std::fs::read_to_string(unpacked.join("README.md"))?;
    ensure!(readme.contains("libpmem2"), "the README does not name the library that is needed at run time");
    let version = process::output(Command::new(unpacked.join("perdura")).arg("--version"))?;
    ensure!(version.starts_with("perdura "), "the command says {version}");
    install_plugin(unpacked)?;

    let pool = unpacked.join("pool");
    let configuration = std::fs::read_to_string(unpacked.join("perdura.cnf"))?;
    let directory = configuration.lines().find(|line| line.starts_with("perdura-dir = ")).context("no perdura-dir")?;
    let mut changed = configuration.replace(directory, &format!("perdura-dir = {}", pool.display()));
    if !process::is_dax(unpacked) {
        changed = changed.replace("# perdura-emulate", "perdura-emulate");
    }
    std::fs::write(unpacked.join("perdura.cnf"), changed)?;

    let mut server = Server::create(Options { package: Some(unpacked.to_owned()), ..Options::default() })?;
    ensure!(server.start().is_err(), "the server started though the pool's directory is missing");
    ensure!(server.log().contains("does not exist"), "the log does not say what is missing:\n{}", server.log_tail());
    std::fs::create_dir(&pool)?;
    server.start()?;
    let statements =
        ["CREATE TABLE t (a INT, b VARCHAR(20)) ENGINE=Perdura", "INSERT INTO t VALUES (1, 'one'), (2, 'two')"];
    client::execute(&mut server.connect()?, &statements)?;
    server.stop()?;
    let checked = Command::new(unpacked.join("perdura")).arg("check").arg(&pool).status()?;
    ensure!(checked.success(), "perdura check: {checked}");
    server.start()?;
    let rows: Vec<(i32, String)> = server.connect()?.query("SELECT a, b FROM t ORDER BY a")?;
    ensure!(rows == [(1, "one".to_owned()), (2, "two".to_owned())], "after the restart: {rows:?}");
    ensure!(server.log().contains("perdura backup"), "the log does not say how to back up");
    server.stop()
}

/// A plugin directory with the server's own plugins, and ours from the package.
fn install_plugin(unpacked: &Path) -> Result<()> {
    let plugins = unpacked.join("plugins");
    std::fs::create_dir(&plugins)?;
    let ours = Path::new(plugin::LIBRARY).with_extension("so");
    for entry in std::fs::read_dir(paths::server_plugins()?)? {
        let entry = entry?;
        if entry.file_name() != ours.as_os_str() {
            symlink(entry.path(), plugins.join(entry.file_name()))?;
        }
    }
    std::fs::copy(unpacked.join(&ours), plugins.join(&ours))?;
    Ok(())
}
