//! The commands of clients: what each takes, and what it does to a draft.
//!
//! One table has them all; checks of arguments, the answers to COMMAND, and what a user may call
//! come from it.

mod arguments;
mod clock;
mod counters;
mod decimal;
mod definition;
mod expiry;
mod key_access;
mod keys;
mod listing;
mod others;
mod outcome;
pub(crate) mod pattern;
mod scan;
mod strings;
mod versions;

use std::sync::LazyLock;

use rustc_hash::{FxHashMap, FxHashSet};

pub use crate::machine::draft::PLACES_MAX;
use crate::resp::Reply;

pub(crate) use arguments::integer;
pub use definition::Command;
use definition::{ALL_KEYS, KEYS_AND_VALUES, NO_KEY, ONE_KEY, TWO_KEYS};
pub(crate) use definition::{Access, Places, Run};
pub(crate) use listing::Listing;
pub(crate) use outcome::{Outcome, Refusal};
use outcome::{bounded, wrong};
pub(crate) use strings::WORK_BYTES_MAX;

/// All commands. Those within another are named `client|id`.
pub fn all() -> impl Iterator<Item = &'static Command> {
    let on_drafts = [strings::COMMANDS, counters::COMMANDS, expiry::COMMANDS, keys::COMMANDS, listing::COMMANDS];
    on_drafts.into_iter().chain([scan::COMMANDS, versions::COMMANDS, others::COMMANDS, clock::COMMANDS]).flatten()
}

/// Longest name of a command.
const NAME_BYTES_MAX: usize = 32;

/// The commands by name.
static BY_NAME: LazyLock<FxHashMap<&'static [u8], &'static Command>> =
    LazyLock::new(|| all().map(|command| (command.name.as_bytes(), command)).collect());

/// The commands that have others within them.
static OUTER: LazyLock<FxHashSet<&'static str>> =
    LazyLock::new(|| all().filter_map(|command| Some(command.name.split_once('|')?.0)).collect());

/// Whether a command has others within it.
pub(crate) fn has_inner(outer: &Command) -> bool {
    OUTER.contains(outer.name)
}

/// The command of a name in any case.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    if name.contains(&b'|') { None } else { named(name) }
}

/// The command of a name within another, in any case.
pub(crate) fn find_within(outer: &Command, name: &[u8]) -> Option<&'static Command> {
    named(&[outer.name.as_bytes(), b"|", name].concat())
}

fn named(name: &[u8]) -> Option<&'static Command> {
    let mut small = [0; NAME_BYTES_MAX];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    BY_NAME.get(&*small).copied()
}

/// The commands within another, by name: `client|id` and so on.
pub(crate) fn within(name: &'static str) -> impl Iterator<Item = &'static Command> {
    all().filter(move |command| command.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('|')))
}

