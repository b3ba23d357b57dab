//! `perdura map`: reads and changes ordered maps, and dumps and loads them in the text format of
//! mdb_dump and db_dump.
//!
//! Every command opens the map as a program would, so opening a map after a crash recovers its
//! newest persist. A command that changes the map persists the change before it reports
//! success.

mod arguments;
mod batch;
mod dump;
mod load;
mod open;
mod outcome;
mod pairs;
mod show;
mod text;

use crate::output::{self, say};
use arguments::{Action, Request};
use outcome::Outcome;
use std::process::ExitCode;

/// Output of `perdura map --help`.
pub const USAGE: &str = "\
usage: perdura map create DIR NAME --bytes N[K|M|G] [--kind list|btree] [--page-bytes N] [--branching N] [--emulate]
       perdura map info DIR NAME      kind, timestamps, keys, and how the space is used
       perdura map check DIR NAME     verify everything in the map
       perdura map get DIR NAME KEY [--at TS] [-x]
       perdura map put DIR NAME KEY VALUE [-x] [--emulate]
       perdura map remove DIR NAME KEY [-x] [--emulate]
       perdura map batch DIR NAME [--tag TAG] [-f FILE] [-x] [--emulate]
       perdura map scan DIR NAME [--prefix KEY | --from KEY --to KEY] [--limit N] [--at TS] [-x]
       perdura map mutations DIR NAME [--from TS] [-x]
       perdura map meta DIR NAME [-x]
       perdura map set-meta DIR NAME META [-x] [--emulate]
       perdura map apply DIR NAME TS [--emulate]
       perdura map rollback DIR NAME TS [--emulate]
       perdura map forget DIR NAME TS [--emulate]
       perdura map dump DIR NAME [-p] [-f FILE] [--at TS]
       perdura map load DIR NAME [-T] [-N] [-f FILE] [--bytes N[K|M|G] --kind list|btree] [--emulate]

NAME is the map's file in DIR; no other process may have it open. `scan --to` is exclusive. `--at` reads at a timestamp; without
it a command reads the newest versions, applied or not. `-x` takes and prints keys and values in hexadecimal.
`mutations` prints the changes that are not forgotten, a line each with tabs between its parts: timestamp; `set`, `delete` or `tag`;
key, value or tag. `batch` reads such lines without the timestamp, and makes all of them one change or, also after a crash, none.
`apply` declares the changes up to a timestamp final, `rollback` takes back those from one on, which are not applied, and `forget`
gives up what is older than the state at one.
`meta` prints the blob that a program keeps beside the keys.
`dump` writes and `load` reads the format of mdb_dump and db_dump: `dump -p` prints printable characters as they are, `load -T`
reads bare lines of key and value in turn, `load -N` keeps existing values. `load` creates the map if there is none.
`--emulate` changes a map that is not on persistent memory: it survives a crash of the process, not a loss of power.
Exit status: 0 done, 1 damaged, 2 no map, in use, refused, or a wrong command, 3 the key has no value.";

/// Carries out the command in the words after `map`.
pub fn run(words: lexopt::Parser) -> ExitCode {
    let request = match arguments::parse(words) {
        Ok(Some(request)) => request,
        Ok(None) => {
            say!("{USAGE}");
            return output::status();
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
    // Reading needs no persistence, so any medium will do for it.
    let emulate = request.emulate || !request.action.changes();
    let medium = open::medium(&request.directory, emulate, matches!(request.action, Action::Create { .. }))?;
    let name = request.name.as_str();
    match &request.action {
        Action::Create { kind, layout } => return open::create(&medium, name, *kind, layout).map(|_| ()),
        Action::Load(how) => return load::run(&medium, name, how),
        _ => {}
    }
    let map = perdura_map::open(&medium, name, &open::config())?;
    match &request.action {
        Action::Info => show::info(&*medium, name, &*map),
        Action::Check => show::check(&*map),
        Action::Get { key, at } => show::get(&*map, key, *at, request.hex),
        Action::Scan(range) => show::scan(&*map, range, request.hex),
        Action::Dump(how) => dump::run(&*medium, name, &*map, how),
        Action::Put { key, value } => {
            map.put(key, value)?;
            Ok(map.persist()?)
        }
        Action::Remove { key } => {
            if !map.remove(key)? {
                return Err(outcome::absent(key));
            }
            Ok(map.persist()?)
        }
        Action::Batch { tag, file } => batch::run(&*map, tag, file.as_deref(), request.hex),
        Action::Mutations { from } => show::mutations(&*map, *from, request.hex),
        Action::Meta => show::bytes(&map.meta(), request.hex),
        Action::SetMeta { meta } => {
            map.set_meta(meta)?;
            Ok(map.persist()?)
        }
        Action::Apply { ts } => {
            map.apply(*ts)?;
            Ok(map.persist()?)
        }
        Action::Rollback { from } => {
            map.rollback(*from)?;
            Ok(map.persist()?)
        }
        Action::Forget { up_to } => {
            map.forget(*up_to)?;
            Ok(map.persist()?)
        }
        Action::Create { .. } | Action::Load(_) => Ok(()),
    }
}
