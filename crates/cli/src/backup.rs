//! `perdura backup` copies a pool while its server runs; `perdura restore` puts the copy back.

use crate::copy::{self, Zeros, at};
use crate::output::say;
use crate::pool::{Failure, open_and_check};
use crate::report::count;
use crate::server::{Account, Server};
use perdura_engine::check::Report;
use perdura_engine::{FileMedium, MediumOptions};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// First line of `backup.info`.
const MAGIC: &str = "perdura backup 1";
const INFO: &str = "backup.info";
const POOL: &str = "pool";
const PARTIAL: &str = "pool.partial";
/// The database of the plugin's own tables, which no server needs.
const INTERNAL: &str = "#perdura";

/// Output of `perdura backup --help`.
pub const USAGE: &str = "\
usage: perdura backup SOCKET TARGET [--user NAME] [--password-file FILE] [--pool DIR]

Copies the pool of the running server that listens on the Unix socket SOCKET into the new directory TARGET, and verifies the copy.
Statements that write to ENGINE=Perdura wait while the files are copied; reads go on. Run it on the server's machine, as a user who
may read the pool's files. TARGET/backup.info records the position in the binary log that the copy stands for. Of a pool with its log in a directory of its own (perdura_log_dir) both are copied, into one.

  --user NAME            an account with RELOAD, SUPER and BINLOG MONITOR (default: root)
  --password-file FILE   the first line of FILE is its password (default: MYSQL_PWD in the environment)
  --pool DIR             where the pool is, if not at the path the server gives

Exit status: 0 the backup is complete and sound, 1 the copy is damaged, 2 any other failure. After 1 or 2 there is no backup.";

/// Output of `perdura restore --help`.
pub const RESTORE_USAGE: &str = "\
usage: perdura restore SOURCE POOLDIR

Copies the backup SOURCE, as `perdura backup` made it, into POOLDIR, which is new or empty, and verifies the copy. No server may use
POOLDIR meanwhile. The files get the owner of POOLDIR. Prints the contents of backup.info.

Exit status: 0 the pool is restored and sound, 1 it is damaged, 2 any other failure. After 1 or 2 no server opens POOLDIR.";

/// A backup as the command line asks for it.
///
/// A backup first takes the server's own backup lock: no commit is then between the engine and the
/// binary log, so their positions agree. Then it sets `perdura_hold`, which waits until every store
/// to the pool has ended and lets none begin. The files are those of one moment, in whatever order
/// they are copied (I2). The server releases lock and hold when this command's connection ends.
///
/// A backup is a directory with `pool/` and `backup.info`, which is written last. A directory
/// without `backup.info` is no backup.
pub struct Request {
    /// The session to open on the server.
    pub account: Account,
    /// The new directory.
    pub target: PathBuf,
    /// Where the pool is, if not where the server says.
    pub pool: Option<PathBuf>,
}

fn failed(message: String) -> Failure {
    (2, message)
}

/// Makes the backup; removes what it has made if it fails.
pub fn run(request: &Request) -> Result<(), Failure> {
    let existed = request.target.exists();
    copy::claim_directory(&request.target).map_err(failed)?;
    let made = make(request);
    if made.is_err() {
        // Whatever cannot be removed has no backup.info, so it is no backup.
        let _ = fs::remove_dir_all(request.target.join(PARTIAL));
        if !existed {
            let _ = fs::remove_dir(&request.target);
        }
    }
    made
}