/// Reply of HELP about the commands within another.
pub(crate) fn help(name: &'static str) -> Reply {
    let lines = within(name).flat_map(|command| {
        let inner = command.name.split('|').next_back().unwrap_or_default().to_uppercase();
        [Reply::text(inner), Reply::text(format!("    {}", command.summary))]
    });
    let first =
        Reply::text(format!("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", name.to_uppercase()));
    Reply::Array([first].into_iter().chain(lines).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Access, PLACES_MAX, Refusal, all, find};
    use crate::machine::draft::tests::MemorySource;
    use crate::machine::draft::{Draft, Each, Part, Source, Unreadable};
    use crate::machine::head::Head;
    use crate::machine::key;
    use crate::machine::memory::Memory;
    use crate::resp::{Limits, Protocol, Reply, Requests};
    use bytes::{Bytes, BytesMut};
    use std::cell::Cell;
    use std::ops::{Bound, Range};
    use std::sync::Arc;

    /// A machine that runs commands as people type them.
    #[derive(Default)]
    pub(crate) struct Table {
        pub source: MemorySource,
        pub now_ms: u64,
        pub memory: Arc<Memory>,
        version: u64,
    }

    impl Table {
        pub(crate) fn at(now_ms: u64) -> Self {
            Self { now_ms, ..Self::default() }
        }

        pub(crate) fn does(&mut self, line: &str) -> Reply {
            let mut requests = Requests::default();
            requests.input().extend_from_slice(line.as_bytes());
            requests.input().extend_from_slice(b"\n");
            let request = requests.next(&Limits::USUAL).expect("a request").expect("a whole request");
            let command = find(&request[0]).unwrap_or_else(|| panic!("no command {line}"));
            self.version += 1;
            let mut draft = Draft::new(&self.source, self.now_ms, self.version);
            draft.remember(&self.memory, &Bytes::new());
            match command.run(&request, &mut draft) {
                Ok(reply) => {
                    assert!(draft.is_empty() || command.access == Access::Write, "{line} is a read");
                    let batch = draft.into_batch();
                    self.source.apply(batch);
                    reply
                }
                Err(refusal) => refusal.into_reply(),
            }
        }

        /// The replies to several lines, as RESP2 with spaces for the ends of lines.
        #[track_caller]
        pub(crate) fn replies(&mut self, cases: &[(&str, &str)]) {
            for (line, wanted) in cases {
                let mut out = BytesMut::new();
                self.does(line).write(Protocol::Resp2, &mut out);
                let said = String::from_utf8_lossy(&out).replace("\r\n", " ");
                assert_eq!(said.trim_end(), *wanted, "{line}");
            }
        }
    }

    /// So many keys of a length, which take no room.
    pub(crate) struct Many {
        pub count: usize,
        pub length: usize,
        pub deadline_ms: Option<u64>,
    }

    impl Source for Many {
        fn get(&self, _: &[u8]) -> Result<Option<Bytes>, Unreadable> {
            Ok(None)
        }

        fn part(&self, _: &[u8], _: Range<usize>) -> Result<Option<Part>, Unreadable> {
            Ok(None)
        }

        fn scan(&self, _: &[u8], _: Bound<&[u8]>, each: Each<'_>) -> Result<(), Unreadable> {
            let head = Head { version: 1, deadline_ms: self.deadline_ms, value: Bytes::new() }.stored().bytes();
            for number in 0..self.count {
                let name = format!("{number:0width$}", width = self.length);
                if !each(&key::head(0, name.as_bytes()), &head) {
                    break;
                }
            }
            Ok(())
        }
    }

    #[test]
    fn the_table_has_each_name_once_and_places_for_its_keys() {
        let mut names: Vec<&str> = all().map(|command| command.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for command in all() {
            assert_eq!(command.name, command.name.to_lowercase());
            assert!(command.arity != 0 && command.summary.ends_with('.'), "{}", command.name);
            assert_eq!(command.places.first == 0, command.places.step == 0, "{}", command.name);
            assert_eq!(find(command.name.as_bytes()).is_some(), !command.name.contains('|'), "{}", command.name);
        }
    }

    /// The versions of another source, and how many bytes of values were handed out.
    struct Counted<'a>(&'a MemorySource, Cell<usize>);

    impl Source for Counted<'_> {
        fn get(&self, place: &[u8]) -> Result<Option<Bytes>, Unreadable> {
            let found = self.0.get(place)?;
            self.1.set(self.1.get() + found.as_ref().map_or(0, Bytes::len));
            Ok(found)
        }

        fn part(&self, place: &[u8], range: Range<usize>) -> Result<Option<Part>, Unreadable> {
            let found = self.0.part(place, range)?;
            self.1.set(self.1.get() + found.as_ref().map_or(0, |(bytes, _)| bytes.len()));
            Ok(found)
        }

        fn scan(&self, prefix: &[u8], from: Bound<&[u8]>, each: Each<'_>) -> Result<(), Unreadable> {
            self.0.scan(prefix, from, each)
        }
    }

    /// Hazard: values are copied whole to see that a key is there. EXISTS of 2,000 names of 8 MiB
    /// held the reactor for seconds, and the leader lost its office. What a command hands out of a
    /// large value is a head, or what it returns.
    #[test]
    fn a_large_value_is_copied_only_for_who_wants_it() {
        const LARGE: usize = 50_000;
        let mut table = Table::at(1_000);
        let value = "v".repeat(LARGE);
        for line in ["SET a", "SET b", "SET c"] {
            table.does(&format!("{line} {value} PX 100000"));
        }
        for (line, most) in [
            ("EXISTS a b c a b c", 0),
            ("TOUCH a b c", 0),
            ("TYPE a", 0),
            ("STRLEN a", 0),
            ("TTL a", 0),
            ("PEXPIRETIME a", 0),
            ("GETRANGE a 5 14", 10),
            ("GETRANGE a -3 -1", 3),
            ("SETNX a x", 0),
            ("SET a x NX", 0),
            ("SET a x IFEQ y", 0),
            ("MSETNX d 1 a 2", 0),
            ("EXPIRE a 1 NX", 0),
            ("EXPIRE a 1 GT", 0),
            ("PERSIST none", 0),
            ("RENAMENX a b", 0),
            ("COPY a b", 0),
            ("SETRANGE a 5 ''", 0),
            ("INCR a", 0),
            ("INCRBYFLOAT a 1", 0),
            ("PERDURA.CAS a 99 x", 0),
            ("PERDURA.CAD a 99", 0),
            ("SCAN 0 COUNT 100", 0),
            ("PERDURA.RANGE", 0),
            ("RANDOMKEY", 0),
            ("GET a", LARGE),
            ("SET a x KEEPTTL", 0),
            ("SET b x", 0),
            ("DEL c", 0),
        ] {
            let counted = Counted(&table.source, Cell::new(0));
            let request: Vec<Bytes> = line.split(' ').map(|word| Bytes::from(word.replace("''", ""))).collect();
            let mut draft = Draft::new(&counted, table.now_ms, 1_000);
            draft.remember(&table.memory, &Bytes::from_static(b"default"));
            let _ = find(&request[0]).expect("a command").run(&request, &mut draft);
            let looked_at = draft.places();
            let handed = counted.1.get();
            // Beside the value: a head for each look, and the number of keys.
            assert!(handed <= most + 20 * (looked_at + 1), "{line}: {handed} bytes, {looked_at} places");
        }
        // The sweep of keys that have ended.
        let counted = Counted(&table.source, Cell::new(0));
        let mut draft = Draft::new(&counted, 1_000_000, 1_000);
        assert_eq!(crate::machine::sweep::sweep(&mut draft), Ok(3));
        assert!(counted.1.get() < 1_000, "{} bytes", counted.1.get());
    }

    /// Hazard: one command that names very many keys holds the reactor for as long as it takes.
    #[test]
    fn a_command_that_names_too_many_keys_is_refused() {
        let refused = Err(Refusal::Wrong(Reply::error(format!(
            "a command looks at {PLACES_MAX} keys at most, and one that it changes counts twice"
        ))));
        for (name, value) in [("EXISTS", false), ("DEL", false), ("MGET", false), ("MSET", true), ("MSETNX", true)] {
            for (count, fits) in [(PLACES_MAX / 4, true), (PLACES_MAX + 2, false)] {
                let names = (0..count).flat_map(|number| {
                    let key = Bytes::from(number.to_string());
                    if value { vec![key, Bytes::from_static(b"v")] } else { vec![key] }
                });
                let request: Vec<Bytes> = [Bytes::from(name)].into_iter().chain(names).collect();
                let source = MemorySource::default();
                let mut draft = Draft::new(&source, 1, 1);
                let outcome = find(&request[0]).expect("a command").run(&request, &mut draft);
                assert!(if fits { outcome.is_ok() } else { outcome == refused }, "{name} of {count}");
                assert!(draft.places() <= PLACES_MAX + 2, "{name}: {} places", draft.places());
            }
        }
    }

    /// Hazard: a name that comes again is found at once, and counts for nothing: a command of a
    /// million of them holds the reactor.
    #[test]
    fn names_that_come_again_count() {
        let (key, count) = (Bytes::from_static(b"key"), 4 * PLACES_MAX);
        for name in ["EXISTS", "DEL", "MGET", "MSET", "MSETNX", "TOUCH", "UNLINK"] {
            let mut table = Table::default();
            table.does("SET key v");
            let request: Vec<Bytes> =
                [Bytes::from(name)].into_iter().chain(std::iter::repeat_n(key.clone(), count)).collect();
            let mut draft = Draft::new(&table.source, 1, 1);
            let outcome = find(&request[0]).expect("a command").run(&request, &mut draft);
            let is_refused = matches!(outcome, Err(Refusal::Wrong(Reply::Error(text))) if text.contains("at most"));
            assert!(is_refused || name == "MSETNX", "{name}");
            assert!(draft.places() <= PLACES_MAX + 2, "{name}: {} places", draft.places());
        }
    }

    #[test]
    fn arguments_are_counted_and_keys_found() {
        let mut table = Table::default();
        table.replies(&[
            ("GET", "-ERR wrong number of arguments for 'get' command"),
            ("GET a b", "-ERR wrong number of arguments for 'get' command"),
            ("mSeT a 1 b", "-ERR wrong number of arguments for 'mset' command"),
        ]);
        let request: Vec<bytes::Bytes> = ["MSET", "a", "1", "b", "2"].map(bytes::Bytes::from).to_vec();
        let keys: Vec<_> = find(b"mset").expect("MSET").keys(&request).collect();
        assert_eq!(keys, ["a", "b"]);
        let long = "x".repeat(32_001);
        table.replies(&[(&format!("GET {long}"), "-ERR a key of 32001 bytes is too long: 32000 at most")]);
    }
}
