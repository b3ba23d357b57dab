//! Which keys there are, in their order.

use std::ops::Bound;

use super::arguments::Arguments;
use super::pattern;
use super::{Access, Command, NO_KEY, Outcome, Run, wrong};
use crate::machine::draft::Draft;
use crate::resp::Reply;

/// Most keys, and bytes of keys, that KEYS returns: a reply must not fill the memory.
const KEYS_MAX: usize = 1 << 20;
const BYTES_MAX: usize = 64 << 20;

/// The commands.
#[rustfmt::skip]
pub const COMMANDS: &[Command] = &[
    Command { name: "keys", flags: "", categories: "keyspace dangerous", group: "generic", since: "1.0.0", arity: 2, access: Access::Read, places: NO_KEY, run: Run::Draft(keys), summary: "Returns the keys that match a pattern, in order." },
    Command { name: "randomkey", flags: "", categories: "keyspace", group: "generic", since: "1.0.0", arity: 1, access: Access::Read, places: NO_KEY, run: Run::Draft(random), summary: "Returns one of the keys, at random." },
    Command { name: "dbsize", flags: "fast", categories: "keyspace", group: "server", since: "1.0.0", arity: 1, access: Access::Read, places: NO_KEY, run: Run::Draft(count), summary: "Returns the number of keys." },
];

fn keys(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let pattern = arguments.take()?;
    pattern::check(pattern)?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    draft.keys(&pattern::prefix(pattern), Bound::Unbounded, &mut |key| {
        if pattern::matches(pattern, &key) {
            bytes += key.len();
            found.push(Reply::Bytes(key.into()));
        }
        found.len() <= KEYS_MAX && bytes <= BYTES_MAX
    })?;
    if found.len() > KEYS_MAX || bytes > BYTES_MAX {
        return wrong(format!("more than {KEYS_MAX} keys or {BYTES_MAX} bytes match: use SCAN"));
    }
    Ok(Reply::Array(found))
}

fn count(_: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    Ok(Reply::Integer(i64::try_from(draft.count()?).unwrap_or(i64::MAX)))
}

/// Keys that RANDOMKEY draws one of. They go round all keys, so that in the long run each is drawn as often.
const DRAWN_OF: usize = 64;

fn random(_: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let Some((memory, _)) = draft.memory() else { return wrong("a key cannot be drawn here") };
    let last = memory.drawn();
    let mut some = Vec::new();
    for from in [Bound::Excluded(last), Bound::Unbounded] {
        draft.keys(b"", from.as_ref().map(Vec::as_slice), &mut |key| {
            some.push(key);
            some.len() < DRAWN_OF
        })?;
        if some.len() >= DRAWN_OF {
            break;
        }
    }
    let Some(newest) = some.last() else { return Ok(Reply::Null) };
    memory.set_drawn(newest);
    let drawn = memory.below(some.len() as u64) as usize;
    Ok(Reply::Bytes(some.swap_remove(drawn).into()))
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, Draft, KEYS_MAX, Reply};
    use crate::command::tests::{Many, Table};
    use crate::command::{Refusal, find};
    use bytes::Bytes;

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
        let does = |many: &Many| {
            let request = ["KEYS", "*"].map(Bytes::from);
            find(b"keys").expect("KEYS").run(&request, &mut Draft::new(many, 1, 1)).unwrap_or_else(Refusal::into_reply)
        };
        let long = BYTES_MAX / 32_000;
        for (count, length, fits) in
            [(KEYS_MAX, 10, true), (KEYS_MAX + 1, 10, false), (long, 32_000, true), (long + 1, 32_000, false)]
        {
            match does(&Many { count, length }) {
                Reply::Array(found) => assert!(fits && found.len() == count, "{count} of {length}"),
                other => assert!(!fits && other == refused, "{other:?}"),
            }
        }
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
