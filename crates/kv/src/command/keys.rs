//! Keys as such, whatever their values.

use super::arguments::{Arguments, syntax};
use super::{ALL_KEYS, Access, Command, NO_KEY, ONE_KEY, Outcome, Places, Run, TWO_KEYS, bounded, wrong};
use crate::machine::draft::Draft;
use crate::resp::Reply;

const READ: Access = Access::Read;
const WRITE: Access = Access::Write;
const SECOND_KEY: Places = Places { first: 2, last: 2, step: 1 };

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "del", flags: "", categories: "keyspace", group: "generic", since: "1.0.0", arity: -2, access: WRITE, places: ALL_KEYS, run: Run::Draft(delete), summary: "Deletes keys, all at once." },
    Command { name: "unlink", flags: "fast", categories: "keyspace", group: "generic", since: "4.0.0", arity: -2, access: WRITE, places: ALL_KEYS, run: Run::Draft(delete), summary: "Deletes keys, all at once." },
    Command { name: "exists", flags: "fast", categories: "keyspace", group: "generic", since: "1.0.0", arity: -2, access: READ, places: ALL_KEYS, run: Run::Draft(exists), summary: "Counts those of some keys that there are." },
    Command { name: "touch", flags: "fast", categories: "keyspace", group: "generic", since: "3.2.1", arity: -2, access: READ, places: ALL_KEYS, run: Run::Draft(exists), summary: "Counts those of some keys that there are." },
    Command { name: "type", flags: "fast", categories: "keyspace", group: "generic", since: "1.0.0", arity: 2, access: READ, places: ONE_KEY, run: Run::Draft(kind), summary: "Returns the type of a key's value." },
    Command { name: "memory|usage", flags: "", categories: "keyspace", group: "server", since: "4.0.0", arity: -3, access: READ, places: SECOND_KEY, run: Run::Draft(usage), summary: "Returns the bytes that a key and its value take in the store, roughly." },
    Command { name: "rename", flags: "", categories: "keyspace", group: "generic", since: "1.0.0", arity: 3, access: WRITE, places: TWO_KEYS, run: Run::Draft(rename), summary: "Gives a key another name, in place of who has it." },
    Command { name: "renamenx", flags: "fast", categories: "keyspace", group: "generic", since: "1.0.0", arity: 3, access: WRITE, places: TWO_KEYS, run: Run::Draft(rename), summary: "Gives a key another name that nobody has." },
    Command { name: "copy", flags: "denyoom", categories: "keyspace", group: "generic", since: "6.2.0", arity: -3, access: WRITE, places: TWO_KEYS, run: Run::Draft(copy), summary: "Copies a key and its deadline." },
    Command { name: "flushall", flags: "", categories: "keyspace dangerous", group: "server", since: "1.0.0", arity: -1, access: WRITE, places: NO_KEY, run: Run::Draft(clear), summary: "Deletes all keys at once." },
    Command { name: "flushdb", flags: "", categories: "keyspace dangerous", group: "server", since: "1.0.0", arity: -1, access: WRITE, places: NO_KEY, run: Run::Draft(clear), summary: "Deletes all keys at once." },
];

fn delete(arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let mut count = 0;
    for key in arguments.rest() {
        count += i64::from(draft.delete(key)?);
        bounded(draft)?;
    }
    Ok(Reply::Integer(count))
}

fn exists(arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let mut count = 0;
    for key in arguments.rest() {
        count += i64::from(draft.front(key)?.is_some());
        bounded(draft)?;
    }
    Ok(Reply::Integer(count))
}

fn kind(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let front = draft.front(arguments.take()?)?;
    Ok(Reply::Status(if front.is_some() { "string" } else { "none" }))
}

/// Bytes that a store takes for a key beside itself and its value, roughly.
const EACH_BYTES: usize = 96;

fn usage(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let (_, key) = (arguments.take()?, arguments.take()?);
    // How many elements are looked at: a string has one.
    match arguments.option().as_deref() {
        None => {}
        Some(b"SAMPLES") if arguments.integer()? >= 0 => arguments.end()?,
        Some(_) => return syntax(),
    }
    Ok(draft.front(key)?.map_or(Reply::Null, |front| Reply::Integer((EACH_BYTES + key.len() + front.length) as i64)))
}

