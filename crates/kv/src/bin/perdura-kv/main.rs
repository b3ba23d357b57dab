//! The `perdura-kv` command: a replica of a cluster, and what operators do to one.
//!
//! - `serve` runs a replica; `init`, `join` and `restore` make its data ([`creation`]); `check`
//!   looks at them ([`check`])
//! - `recover` makes a new cluster of what one has left that has lost its quorum ([`recovery`])
//! - `status`, `members`, `transfer` and `backup` ask a running one ([`operators`]), by the address
//!   for replicas ([`line`])
//!
//! Exit status: 0 done; 1 the data are damaged, or for `status` the replica is not ready; 2 it
//! could not be done, or the command is wrong.

#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod backup_file;
mod check;
mod creation;
mod line;
mod operators;
mod outcome;
mod recovery;
mod words;

use std::process::ExitCode;

use outcome::{Failure, Outcome};
use words::{Command, SnapshotTransfer};

/// Requests and entries are many small pieces of memory, made and given back in one thread.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
usage: perdura-kv serve --config FILE                      run the replica
       perdura-kv init --config FILE                       make the first replica of a new cluster
       perdura-kv join --config FILE --to HOST:PORT        make a replica that joins the cluster of a member at its peers address
       perdura-kv status --config FILE [--to HOST:PORT] [--json]
                                                           how a replica and its cluster stand
       perdura-kv members remove|promote --config FILE [--to HOST:PORT] ID
       perdura-kv members add --config FILE [--to HOST:PORT] ID PEERS-ADDRESS CLIENTS-ADDRESS
                                                           change the members; join adds a replica by itself
       perdura-kv transfer --config FILE [--to HOST:PORT] ID
                                                           hand leadership over
       perdura-kv backup --config FILE [--to HOST:PORT] BACKUP
                                                           copy the data of the cluster into a new file
       perdura-kv restore --config FILE BACKUP             make the first replica of a new cluster with the data of a backup
       perdura-kv recover --config FILE --from BACKUP|DIRECTORY
                                                           make the first replica of a new cluster with the data of a backup, or of the
                                                           directory of a replica of a cluster that has lost its quorum for good
       perdura-kv check --config FILE                      check the data of a replica that is not running
       perdura-kv --version

FILE is the replica's configuration; docs/kv-config.md has every option. Without --to, the replica of that configuration is asked.
Exit status: 0 done; 1 the data are damaged, or (status) the replica cannot serve; 2 it could not be done, or the command is wrong.";

fn main() -> ExitCode {
    let command = match words::parse(lexopt::Parser::from_env()) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("perdura-kv: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { status, text }) => {
            if !text.is_empty() {
                eprintln!("perdura-kv: {text}");
            }
            ExitCode::from(status)
        }
    }
}

fn run(command: Command) -> Outcome<()> {
    let (name, given) = match command {
        Command::Help => {
            println!("{USAGE}");
            return Ok(());
        }
        Command::Version => {
            println!("perdura-kv {}", env!("CARGO_PKG_VERSION"));
            return Ok(());
        }
        Command::Of(name, given) => (name, given),
    };
    let config = perdura_kv::config::Config::read(&given.config).map_err(Failure::refused)?;
    let SnapshotTransfer { to, from, json, words, .. } = given;
    match name {
        "serve" => {
            let log = perdura_kv::server::logger(&config.log);
            perdura_kv::server::run(config, &log).map_err(Failure::from)
        }
        "init" => creation::init(&config),
        "join" => creation::join(&config, &to.unwrap_or_default()),
        "restore" => creation::restore(&config, &words[0]),
        "recover" => recovery::recover(&config, &from.unwrap_or_default()),
        "check" => check::check(&config),
        "status" => operators::status(&config, to, json),
        "add" | "remove" | "promote" | "transfer" => operators::change(&config, to, name, &words),
        _ => operators::backup(&config, to, &words[0]),
    }
}
