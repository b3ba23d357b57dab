//! `perdura map`: looks at ordered maps, changes them, and takes them to and from the text that mdb_dump and db_dump write.
//!
//! Every command opens the map as a program would, so a map left by a crash is brought to its newest confirmation first.
//! Those that change it confirm before they say so.

mod arguments;
mod dump;
mod failure;
mod load;
mod open;
mod pairs;
mod show;
mod text;

use arguments::{Action, Request};
use failure::{Failure, Outcome, absent};
use open::{config, create};
use perdura_pmem::{FileMedium, Medium, Options};
use std::process::ExitCode;
use std::sync::Arc;

/// What `perdura map --help` says.
pub const USAGE: &str = "\
usage: perdura map create DIR NAME --bytes N[K|M|G] [--kind list|btree] [--page-bytes N] [--branching N] [--emulate]
       perdura map info DIR NAME      kind, timestamps, keys, and how the space is used
       perdura map check DIR NAME     verify everything in the map
       perdura map get DIR NAME KEY [--at TS] [-x]
       perdura map put DIR NAME KEY VALUE [-x] [--emulate]
       perdura map remove DIR NAME KEY [-x] [--emulate]
       perdura map scan DIR NAME [--prefix KEY | --from KEY --to KEY] [--limit N] [--at TS] [-x]
       perdura map dump DIR NAME [-p] [-f FILE] [--at TS]
       perdura map load DIR NAME [-T] [-N] [-f FILE] [--bytes N[K|M|G] --kind list|btree] [--emulate]

NAME is the map's file in DIR, which must not be in use. `scan --to` is exclusive. `--at` reads at a timestamp; without it
the newest versions are read, applied or not. `-x` takes keys and values, and prints them, in hexadecimal.
`dump` writes, and `load` reads, the format of mdb_dump and db_dump (`-p` prints what is printable, `-T` reads bare lines of
key and value in turn, `-N` keeps the values that are there); `load` makes the map if there is none.
`--emulate` changes a map that is not on persistent memory: it survives a crash of the process, not a loss of power.
Exit status: 0 done, 1 damaged, 2 not a map, in use, refused, or a wrong command, 3 the key has no value.";

/// Takes the words after `map`.
pub fn run(words: lexopt::Parser) -> ExitCode {
    let request = match arguments::parse(words) {
        Ok(Some(request)) => request,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("perdura: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match perform(&request) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("perdura: {}", failure.message);
            }
            ExitCode::from(failure.status)
        }
    }
}

fn perform(request: &Request) -> Outcome {
    let medium = medium(request)?;
    let name = request.name.as_str();
    match &request.action {
        Action::Create { kind, layout } => return create(&medium, name, *kind, layout).map(|_| ()),
        Action::Load(how) => return load::run(&medium, name, how),
        _ => {}
    }
    let map = perdura_map::open(&medium, name, &config())?;
    match &request.action {
        Action::Info => show::info(&*medium, name, &*map),
        Action::Check => show::check(&*map),
        Action::Get { key, at } => show::get(&*map, key, *at, request.hex),
        Action::Scan(range) => show::scan(&*map, range, request.hex),
        Action::Dump(how) => dump::run(&*medium, name, &*map, how),
        Action::Put { key, value } => {
            map.put(key, value)?;
            Ok(map.confirm()?)
        }
        Action::Remove { key } => {
            if !map.remove(key)? {
                return Err(absent(key));
            }
            Ok(map.confirm()?)
        }
        Action::Create { .. } | Action::Load(_) => Ok(()),
    }
}

/// The request's directory. Reading needs no persistence, so any medium will do for it.
fn medium(request: &Request) -> Outcome<Arc<dyn Medium>> {
    let emulate = request.emulate || !request.action.changes();
    match FileMedium::open(
        &request.directory,
        Options { emulate, create_dir: matches!(request.action, Action::Create { .. }) },
    ) {
        Ok(medium) => Ok(Arc::new(medium)),
        Err(error) if error.kind() == perdura_pmem::ErrorKind::NotDax => {
            Err(Failure::new(format!("{error}: --emulate")))
        }
        Err(error) => Err(Failure::new(error.to_string())),
    }
}
