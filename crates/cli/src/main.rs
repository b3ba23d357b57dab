//! The `perdura` command: `perdura inspect DIR` prints a pool's structures, `perdura check DIR` verifies them, both offline;
//! `perdura map ...` looks at ordered maps and changes them ([`map`]).
//!
//! Exit status: 0 the pool is sound, 1 it is damaged, 2 the command or the directory could not be used.

#![forbid(unsafe_code)]

mod map;
mod report;

use perdura_engine::ErrorKind;
use perdura_engine::check::{Report, check};
use perdura_pmem::{FileMedium, Medium, Options};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

const USAGE: &str = "\
usage: perdura inspect DIR    print the structures of the pool in DIR
       perdura check DIR      verify every structure of the pool in DIR
       perdura map COMMAND    look at ordered maps and change them: see perdura map --help
       perdura --version

The pool must not be in use by a server. Nothing in it is changed.
Exit status: 0 sound, 1 damaged, 2 not a pool, in use, or a wrong command.";

enum Command {
    Inspect(PathBuf),
    Check(PathBuf),
    Map(lexopt::Parser),
    Version,
    Help,
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
        Command::Help => println!("{USAGE}"),
        Command::Version => println!("perdura {}", env!("CARGO_PKG_VERSION")),
        Command::Inspect(directory) => return run(&directory, report::inspect),
        Command::Map(words) => return map::run(words),
        Command::Check(directory) => return run(&directory, report::check),
    }
    ExitCode::SUCCESS
}

fn parse() -> Result<Command, lexopt::Error> {
    use lexopt::prelude::{Long, Short, Value};
    let mut parser = lexopt::Parser::from_env();
    let word = match parser.next()? {
        Some(Long("version") | Short('V')) => return Ok(Command::Version),
        Some(Long("help") | Short('h')) => return Ok(Command::Help),
        Some(Value(word)) if word == "map" => return Ok(Command::Map(parser)),
        Some(Value(word)) => word,
        Some(argument) => return Err(argument.unexpected()),
        None => return Err("a command is missing".into()),
    };
    let directory = match parser.next()? {
        Some(Value(directory)) => PathBuf::from(directory),
        Some(argument) => return Err(argument.unexpected()),
        None => return Err("the pool's directory is missing".into()),
    };
    if let Some(argument) = parser.next()? {
        return Err(argument.unexpected());
    }
    match word.to_str() {
        Some("inspect") => Ok(Command::Inspect(directory)),
        Some("check") => Ok(Command::Check(directory)),
        _ => Err(format!("{} is not a command", word.display()).into()),
    }
}

fn run(directory: &Path, print: fn(&dyn Medium, &Report)) -> ExitCode {
    match open_and_check(directory) {
        Ok((medium, report)) => {
            print(&*medium, &report);
            if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err((status, message)) => {
            eprintln!("perdura: {message}");
            ExitCode::from(status)
        }
    }
}

fn open_and_check(directory: &Path) -> Result<(Arc<dyn Medium>, Report), (u8, String)> {
    // Reading needs no persistence, so any medium will do.
    let options = Options { emulate: true, ..Options::default() };
    let medium: Arc<dyn Medium> =
        Arc::new(FileMedium::open(directory, options).map_err(|error| (2, error.to_string()))?);
    let mut progress = Progress::default();
    let checked = check(medium.clone(), &mut |table, percent| progress.show(table, percent));
    progress.end();
    match checked {
        Ok(report) => Ok((medium, report)),
        Err(error) if error.kind() == ErrorKind::Damaged => Err((1, error.to_string())),
        Err(error) => Err((2, error.to_string())),
    }
}

/// A line on a terminal's standard error that says how far the check is.
#[derive(Default)]
struct Progress {
    last: Option<(String, u64)>,
}

impl Progress {
    fn show(&mut self, table: &str, percent: u64) {
        let now = (table.to_owned(), percent);
        if std::io::stderr().is_terminal() && self.last.as_ref() != Some(&now) {
            eprint!("\r\x1b[Kchecking {table}: {percent} %");
            // Progress that cannot be shown is no reason to fail.
            let _ = std::io::stderr().flush();
            self.last = Some(now);
        }
    }

    fn end(&self) {
        if self.last.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