fn make(request: &Request) -> Result<(), Failure> {
    let partial = request.target.join(PARTIAL);
    let mut server = Server::connect(&request.account).map_err(failed)?;
    copy::claim_directory(&partial).map_err(failed)?;
    let held = server.hold().map_err(failed)?;
    let pool = request.pool.as_ref().unwrap_or(&held.pool);
    let directories: Vec<&Path> = std::iter::once(&**pool).chain(held.log.as_deref()).collect();
    let copied = copy::pool(&directories, &partial, Zeros::Sparse);
    // Release the server before anything else. The copy counts only if the pool was held until now,
    // which release() checks.
    let released = server.release();
    let copied = copied.map_err(failed)?;
    let took = released.map_err(failed)?;
    say!(
        "copied {} files, {} MiB; writers waited {:.1} s; verifying",
        copied.files,
        copied.bytes >> 20,
        took.as_secs_f64()
    );
    let report = verify(&partial)?;
    fs::rename(&partial, request.target.join(POOL))
        .map_err(|error| failed(at(&partial, "cannot be renamed", error)))?;
    let info = describe(&report, &held.facts);
    write_info(&request.target, &info).map_err(failed)?;
    say!("{info}the backup in {} is complete and sound", request.target.display());
    Ok(())
}

/// Checks the copy; damage is a failure.
fn verify(directory: &Path) -> Result<Report, Failure> {
    let (_, report) = open_and_check(directory, None)?;
    match report.problems.as_slice() {
        [] => Ok(report),
        [first, ..] => Err((1, format!("the copy is damaged: {}, the first: {first}", count(report.problems.len())))),
    }
}

/// The text of `backup.info`.
fn describe(report: &Report, facts: &[(String, String)]) -> String {
    let tables = &report.tables[1.min(report.tables.len())..];
    let databases = tables.iter().filter_map(|table| Some(table.name.split_once('/')?.0));
    let databases: BTreeSet<&str> = databases.filter(|name| *name != INTERNAL).collect();
    let mut text = format!("{MAGIC}\n");
    for (name, value) in facts {
        // A value with a line end must not forge a line of its own.
        text += &format!("{name}: {}\n", value.replace(['\n', '\r'], " "));
    }
    text += &format!("tables: {}\nrows: {}\n", tables.len(), tables.iter().map(|table| table.rows).sum::<u64>());
    text += &format!("databases: {}\n", databases.into_iter().collect::<Vec<_>>().join(" "));
    text
}

/// Writes `backup.info`, the last step: it makes the directory a backup.
fn write_info(target: &Path, text: &str) -> Result<(), String> {
    copy::sync_directory(target)?;
    let (new, info) = (target.join(format!("{INFO}.new")), target.join(INFO));
    let written =
        File::create(&new).and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.and_then(|()| fs::rename(&new, &info)).map_err(|error| at(&info, "cannot be written", error))?;
    copy::sync_directory(target)
}

/// Copies the backup `source` to the directory `pool`.
pub fn restore(source: &Path, pool: &Path) -> Result<(), Failure> {
    let info = source.join(INFO);
    let text = fs::read_to_string(&info).map_err(|error| {
        failed(format!("{}; a backup without this file was not finished", at(&info, "cannot be read", error)))
    })?;
    if text.lines().next() != Some(MAGIC) {
        return Err(failed(format!(
            "{} does not begin with `{MAGIC}`: this build cannot read the backup",
            info.display()
        )));
    }
    copy::claim_directory(pool).map_err(failed)?;
    let copied = copy::pool(&[&source.join(POOL)], pool, Zeros::Allocated).map_err(failed)?;
    if let Err((status, message)) = verify(pool) {
        // Without its superblock no server takes the rest for a pool.
        let removed = fs::remove_file(pool.join("super"));
        let rest = if removed.is_ok() { "its superblock is removed" } else { "remove the directory" };
        return Err((status, format!("{}: {message}; {rest}", pool.display())));
    }
    // The copy has lost nothing with the modules, whatever they have counted since.
    forget_device(pool)?;
    say!("{text}restored {} files, {} MiB, to {}: sound", copied.files, copied.bytes >> 20, pool.display());
    Ok(())
}

fn forget_device(pool: &Path) -> Result<(), Failure> {
    let medium = FileMedium::open(pool, MediumOptions { emulate: true, ..MediumOptions::default() });
    let medium = medium.map_err(|error| failed(error.to_string()))?;
    perdura_engine::forget_device(&medium).map_err(|error| failed(error.to_string()))
}
