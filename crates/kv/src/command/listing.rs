//! Which keys there are, in their order.

use std::ops::Bound;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::arguments::Arguments;
use super::pattern;
use super::{Access, Command, NO_KEY, Outcome, PLACES_MAX, Run, bounded, wrong};
use crate::machine::draft::Draft;
use crate::resp::Reply;

/// Most keys, and bytes of keys, that KEYS returns: a reply must not fill the memory.
const KEYS_MAX: usize = 1 << 20;
const BYTES_MAX: usize = 64 << 20;

/// The commands.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "keys", flags: "", categories: "keyspace dangerous", group: "generic", since: "1.0.0", arity: 2, access: Access::Read, places: NO_KEY, run: Run::Draft(keys), summary: "Returns the keys that match a pattern, in order." },
    Command { name: "randomkey", flags: "", categories: "keyspace", group: "generic", since: "1.0.0", arity: 1, access: Access::Read, places: NO_KEY, run: Run::Draft(random), summary: "Returns one of the keys, at random." },
    Command { name: "dbsize", flags: "fast", categories: "keyspace", group: "server", since: "1.0.0", arity: 1, access: Access::Read, places: NO_KEY, run: Run::Draft(count), summary: "Returns the number of keys." },
];

/// A KEYS that goes over several steps. Each sees its keys at its own moment, as those of SCAN: a
/// key that is there all the time is found.
#[derive(Debug)]
pub(crate) struct Listing {
    pattern: Bytes,
    prefix: Vec<u8>,
    /// The last key that was looked at.
    last: Option<Vec<u8>>,
    count: usize,
    /// Bytes of the keys that were found.
    found_bytes: usize,
    /// The reply: room for its first line, then the keys.
    reply: BytesMut,
}

/// Longest first line of a reply.
const LINE_BYTES: usize = 16;

impl Listing {
    /// Begins with a request.
    pub(crate) fn begin(request: &[Bytes]) -> Outcome<Self> {
        let [_, pattern] = request else { return wrong("wrong number of arguments for 'keys' command") };
        Self::of(pattern)
    }

    fn of(pattern: &Bytes) -> Outcome<Self> {
        pattern::check(pattern)?;
        let reply = BytesMut::zeroed(LINE_BYTES);
        let (pattern, prefix) = (pattern.clone(), pattern::prefix(pattern));
        Ok(Self { pattern, prefix, last: None, count: 0, found_bytes: 0, reply })
    }

    /// Bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.reply.capacity() + self.pattern.len() + self.prefix.len()
    }

    /// Looks at about this number of further places. Returns the reply if that was all.
    pub(crate) fn step(&mut self, draft: &Draft<'_>, places: usize) -> Outcome<Option<Reply>> {
        let Self { pattern, prefix, last, count, found_bytes, reply } = self;
        let (until, mut is_over) = (draft.places().saturating_add(places), true);
        let from = last.take();
        let bound = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        draft.keys_or_ended(prefix, bound, &mut |key, is_there| {
            if is_there {
                let (is_match, steps) = pattern::matched(pattern, &key);
                draft.look_at(steps / pattern::STEPS_A_PLACE);
                if is_match {
                    *count += 1;
                    *found_bytes += key.len();
                    reply.put_slice(format!("${}\r\n", key.len()).as_bytes());
                    reply.put_slice(&key);
                    reply.put_slice(b"\r\n");
                }
            }
            let fits = *count <= KEYS_MAX && *found_bytes <= BYTES_MAX;
            if fits && draft.places() >= until {
                is_over = false;
                *last = Some(key);
            }
            fits && is_over
        })?;
        if self.count > KEYS_MAX || self.found_bytes > BYTES_MAX {
            return wrong(format!("more than {KEYS_MAX} keys or {BYTES_MAX} bytes match: use SCAN"));
        }
        Ok(is_over.then(|| self.take_reply()))
    }

    fn take_reply(&mut self) -> Reply {
        let line = format!("*{}\r\n", self.count);
        let mut reply = std::mem::take(&mut self.reply);
        let at = LINE_BYTES - line.len();
        reply[at..LINE_BYTES].copy_from_slice(line.as_bytes());
        reply.advance(at);
        Reply::Written(reply.freeze())
    }
}

/// KEYS all at once, in a transaction.
fn keys(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let mut listing = Listing::of(arguments.take()?)?;
    loop {
        if let Some(reply) = listing.step(draft, PLACES_MAX / 8)? {
            return Ok(reply);
        }
        bounded(draft)?;
    }
}

fn count(_: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    Ok(Reply::Integer(i64::try_from(draft.count()?).unwrap_or(i64::MAX)))
}

/// Keys that RANDOMKEY draws one of. They go round all keys, so that in the long run each is drawn
/// as often.
const DRAWN_OF: usize = 64;

