//! A disk that fills while checkpoints go on: statements that need room are refused, all others and
//! the checkpoints go on, and a start on the full disk finds what was acknowledged.
//!
//! The disk is a file system of its own in a file, mounted for this command alone.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mysql::prelude::Queryable;

use super::placements::Trial;
use crate::shared::{paths, process};

const DISK_BYTES: u64 = 256 << 20;
const MOUNT: &str = r#"set -e; mount -o loop "$1" "$2"; shift 2; exec "$@""#;
/// The server's codes for a full device.
const FULL: [u16; 2] = [1021, 1114];
const ROWS: u64 = 2000;
/// Time for which rows change on the full disk: several checkpoints.
const CHANGES: Duration = Duration::from_secs(4);

/// Mounts the disk and runs this command again there, with `word`.
pub fn run(word: &str) -> Result<()> {
    let disk = paths::disk();
    std::fs::create_dir_all(&disk)?;
    let place = disk.join(format!("server-{}-full", std::process::id()));
    std::fs::create_dir_all(place.join("mounted"))?;
    let outcome = mounted(&place, word);
    std::fs::remove_dir_all(&place)?;
    outcome
}

fn mounted(place: &Path, word: &str) -> Result<()> {
    let (image, point) = (place.join("image"), place.join("mounted"));
    File::create(&image)?.set_len(DISK_BYTES)?;
    process::output(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image)).context("mkfs.ext4 (e2fsprogs)")?;
    let there = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", MOUNT, "sh"]).arg(&image).arg(&point);
        command
    };
    let tried = there().arg("true").output().context("unshare (package util-linux)")?;
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr);
        println!("operations: left out, for no file system in a file can be mounted here: {}", why.trim());
        return Ok(());
    }
    let status = there().arg(std::env::current_exe()?).arg(word).arg(&point).status()?;
    ensure!(status.success(), "the full disk: {status}");
    Ok(())
}

/// The trial itself, on the disk mounted at `point`.
pub fn inside(point: &Path) -> Result<()> {
    let mut trial = Trial::below(point)?;
    let options = [
        format!("--perdura-dir={}", trial.directory("pool")?.display()),
        "--perdura-emulate=OFF".to_owned(),
        "--perdura-log-lane-size=1048576".to_owned(),
        "--perdura-kept-file-bytes=0".to_owned(),
    ];
    trial.start(&options)?;
    let mut connection = trial.server().connect()?;
    connection.query_drop("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT, body VARCHAR(500)) ENGINE=Perdura")?;
    connection.query_drop(format!("INSERT INTO t SELECT seq, 0, 'begun' FROM seq_1_to_{ROWS}"))?;
    fill(&point.join("filler"))?;

    // Rows change until the pool is full as well, and on.
    let (mut changed, mut refused, mut inserted) = (0_u64, 0_u64, ROWS);
    let begun = Instant::now();
    while begun.elapsed() < CHANGES || refused == 0 {
        ensure!(begun.elapsed() < 30 * CHANGES, "the pool is not full after {inserted} rows");
        let next =
            format!("INSERT INTO t SELECT seq, 0, REPEAT('x', 500) FROM seq_{}_to_{}", inserted + 1, inserted + 500);
        let change = format!("UPDATE t SET v = v + 1 WHERE id = {}", 1 + changed % ROWS);
        for (statement, counter, rows) in [(next, &mut inserted, 500), (change, &mut changed, 1)] {
            match connection.query_drop(&statement) {
                Ok(()) => *counter += rows,
                Err(mysql::Error::MySqlError(error)) if FULL.contains(&error.code) => refused += 1,
                Err(error) => bail!("{statement} on a full disk: {error}; {}", trial.server().log_tail()),
            }
        }
    }
    let sums: (u64, u64) = connection.query_first("SELECT COUNT(*), SUM(v) FROM t")?.context("a row")?;
    ensure!(sums == (inserted, changed), "{sums:?} where {inserted} rows and {changed} changes were acknowledged");
    trial.expect_present()?;
    let free = free_bytes(point)?;
    ensure!(free < 8 << 20, "{free} bytes are free: nothing was tested");
    println!("operations: {refused} statements were refused on the full disk, {changed} changes went on");

    trial.server().kill()?;
    trial.start(&options).context("on the disk that is still full")?;
    trial.server().stop()?;
    trial.start(&options).context("on the disk that is still full, after a stop")?;
    std::fs::remove_file(point.join("filler"))?;
    let more =
        format!("INSERT INTO t SELECT seq, 0, REPEAT('y', 500) FROM seq_{}_to_{}", inserted + 1, inserted + 5000);
    trial.server().connect()?.query_drop(more).context("on the disk that has room again")?;
    trial.expect_present()?;
    trial.server().kill()?;
    trial.start(&options)?;
    trial.server().stop()
}

/// Takes all but a few blocks of the disk.
fn fill(path: &Path) -> Result<()> {
    let mut file = File::create(path)?;
    let chunk = vec![1; 64 << 10];
    loop {
        match file.write_all(&chunk) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
            Err(error) => return Err(error.into()),
        }
    }
    // Delayed blocks may find no room.
    let _ = file.sync_all();
    Ok(())
}

fn free_bytes(path: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail * stat.f_frsize)
}
