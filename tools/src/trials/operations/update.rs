//! Updates of the server, on a machine with the package: apt's hook, the choice of the plugin
//! before a start, and the plugin built anew.
//!
//! The hazards: an update leaves a plugin that the new server refuses; nobody hears of it, or hears
//! and has no way out. Versions that the archives do not have are played by a `mariadbd` that tells
//! another version, and by lists as apt hands them to its hooks.

use std::process::Output;

use anyhow::{Context, Result, ensure};
use mysql::prelude::Queryable;

use super::machine::Machine;
use crate::shared::{client, paths};

/// A version after the packaged one.
const NEWER: &str = "10.11.99";

/// Tries all of it. The server runs, with rows in first.t.
pub fn try_out(machine: &mut Machine) -> Result<()> {
    let packaged = std::fs::read_to_string(paths::of_server("mariadb").join("DEBIAN_VERSION"))?.trim().to_owned();
    refuses_updates_without_a_plugin(machine, &packaged)?;
    says_what_a_newer_server_misses(machine)?;
    builds_anew(machine)
}

/// Runs the script; returns its output whether it fails or not.
fn script(machine: &Machine, arguments: &str) -> Result<Output> {
    let command = format!("{} {arguments}", machine.at("home/perdura-plugin").display());
    machine.shell(&command).output().with_context(|| command.clone())
}

fn refuses_updates_without_a_plugin(machine: &Machine, packaged: &str) -> Result<()> {
    let newer = packaged.replacen(packaged.split([':', '-']).nth(1).unwrap_or_default(), NEWER, 1);
    let cases = [
        (format!("mariadb-server-core {packaged} < {newer} /x.deb"), "", false),
        (format!("libc6 2.36-9 < 2.36-10 /y.deb\nmariadb-server-core {packaged} < {newer} /x.deb"), "", false),
        (format!("mariadb-server-core - < {newer} /x.deb"), "", false),
        (format!("mariadb-server-core {packaged} < {newer} /x.deb"), "PERDURA_UPDATE=anyway ", true),
        (format!("mariadb-server-core {packaged} < {} /x.deb", packaged.replace("deb12u1", "deb12u2")), "", true),
        (format!("mariadb-server-core {packaged} > - **REMOVE**"), "", true),
        (format!("libc6 {packaged} < {newer} /x.deb"), "", true),
    ];
    for (list, setting, lets) in cases {
        let input =
            format!("VERSION 2\nAPT::Architecture=amd64\nDPkg::Use-Pty=mariadb-server-core 1 < 2 x\n\n{list}\n");
        let place = machine.at("apt-list");
        std::fs::write(&place, input)?;
        let hook = hook(machine)?;
        let output = machine.shell(&format!("{setting}sh -c '{hook}' <{}", place.display())).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() == lets, "apt's hook: {setting}{list}: {}: {said}", output.status);
        let tells = said.contains(&format!("no plugin for MariaDB {NEWER}")) && said.contains("perdura-plugin rebuild");
        ensure!(tells != (lets && setting.is_empty()), "apt's hook says of {list}: {said}");
    }
    Ok(())
}

/// The command in the installed hook, in the test's directory.
fn hook(machine: &Machine) -> Result<String> {
    let text = std::fs::read_to_string(machine.at("apt.conf.d/80perdura"))?;
    let command = text.split('"').nth(1).context("apt.conf has no command")?;
    Ok(machine.here(command))
}

/// The error is in the journal, which gets the script's output, and in the server's log.
fn says_what_a_newer_server_misses(machine: &mut Machine) -> Result<()> {
    let link = machine.at("plugins/ha_perdura.so");
    let before = std::fs::read_link(&link)?;
    let own = machine.program_text("mariadbd")?;
    machine.program(
        "mariadbd",
        &format!("echo 'mariadbd  Ver {NEWER}-MariaDB for debian-linux-gnu on x86_64 (Debian)'"),
    )?;
    let output = script(machine, "pick")?;
    machine.program("mariadbd", &own)?;
    ensure!(output.status.success(), "pick decides whether the server starts: {output:?}");
    let pool = machine.at("pool");
    for (place, text) in
        [("output", String::from_utf8_lossy(&output.stderr).into_owned()), ("log", machine.server().log())]
    {
        let named = format!("no plugin for MariaDB {NEWER}");
        ensure!(text.contains(&named), "the {place} does not say that there is no plugin: {text}");
        ensure!(text.contains(&format!("tables of the pool {} are missing", pool.display())), "{place}: {text}");
    }
    ensure!(std::fs::read_link(&link)? == before, "pick has linked another plugin");
    Ok(())
}

/// By the checkout's headers; the plugin of the package is gone.
fn builds_anew(machine: &mut Machine) -> Result<()> {
    machine.server().stop()?;
    std::fs::remove_dir_all(machine.at("home/plugins"))?;
    ensure!(machine.server().start().is_err(), "the server started without the engine");
    let headers = machine.at("headers");
    std::fs::create_dir(&headers)?;
    for name in ["mariadb", "mariadb-src"] {
        std::os::unix::fs::symlink(paths::of_server(name), headers.join(name))?;
    }
    let output = script(machine, &format!("rebuild --headers {}", headers.display()))?;
    ensure!(output.status.success(), "rebuild: {}", String::from_utf8_lossy(&output.stderr));
    let picked = String::from_utf8_lossy(&script(machine, "pick")?.stderr).into_owned();
    ensure!(picked.is_empty(), "pick after rebuild: {picked}");
    machine.server().start()?;
    let mut connection = machine.server().connect()?;
    let rows: i64 = client::value(&mut connection, "SELECT COUNT(*) FROM first.t")?;
    ensure!(rows == 2, "{rows} rows with the plugin built anew");
    connection.query_drop("INSERT INTO first.t VALUES (3, 'three')")?;
    machine.server().stop()
}