fn random(_: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let Some((memory, _)) = draft.memory() else { return wrong("a key cannot be drawn here") };
    let last = memory.drawn();
    let mut some = Vec::new();
    let mut newest = None;
    for from in [Bound::Excluded(last), Bound::Unbounded] {
        draft.keys_or_ended(b"", from.as_ref().map(Vec::as_slice), &mut |key, is_there| {
            if is_there {
                some.push(key.clone());
            }
            newest = Some(key);
            some.len() < DRAWN_OF && !draft.has_looked_at_all()
        })?;
        if some.len() >= DRAWN_OF || draft.has_looked_at_all() {
            break;
        }
    }
    // The next call goes on behind it, also if there was none.
    let Some(newest) = newest else { return Ok(Reply::Null) };
    memory.set_drawn(&newest);
    if some.is_empty() {
        bounded(draft)?;
        return Ok(Reply::Null);
    }
    let drawn = memory.below(some.len() as u64) as usize;
    Ok(Reply::Bytes(some.swap_remove(drawn).into()))
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Draft, KEYS_MAX, Listing, Outcome, Reply};
    use crate::command::tests::{Many, Table};
    use crate::command::{PLACES_MAX, Refusal};
    use crate::resp::Protocol;
    use bytes::{Bytes, BytesMut};

    #[test]
    fn keys_come_in_order_and_by_pattern() {
        let mut table = Table::at(1_000);
        table.replies(&[
            ("MSET user:2 b user:1 a user:10 c other x", "+OK"),
            ("SET user:3 d PX 1", "+OK"),
            ("KEYS user:*", "*4 $6 user:1 $7 user:10 $6 user:2 $6 user:3"),
            ("KEYS *r", "*1 $5 other"),
            ("KEYS none", "*0"),
        ]);
        table.now_ms += 1;
        table.replies(&[("KEYS *", "*4 $5 other $6 user:1 $7 user:10 $6 user:2")]);
    }

    /// Hazard: one KEYS fills the memory with its reply.
    #[test]
    fn keys_that_are_too_many_or_too_long_are_refused() {
        let refused = Reply::error(format!("more than {KEYS_MAX} keys or {BYTES_MAX} bytes match: use SCAN"));
        let all = |many: &Many| -> Outcome<Reply> {
            Ok(Listing::begin(&["KEYS", "*"].map(Bytes::from))?
                .step(&Draft::new(many, 1, 1), usize::MAX)?
                .expect("all"))
        };
        let does = |many: &Many| all(many).unwrap_or_else(Refusal::into_reply);
        let long = BYTES_MAX / 32_000;
        for (count, length, fits) in
            [(KEYS_MAX, 10, true), (KEYS_MAX + 1, 10, false), (long, 32_000, true), (long + 1, 32_000, false)]
        {
            match does(&Many { count, length, deadline_ms: None }) {
                Reply::Written(found) => {
                    assert!(fits && found.starts_with(format!("*{count}\r\n").as_bytes()), "{count} of {length}");
                }
                other => assert!(!fits && other == refused, "{other:?}"),
            }
        }
    }

    /// Hazard: KEYS on many keys holds the reactor until it has seen all. Each step looks at what
    /// it may, and all of them find each key once.
    #[test]
    fn keys_are_listed_in_steps() {
        let mut table = Table::at(1_000);
        for number in 0..100 {
            table.does(&format!("SET key:{number:02} v"));
            table.does(&format!("SET ended:{number:02} v PX 1"));
        }
        table.now_ms += 1;
        for places in [1, 7, 1000] {
            let mut listing = Listing::begin(&["KEYS", "*[05]"].map(Bytes::from)).expect("a pattern");
            let mut steps = 0;
            let reply = loop {
                let draft = Draft::new(&table.source, table.now_ms, 1_000);
                steps += 1;
                let reply = listing.step(&draft, places).expect("keys");
                assert!(draft.places() <= places + 2, "{} places in a step of {places}", draft.places());
                if let Some(reply) = reply {
                    break reply;
                }
            };
            assert!(steps > 190 / places, "{steps}");
            let mut out = BytesMut::new();
            reply.write(Protocol::Resp2, &mut out);
            assert!(out.starts_with(b"*20\r\n$6\r\nkey:00\r\n$6\r\nkey:05\r\n"), "{out:?}");
        }
        // In a transaction it is done whole, and so is bounded.
        let many = Many { count: 2 * PLACES_MAX, length: 10, deadline_ms: None };
        let request = ["KEYS", "none*"].map(Bytes::from);
        let refused = crate::command::find(b"keys").expect("KEYS").run(&request, &mut Draft::new(&many, 1, 1));
        assert!(matches!(refused, Err(Refusal::Wrong(Reply::Error(text))) if text.contains("at most")));
    }

    #[test]
    fn keys_are_counted_and_drawn() {
        let mut table = Table::default();
        table.replies(&[
            ("RANDOMKEY", "$-1"),
            ("DBSIZE", ":0"),
            ("MSET a 1 b 1 c 1", "+OK"),
            ("SET a 2", "+OK"),
            ("DBSIZE", ":3"),
        ]);
        let mut found: Vec<String> = (0..100).map(|_| format!("{:?}", table.does("RANDOMKEY"))).collect();
        found.sort();
        found.dedup();
        assert_eq!(found.len(), 3, "{found:?}");
        table.replies(&[("RENAME a b", "+OK"), ("DBSIZE", ":2"), ("DEL b none", ":1"), ("DBSIZE", ":1")]);
    }
}
