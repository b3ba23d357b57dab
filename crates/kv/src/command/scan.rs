//! Listings in parts: SCAN, whose cursor is a number, and PERDURA.RANGE, which goes on behind a
//! key.

use std::ops::Bound;

use bytes::Bytes;

use super::arguments::{Arguments, integer, syntax};
use super::pattern;
use super::{Access, Command, NO_KEY, Outcome, PLACES_MAX, Run, wrong};
use crate::machine::draft::Draft;
use crate::resp::Reply;

/// Most keys that one command looks at, and most bytes that it returns, beyond the last key.
const LOOKED_AT_MAX: usize = 10_000;
const BYTES_MAX: usize = 4 << 20;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "scan", flags: "", categories: "keyspace", group: "generic", since: "2.8.0", arity: -2, access: Access::Read, places: NO_KEY, run: Run::Draft(scan), summary: "Returns some keys, in order, and a cursor to go on with." },
    Command { name: "perdura.range", flags: "", categories: "keyspace", group: "generic", since: "perdura", arity: -1, access: Access::Read, places: NO_KEY, run: Run::Draft(range), summary: "Returns keys of a range in order, with their values if wanted." },
];

/// Filter of the listed keys.
struct Wanted<'a> {
    pattern: &'a [u8],
    prefix: &'a [u8],
    from: Bound<&'a [u8]>,
    before: Option<&'a [u8]>,
    count: usize,
    has_values: bool,
    /// Whether a cursor leads on, also behind keys of which none is returned.
    has_cursor: bool,
    /// Whether there are keys of the type at all.
    is_type_known: bool,
}

impl<'a> Wanted<'a> {
    fn parse(arguments: &mut Arguments<'a>, is_scan: bool) -> Outcome<Self> {
        let mut wanted = Wanted {
            pattern: b"*",
            prefix: b"",
            from: Bound::Unbounded,
            before: None,
            count: if is_scan { 10 } else { 100 },
            has_values: false,
            has_cursor: is_scan,
            is_type_known: true,
        };
        while let Some(option) = arguments.option() {
            match (&option[..], is_scan) {
                (b"COUNT", _) => {
                    let count = integer(arguments.take()?)?;
                    if count < 1 {
                        return syntax();
                    }
                    wanted.count = usize::try_from(count).unwrap_or(usize::MAX).min(LOOKED_AT_MAX);
                }
                (b"MATCH", _) => {
                    wanted.pattern = arguments.take()?;
                    pattern::check(wanted.pattern)?;
                }
                (b"PREFIX", _) => wanted.prefix = arguments.take()?,
                (b"FROM", _) => wanted.begin_at(Bound::Included(arguments.take()?)),
                (b"AFTER", false) => wanted.begin_at(Bound::Excluded(arguments.take()?)),
                (b"BEFORE", _) => wanted.before = Some(arguments.take()?),
                (b"TYPE", true) => wanted.is_type_known = arguments.take()?.eq_ignore_ascii_case(b"string"),
                (b"WITHVALUES", false) => wanted.has_values = true,
                _ => return syntax(),
            }
        }
        Ok(wanted)
    }

    /// Lists nothing before a bound: of several, the last counts.
    fn begin_at(&mut self, bound: Bound<&'a [u8]>) {
        let place = |bound: &Bound<&'a [u8]>| match *bound {
            Bound::Included(key) => Some((key, false)),
            Bound::Excluded(key) => Some((key, true)),
            Bound::Unbounded => None,
        };
        if place(&bound) > place(&self.from) {
            self.from = bound;
        }
    }

    /// The keys that match, of the next `count`, and the last one looked at if there may be more.
    fn list(&self, draft: &Draft<'_>) -> Outcome<(Vec<Bytes>, Option<Vec<u8>>)> {
        let of_pattern = pattern::prefix(self.pattern);
        let prefix = if self.prefix.starts_with(&of_pattern) { self.prefix } else { &of_pattern[..] };
        let (mut found, mut last, mut left, mut bytes) = (Vec::new(), None, self.count, 0);
        if !prefix.starts_with(self.prefix) {
            return Ok((found, last));
        }
        draft.keys_or_ended(prefix, self.from, &mut |key, is_there| {
            if self.before.is_some_and(|before| &key[..] >= before) {
                last = None;
                return false;
            }
            // Keys that have ended are not there, but looked at. A client without a cursor takes a
            // page without keys for the end.
            if is_there || self.has_cursor {
                bytes += key.len();
                left = left.saturating_sub(1);
            }
            if is_there {
                let (is_match, steps) = pattern::matched(self.pattern, &key);
                draft.look_at(steps / pattern::STEPS_A_PLACE);
                left = left.saturating_sub(steps / pattern::STEPS_A_PLACE);
                if self.is_type_known && is_match {
                    found.push(Bytes::copy_from_slice(&key));
                }
            }
            let goes_on = left > 0 && bytes < BYTES_MAX && !draft.has_looked_at_all();
            last = (!goes_on).then_some(key);
            goes_on
        })?;
        if draft.has_looked_at_all() && found.is_empty() && !self.has_cursor {
            return wrong(format!(
                "the next {PLACES_MAX} keys have ended and are not cleared away yet, or do not match: try again, or use SCAN"
            ));
        }
        Ok((found, last))
    }
}

