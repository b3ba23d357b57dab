//! `perdura backup` and `perdura restore`: a pool copied while its server runs, and put back.
//!
//! The server's own backup lock comes first (no commit is under way between engine and binary log, so their positions agree), then
//! `perdura_hold`, which waits for every store to the pool to end and lets no other begin. So the copied files are those of one
//! moment, in any order (I2). Both end with this command's connection, however it ends.
//!
//! A backup is a directory with `pool/` and, written last, `backup.info`. Without that file it is none.

use crate::copy::{self, Zeros, at};
use crate::pool::open_and_check;
use crate::request::Request;
use crate::server::Server;
use perdura_engine::check::Report;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// First line of `backup.info`.
const MAGIC: &str = "perdura backup 1";
const INFO: &str = "backup.info";
const POOL: &str = "pool";
const PARTIAL: &str = "pool.partial";

/// What `perdura backup --help` says.
pub const USAGE: &str = "\
usage: perdura backup SOCKET TARGET [--user NAME] [--password-file FILE] [--pool DIR]

Copies the pool of the running server that listens on the Unix socket SOCKET into the new directory TARGET, and verifies the copy.
Writing to ENGINE=Perdura waits while the files are copied; reading goes on. Runs on the server's machine, as a user who may read
the pool's files. TARGET/backup.info has the position in the binary log that the copy stands for.

  --user NAME            an account with RELOAD, SUPER and BINLOG MONITOR; without it root
  --password-file FILE   its password is the first line of FILE; without it MYSQL_PWD of the environment
  --pool DIR             where the pool is, if this machine sees it elsewhere than the server

Exit status: 0 the backup is complete and sound, 1 the copy is damaged, 2 anything else. After 1 and 2 there is no backup.";

/// What `perdura restore --help` says.
pub const RESTORE_USAGE: &str = "\
usage: perdura restore SOURCE POOLDIR

Copies the backup SOURCE, as `perdura backup` made it, into POOLDIR, which is new or empty, and verifies the copy. No server may use
POOLDIR meanwhile. The files belong to the owner of POOLDIR. Prints what the backup says of itself.

Exit status: 0 the pool is restored and sound, 1 it is damaged, 2 anything else. After 1 and 2 POOLDIR is refused by a server.";

/// Exit status and message.
type Failure = (u8, String);

fn failed(message: String) -> Failure {
    (2, message)
}

/// Makes a backup.
pub fn run(request: &Request) -> Result<(), Failure> {
    let existed = request.target.exists();
    copy::claim_directory(&request.target).map_err(failed)?;
    let made = make(request);
    if made.is_err() {
        // What cannot be removed is no backup either: it has no backup.info.
        let _ = fs::remove_dir_all(request.target.join(PARTIAL));
        if !existed {
            let _ = fs::remove_dir(&request.target);
        }
    }
    made
}

fn make(request: &Request) -> Result<(), Failure> {
    let partial = request.target.join(PARTIAL);
    let mut server = Server::connect(request).map_err(failed)?;
    copy::claim_directory(&partial).map_err(failed)?;
    let held = server.hold().map_err(failed)?;
    let pool = request.pool.as_ref().unwrap_or(&held.pool);
    let copied = copy::pool(pool, &partial, Zeros::Sparse);
    // First let the server go on. The copy counts only if the pool was held until now, which release() tells.
    let released = server.release();
    let copied = copied.map_err(failed)?;
    let took = released.map_err(failed)?;
    println!(
        "copied {} files, {} MiB; writing waited for {:.1} s; verifying",
        copied.files,
        copied.bytes >> 20,
        took.as_secs_f64()
    );
    let report = verify(&partial)?;
    fs::rename(&partial, request.target.join(POOL))
        .map_err(|error| failed(at(&partial, "cannot be renamed", error)))?;
    let info = describe(&report, &held.facts);
    write_info(&request.target, &info).map_err(failed)?;
    println!("{info}the backup in {} is complete and sound", request.target.display());
    Ok(())
}

/// Checks a pool that no server uses.
fn verify(directory: &Path) -> Result<Report, Failure> {
    let (_, report) = open_and_check(directory)?;
    match report.problems.as_slice() {
        [] => Ok(report),
        [first, ..] => Err((1, format!("the copy is damaged, {} problems; the first: {first}", report.problems.len()))),
    }
}

/// The text of `backup.info`.
fn describe(report: &Report, facts: &[(String, String)]) -> String {
    let tables = &report.tables[1.min(report.tables.len())..];
    let databases: BTreeSet<&str> = tables.iter().filter_map(|table| Some(table.name.split_once('/')?.0)).collect();
    let mut text = format!("{MAGIC}\n");
    for (name, value) in facts {
        // Whatever the server says, a line is a line.
        text += &format!("{name}: {}\n", value.replace(['\n', '\r'], " "));
    }
    text += &format!("tables: {}\nrows: {}\n", tables.len(), tables.iter().map(|table| table.rows).sum::<u64>());
    text += &format!("databases: {}\n", databases.into_iter().collect::<Vec<_>>().join(" "));
    text
}

/// Writes `backup.info`, which makes the directory a backup: the last step.
fn write_info(target: &Path, text: &str) -> Result<(), String> {
    copy::sync_directory(target)?;
    let (new, info) = (target.join(format!("{INFO}.new")), target.join(INFO));
    let written =
        File::create(&new).and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.and_then(|()| fs::rename(&new, &info)).map_err(|error| at(&info, "cannot be written", error))?;
    copy::sync_directory(target)
}

/// Puts a backup back.
pub fn restore(source: &Path, pool: &Path) -> Result<(), Failure> {
    let info = source.join(INFO);
    let text = fs::read_to_string(&info).map_err(|error| {
        failed(format!("{}; a backup without it was not finished", at(&info, "cannot be read", error)))
    })?;
    if text.lines().next() != Some(MAGIC) {
        return Err(failed(format!("{} is not of a backup that this build reads: {MAGIC}", info.display())));
    }
    copy::claim_directory(pool).map_err(failed)?;
    let copied = copy::pool(&source.join(POOL), pool, Zeros::Allocated).map_err(failed)?;
    if let Err((status, message)) = verify(pool) {
        // Without it no server takes the rest for a pool.
        let removed = fs::remove_file(pool.join("super"));
        let rest = if removed.is_ok() { "its superblock is removed" } else { "remove it" };
        return Err((status, format!("{}: {message}; {rest}", pool.display())));
    }
    println!("{text}restored {} files, {} MiB, to {}: sound", copied.files, copied.bytes >> 20, pool.display());
    Ok(())
}
