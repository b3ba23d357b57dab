//! COMMAND: what is known of commands.

use bytes::Bytes;

use super::lookup::lookup;
use crate::command::{self, Access, Command, Places, help, pattern};
use crate::resp::Reply;

/// Most names that INFO and DOCS take: what they say of a command is much longer than its name.
const NAMES_MAX: usize = 1000;

/// COMMAND and what follows.
pub(super) fn answer(inner: &str, request: &[Bytes]) -> Reply {
    match inner {
        "" => Reply::Array(outermost().map(described).collect()),
        "count" => Reply::Integer(outermost().count() as i64),
        "info" | "docs" if request.len() > 2 + NAMES_MAX => Reply::error(format!("{NAMES_MAX} names at most")),
        "info" if request.len() == 2 => Reply::Array(outermost().map(described).collect()),
        "info" => {
            let one = |name: &Bytes| named(name).map_or(Reply::NullArray, described);
            Reply::Array(request[2..].iter().map(one).collect())
        }
        "docs" => {
            let wanted: Vec<&Command> = match &request[2..] {
                [] => outermost().collect(),
                names => names.iter().filter_map(|name| named(name)).collect(),
            };
            Reply::Map(wanted.into_iter().map(|one| (Reply::text(one.name), documented(one))).collect())
        }
        "list" => list(&request[2..]),
        "getkeys" | "getkeysandflags" => keys(inner, &request[2..]),
        _ => help("command"),
    }
}

fn outermost() -> impl Iterator<Item = &'static Command> {
    command::all().filter(|command| !command.name.contains('|'))
}

/// A command by its name, also of one within another: `client|id`.
fn named(name: &[u8]) -> Option<&'static Command> {
    let name = name.to_ascii_lowercase();
    command::all().find(|command| command.name.as_bytes() == name)
}

fn flags(command: &Command) -> Reply {
    let access = match command.access {
        Access::Read => "readonly",
        Access::Write => "write",
        Access::None => "",
    };
    let all = [access].into_iter().chain(command.flags.split(' ')).filter(|flag| !flag.is_empty());
    Reply::Set(all.map(Reply::Status).collect())
}

/// Reply of COMMAND INFO: name, arity, flags, keys, categories, hints, keys again, commands within.
fn described(command: &'static Command) -> Reply {
    let Places { first, last, step } = command.places;
    let categories = command.all_categories().map(|one| Reply::text(format!("@{one}")));
    let inner = command::within(command.name).map(described);
    Reply::Array(vec![
        Reply::text(command.name),
        Reply::Integer(command.arity),
        flags(command),
        Reply::Integer(first),
        Reply::Integer(last),
        Reply::Integer(step),
        Reply::Set(categories.collect()),
        Reply::Array(Vec::new()),
        Reply::Array(all_places(command)),
        Reply::Array(inner.collect()),
    ])
}

fn words(flags: &[&'static str]) -> Reply {
    Reply::Set(flags.iter().map(|word| Reply::Status(word)).collect())
}

/// The places of a command's keys: one list for each kind of key.
fn all_places(command: &Command) -> Vec<Reply> {
    let Places { first, last, step } = command.places;
    if step == 0 {
        return Vec::new();
    }
    let flags = |at: usize| command.key_access(&[], at).flags();
    if command.name == "set" {
        // Its options decide what it does to its key.
        return vec![places(&["RW", "access", "update", "variable_flags"], command.places)];
    }
    if last > 0 && flags(0) != flags(1) {
        return (first..=last)
            .map(|place| places(flags((place - first) as usize), Places { first: place, last: place, step }))
            .collect();
    }
    vec![places(flags(0), command.places)]
}

fn places(flags: &[&'static str], Places { first, last, step }: Places) -> Reply {
    let text = |text: &str| Reply::text(text);
    let map = |kind: &str, spec: Vec<(Reply, Reply)>| {
        Reply::Map(vec![(text("type"), text(kind)), (text("spec"), Reply::Map(spec))])
    };
    // Counted from the first key, or from the end if negative.
    let last = if last < 0 { last } else { last - first };
    Reply::Map(vec![
        (text("flags"), words(flags)),
        (text("begin_search"), map("index", vec![(text("index"), Reply::Integer(first))])),
        (
            text("find_keys"),
            map(
                "range",
                vec![
                    (text("lastkey"), Reply::Integer(last)),
                    (text("keystep"), Reply::Integer(step)),
                    (text("limit"), Reply::Integer(0)),
                ],
            ),
        ),
    ])
}

fn documented(command: &'static Command) -> Reply {
    let mut pairs = vec![
        (Reply::text("summary"), Reply::text(command.summary)),
        (Reply::text("since"), Reply::text(command.since)),
        (Reply::text("group"), Reply::text(command.group)),
    ];
    let inner: Vec<_> = command::within(command.name).map(|one| (Reply::text(one.name), documented(one))).collect();
    if !inner.is_empty() {
        pairs.push((Reply::text("subcommands"), Reply::Map(inner)));
    }
    Reply::Map(pairs)
}

fn list(options: &[Bytes]) -> Reply {
    let names = |wanted: &dyn Fn(&Command) -> bool| {
        let found = command::all().filter(|command| wanted(command));
        Reply::Array(found.map(|command| Reply::text(command.name)).collect())
    };
    let [by, kind, value] = options else {
        return if options.is_empty() { names(&|one| !one.name.contains('|')) } else { Reply::error("syntax error") };
    };
    if let Err(refusal) = pattern::check(value) {
        return refusal.into_reply();
    }
    match (&by.to_ascii_uppercase()[..], &kind.to_ascii_uppercase()[..]) {
        (b"FILTERBY", b"PATTERN") => names(&|one| pattern::matches(&value.to_ascii_lowercase(), one.name.as_bytes())),
        (b"FILTERBY", b"ACLCAT") => {
            let value = String::from_utf8_lossy(value).to_lowercase();
            names(&|one| one.all_categories().any(|category| category == value))
        }
        (b"FILTERBY", b"MODULE") => Reply::Array(Vec::new()),
        _ => Reply::error("syntax error"),
    }
}

fn keys(inner: &str, request: &[Bytes]) -> Reply {
    if command::find(&request[0]).is_none() {
        return Reply::error("Invalid command specified");
    }
    let Ok(command) = lookup(request) else {
        return Reply::error("Invalid number of arguments specified for command");
    };
    let mut keys = command.keys(request).enumerate().peekable();
    if keys.peek().is_none() {
        return Reply::error("The command has no key arguments");
    }
    let bare = |key: &Bytes| Reply::Bytes(Bytes::copy_from_slice(key));
    let flagged =
        |(at, key): (usize, &Bytes)| Reply::Array(vec![bare(key), words(command.key_access(request, at).flags())]);
    Reply::Array(if inner == "getkeys" {
        keys.map(|(_, key)| bare(key)).collect()
    } else {
        keys.map(flagged).collect()
    })
}