fn scan(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let cursor = str::from_utf8(arguments.take()?).ok().and_then(|text| text.parse::<u64>().ok());
    let (Some(cursor), Some((memory, user))) = (cursor, draft.memory()) else { return wrong("invalid cursor") };
    let mut wanted = Wanted::parse(&mut arguments, true)?;
    let last;
    if cursor != 0 {
        let Some(key) = memory.key(&user, cursor) else {
            return wrong("this replica does not know the cursor (any more): begin again with 0, or use PERDURA.RANGE");
        };
        last = key;
        wanted.begin_at(Bound::Excluded(&last));
    }
    let (found, next) = wanted.list(draft)?;
    let cursor = memory.advance(&user, cursor, next);
    let found = found.into_iter().map(Reply::Bytes).collect();
    Ok(Reply::Array(vec![Reply::text(cursor.to_string()), Reply::Array(found)]))
}

fn range(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let wanted = Wanted::parse(&mut arguments, false)?;
    let (found, _) = wanted.list(draft)?;
    let (mut replies, mut bytes) = (Vec::with_capacity(found.len()), 0);
    for key in found {
        if !wanted.has_values {
            replies.push(Reply::Bytes(key));
            continue;
        }
        if bytes >= BYTES_MAX {
            break;
        }
        let Some(head) = draft.head(&key)? else { continue };
        bytes += head.value.len();
        replies.push(Reply::Array(vec![Reply::Bytes(key), Reply::Bytes(head.value)]));
    }
    Ok(Reply::Array(replies))
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Draft, LOOKED_AT_MAX, PLACES_MAX};
    use crate::command::Refusal;
    use crate::command::find;
    use crate::command::tests::{Many, Table};
    use crate::resp::Reply;
    use bytes::Bytes;
    use std::sync::Arc;

    /// Hazard: a listing passes over all keys that have ended and are not cleared away before it
    /// returns one that has not: millions of them after a burst, in one step.
    #[test]
    fn keys_that_have_ended_are_looked_at_too() {
        let mut table = Table::at(1_000);
        for number in 0..5000 {
            table.does(&format!("SET ended:{number:04} v PX 1"));
        }
        table.does("SET key v");
        table.now_ms += 1;
        let (mut cursor, mut pages, mut found) = ("0".to_owned(), 0, Vec::new());
        loop {
            let request = ["SCAN", &cursor, "COUNT", "100"].map(|word| Bytes::copy_from_slice(word.as_bytes()));
            let mut draft = Draft::new(&table.source, table.now_ms, 1);
            draft.remember(&table.memory, &Bytes::new());
            let Ok(Reply::Array(page)) = find(b"scan").expect("SCAN").run(&request, &mut draft) else {
                panic!("no page")
            };
            assert!(draft.places() <= 101, "{} places", draft.places());
            let [Reply::Bytes(next), Reply::Array(keys)] = &page[..] else { panic!("{page:?}") };
            found.extend(keys.iter().cloned());
            (cursor, pages) = (String::from_utf8_lossy(next).into_owned(), pages + 1);
            if cursor == "0" {
                break;
            }
        }
        assert_eq!((pages, found), (51, vec![Reply::text("key")]));
        // Without a cursor no answer without keys looks like the end.
        assert_eq!(table.does("PERDURA.RANGE COUNT 1"), Reply::Array(vec![Reply::text("key")]));
        let many = Many { count: 2 * PLACES_MAX, length: 10, deadline_ms: Some(1) };
        let mut draft = Draft::new(&many, 1_000, 1);
        let refused = find(b"perdura.range").expect("it").run(&[Bytes::from_static(b"PERDURA.RANGE")], &mut draft);
        assert!(matches!(refused, Err(Refusal::Wrong(Reply::Error(text))) if text.contains("try again")));
        assert!(draft.places() <= PLACES_MAX + 2, "{} places", draft.places());
    }

    fn table() -> Table {
        let mut table = Table::at(1_000);
        for number in 0..100 {
            table.does(&format!("SET key:{number:02} v{number}"));
        }
        table.does("SET other x");
        table
    }

    /// All that SCAN returns in turn.
    fn all(table: &mut Table, options: &str) -> Vec<String> {
        let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let Reply::Array(parts) = table.does(&format!("SCAN {cursor} {options}")) else { panic!("no array") };
            let [Reply::Bytes(next), Reply::Array(keys)] = &parts[..] else { panic!("{parts:?}") };
            found.extend(keys.iter().map(|key| format!("{key:?}")));
            cursor = String::from_utf8(next.to_vec()).expect("a number");
            if cursor == "0" {
                return found;
            }
        }
    }

    #[test]
    fn pages_join_without_a_gap() {
        let mut table = table();
        for count in [1, 7, 100, 101] {
            assert_eq!(all(&mut table, &format!("MATCH key:*[05] COUNT {count}")).len(), 20, "{count}");
            assert_eq!(all(&mut table, &format!("PREFIX key:5 COUNT {count}")).len(), 10, "{count}");
            assert_eq!(all(&mut table, &format!("FROM key:20 BEFORE key:50 COUNT {count}")).len(), 30, "{count}");
        }
        assert_eq!(all(&mut table, "TYPE string").len(), 101);
        assert_eq!(all(&mut table, "TYPE hash").len(), 0);
        assert!(all(&mut table, "COUNT 3").is_sorted());
        assert_eq!(all(&mut table, "PREFIX key MATCH other").len(), 0);
        table.replies(&[
            ("SCAN x", "-ERR invalid cursor"),
            ("SCAN 0 COUNT 0", "-ERR syntax error"),
            ("SCAN 0 COUNT x", "-ERR value is not an integer or out of range"),
            ("SCAN 0 MATCH", "-ERR syntax error"),
            (
                "SCAN 9",
                "-ERR this replica does not know the cursor (any more): begin again with 0, or use PERDURA.RANGE",
            ),
        ]);
    }

    /// Hazard: keys are held against a pattern that is a thousand times as long as any key.
    #[test]
    fn a_pattern_is_no_longer_than_a_key() {
        let refused = "-ERR a pattern of 32001 bytes is too long: 32000 at most";
        for line in ["KEYS", "PERDURA.RANGE MATCH", "SCAN 0 MATCH"] {
            table().replies(&[(&format!("{line} {}", "x".repeat(32_001)), refused)]);
        }
        table().replies(&[(&format!("KEYS {}", "x".repeat(32_000)), "*0")]);
    }

    /// Hazard: one SCAN or PERDURA.RANGE lists all there is, or copies all values.
    #[test]
    fn one_part_of_a_listing_is_bounded_whatever_is_asked_for() {
        let does = |many: &Many, line: &str| -> Vec<Reply> {
            let request: Vec<Bytes> = line.split(' ').map(|word| Bytes::from(word.to_owned())).collect();
            let mut draft = Draft::new(many, 1, 1);
            draft.remember(&Arc::default(), &Bytes::new());
            match find(&request[0]).expect("a command").run(&request, &mut draft) {
                Ok(Reply::Array(mut parts)) if parts.len() == 2 => match parts.remove(1) {
                    Reply::Array(keys) => keys,
                    other => panic!("{other:?}"),
                },
                Ok(Reply::Array(keys)) => keys,
                other => panic!("{other:?}"),
            }
        };
        for line in ["SCAN 0 COUNT 1000000", "PERDURA.RANGE COUNT 1000000"] {
            assert_eq!(
                does(&Many { count: 20_000, length: 10, deadline_ms: None }, line).len(),
                LOOKED_AT_MAX,
                "{line}"
            );
            let found = does(&Many { count: 20_000, length: 32_000, deadline_ms: None }, line).len();
            assert_eq!(found, BYTES_MAX.div_ceil(32_000), "{line}");
        }
        let mut table = Table::default();
        for number in 0..100 {
            table.does(&format!("SET {number} {}", "v".repeat(60_000)));
        }
        let Reply::Array(found) = table.does("PERDURA.RANGE WITHVALUES") else { panic!("no array") };
        assert_eq!(found.len(), BYTES_MAX.div_ceil(60_000));
    }

    #[test]
    fn a_range_goes_on_behind_a_key() {
        table().replies(&[
            ("PERDURA.RANGE FROM key:98", "*3 $6 key:98 $6 key:99 $5 other"),
            ("PERDURA.RANGE AFTER key:98 WITHVALUES COUNT 1", "*1 *2 $6 key:99 $3 v99"),
            ("PERDURA.RANGE PREFIX key:1 BEFORE key:12", "*2 $6 key:10 $6 key:11"),
            ("PERDURA.RANGE TYPE string", "-ERR syntax error"),
        ]);
    }
}
