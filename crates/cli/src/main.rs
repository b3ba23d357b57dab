//! The `perdura` command: the words of its command line, and which command each stands for.
//!
//! - `inspect` prints the structures of a pool that no server uses, `check` verifies them
//!   ([`pool`], [`report`]).
//! - `backup` copies the pool of a running server ([`server`], [`copy`]), `restore` puts the copy
//!   back ([`mod@backup`]).
//! - `map` reads and changes ordered maps ([`map`]).
//!
//! Exit status: 0 the pool is sound, 1 it is damaged, 2 the command could not be carried out.
//! `perdura map` adds 3: no value.

#![forbid(unsafe_code)]

mod backup;
mod copy;
mod map;
mod output;
mod pool;
mod report;
mod server;

use output::say;
use perdura_engine::check::Report;
use perdura_pmem::Medium;
use server::Account;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: perdura inspect DIR [--log-dir LOGDIR]   print the structures of the pool in DIR
       perdura check DIR [--log-dir LOGDIR]     verify every structure of the pool in DIR
       perdura backup SOCKET TARGET     copy the pool of a running server: see perdura backup --help
       perdura restore SOURCE POOLDIR   restore a backup: see perdura restore --help
       perdura map COMMAND              read and change ordered maps: see perdura map --help
       perdura --version

inspect and check need a pool that no server uses, and change nothing in it. LOGDIR is the directory of the log, if that is another
(perdura_log_dir).
Exit status: 0 the pool is sound, 1 it is damaged, 2 it is no pool or in use, or the command is wrong.";

enum Command {
    Inspect(Place),
    Check(Place),
    Backup(backup::Request),
    Restore(PathBuf, PathBuf),
    Map(lexopt::Parser),
    Version,
    Help(&'static str),
}

/// Where a pool is.
struct Place {
    directory: PathBuf,
    /// That of the log, if it is another.
    log: Option<PathBuf>,
}

fn main() -> ExitCode {
    let command = match parse() {
        Ok(command) => command,
        Err(error) => {
            eprintln!("perdura: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match command {
        Command::Help(text) => say!("{text}"),
        Command::Version => say!("perdura {}", env!("CARGO_PKG_VERSION")),
        Command::Inspect(place) => return run(&place, report::inspect),
        Command::Map(words) => return map::run(words),
        Command::Check(place) => return run(&place, report::check),
        Command::Backup(request) => return status(backup::run(&request)),
        Command::Restore(source, pool) => return status(backup::restore(&source, &pool)),
    }
    output::status()
}

fn parse() -> Result<Command, lexopt::Error> {
    use lexopt::prelude::{Long, Short, Value};
    let mut parser = lexopt::Parser::from_env();
    let word = match parser.next()? {
        Some(Long("version") | Short('V')) => return Ok(Command::Version),
        Some(Long("help") | Short('h')) => return Ok(Command::Help(USAGE)),
        Some(Value(word)) if word == "help" => return Ok(Command::Help(USAGE)),
        Some(Value(word)) if word == "map" => return Ok(Command::Map(parser)),
        Some(Value(word)) => word,
        Some(argument) => return Err(argument.unexpected()),
        None => return Err("a command is missing".into()),
    };
    let (help, wanted): (&'static str, &[&str]) = match word.to_str() {
        Some("inspect" | "check") => (USAGE, &["the pool's directory"]),
        Some("backup") => (backup::USAGE, &["the server's socket", "the target directory"]),
        Some("restore") => (backup::RESTORE_USAGE, &["the backup's directory", "the pool's directory"]),
        _ => return Err(format!("{} is not a command", word.display()).into()),
    };
    let mut paths = Vec::new();
    let mut options = ServerOptions::default();
    let mut log = None;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("help") | Short('h') => return Ok(Command::Help(help)),
            Long("version") | Short('V') => return Ok(Command::Version),
            Long("user") if word == "backup" => options.user = Some(parser.value()?),
            Long("password-file") if word == "backup" => options.password_file = Some(parser.value()?.into()),
            Long("pool") if word == "backup" => options.pool = Some(parser.value()?.into()),
            Long("log-dir") if word == "inspect" || word == "check" => log = Some(PathBuf::from(parser.value()?)),
            Value(path) if paths.len() < wanted.len() => paths.push(PathBuf::from(path)),
            argument => return Err(argument.unexpected()),
        }
    }
    if let Some(missing) = wanted.get(paths.len()) {
        return Err(format!("{missing} is missing").into());
    }
    let last = paths.pop().unwrap_or_default();
    let first = paths.pop().unwrap_or_default();
    Ok(match word.to_str() {
        Some("inspect") => Command::Inspect(Place { directory: last, log }),
        Some("check") => Command::Check(Place { directory: last, log }),
        Some("restore") => Command::Restore(first, last),
        _ => Command::Backup(options.request(first, last)?),
    })
}

/// Options of `perdura backup`.
#[derive(Default)]
struct ServerOptions {
    user: Option<OsString>,
    password_file: Option<PathBuf>,
    pool: Option<PathBuf>,
}

impl ServerOptions {
    fn request(self, socket: PathBuf, target: PathBuf) -> Result<backup::Request, lexopt::Error> {
        let ServerOptions { user, password_file, pool } = self;
        let user = user.unwrap_or_else(|| "root".into()).into_string()?;
        let account = Account { socket, user, password_file };
        Ok(backup::Request { account, target, pool })
    }
}

/// Prints the message of a failure and returns its exit status.
fn status(outcome: Result<(), pool::Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err((status, message)) => {
            eprintln!("perdura: {message}");
            ExitCode::from(status)
        }
    }
}

fn run(place: &Place, print: fn(&dyn Medium, &Report)) -> ExitCode {
    match pool::open_and_check(&place.directory, place.log.as_deref()) {
        Ok((medium, report)) => {
            print(&*medium, &report);
            if report.problems.is_empty() { output::status() } else { ExitCode::from(1) }
        }
        Err(failure) => status(Err(failure)),
    }
}