fn rename(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let only_new = arguments.command() == "renamenx";
    let (old, new) = (arguments.take()?, arguments.take()?);
    if draft.front(old)?.is_none() {
        return wrong("no such key");
    }
    if only_new && draft.front(new)?.is_some() {
        return Ok(Reply::Integer(0));
    }
    if old != new
        && let Some(head) = draft.head(old)?
    {
        draft.delete(old)?;
        draft.put(new, head.value, head.deadline_ms)?;
    }
    Ok(if only_new { Reply::Integer(1) } else { Reply::OK })
}

fn copy(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let (from, to) = (arguments.take()?, arguments.take()?);
    let mut replaces = false;
    while let Some(option) = arguments.option() {
        match &option[..] {
            b"REPLACE" => replaces = true,
            b"DB" => match arguments.integer()? {
                0 => {}
                number if i32::try_from(number).is_ok() => return wrong("DB index is out of range"),
                _ => return wrong("value is out of range, value must between -2147483648 and 2147483647"),
            },
            _ => return syntax(),
        }
    }
    if from == to {
        return wrong("source and destination objects are the same");
    }
    if draft.front(from)?.is_none() || !replaces && draft.front(to)?.is_some() {
        return Ok(Reply::Integer(0));
    }
    let Some(head) = draft.head(from)? else { return Ok(Reply::Integer(0)) };
    draft.put(to, head.value, head.deadline_ms)?;
    Ok(Reply::Integer(1))
}

fn clear(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    match arguments.option().as_deref() {
        None | Some(b"ASYNC" | b"SYNC") => arguments.end()?,
        Some(_) => return syntax(),
    }
    draft.clear()?;
    Ok(Reply::OK)
}

#[cfg(test)]
mod tests {
    use crate::command::tests::Table;

    #[test]
    fn keys_are_deleted_counted_and_named_anew() {
        let mut table = Table::at(1_000_000);
        table.replies(&[
            ("MSET a 1 b 2", "+OK"),
            ("EXISTS a b c a", ":3"),
            ("TYPE a", "+string"),
            ("TYPE c", "+none"),
            ("DEL a a c", ":1"),
            ("UNLINK b", ":1"),
            ("SET a 1 PX 500", "+OK"),
            ("RENAME a b", "+OK"),
            ("PTTL b", ":500"),
            ("GET a", "$-1"),
            ("RENAME a b", "-ERR no such key"),
            ("RENAME b b", "+OK"),
            ("SET c 3", "+OK"),
            ("RENAMENX b c", ":0"),
            ("RENAMENX b d", ":1"),
            ("RENAME c d", "+OK"),
            ("PTTL d", ":-1"),
        ]);
        assert_eq!(table.source.deadlines(), []);
    }

    #[test]
    fn a_copy_replaces_only_if_it_may() {
        Table::at(1_000_000).replies(&[
            ("SET a 1 PX 500", "+OK"),
            ("COPY a b", ":1"),
            ("PTTL b", ":500"),
            ("SET a 2", "+OK"),
            ("COPY a b", ":0"),
            ("COPY a b DB 0 REPLACE", ":1"),
            ("GET b", "$1 2"),
            ("TTL b", ":-1"),
            ("COPY a b DB 1", "-ERR DB index is out of range"),
            ("COPY a a", "-ERR source and destination objects are the same"),
            ("COPY none b", ":0"),
            ("COPY a b QUICKLY", "-ERR syntax error"),
        ]);
    }

    #[test]
    fn flushall_leaves_nothing() {
        Table::default().replies(&[
            ("MSET a 1 b 2", "+OK"),
            ("FLUSHALL NOW", "-ERR syntax error"),
            ("FLUSHALL ASYNC", "+OK"),
            ("EXISTS a b", ":0"),
            ("SET a 3", "+OK"),
            ("FLUSHDB", "+OK"),
            ("GET a", "$-1"),
        ]);
    }
}
