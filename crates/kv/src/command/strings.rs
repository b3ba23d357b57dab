//! Strings: whole, in part, several at once.

use bytes::{Bytes, BytesMut};

use super::arguments::{Arguments, integer, syntax};
use super::expiry::{Deadline, Unit};
use super::{ALL_KEYS, Access, Command, KEYS_AND_VALUES, ONE_KEY, Outcome, Run, bounded, wrong};
use crate::machine::draft::Draft;
use crate::machine::head::{HEAD_BYTES_MAX, Head, parts};
use crate::resp::Reply;

/// Longest value: that of a map less the head.
pub(super) const VALUE_BYTES_MAX: usize = (64 << 20) - HEAD_BYTES_MAX;

/// Most bytes of values that one request reads and writes.
pub(crate) const WORK_BYTES_MAX: usize = 512 << 20;

const READ: Access = Access::Read;
const WRITE: Access = Access::Write;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "get", flags: "fast", categories: "string", group: "string", since: "1.0.0", arity: 2, access: READ, places: ONE_KEY, run: Run::Draft(get), summary: "Returns the value of a key." },
    Command { name: "set", flags: "denyoom", categories: "string", group: "string", since: "1.0.0", arity: -3, access: WRITE, places: ONE_KEY, run: Run::Draft(set), summary: "Gives a key a value, if it is as an option says, and a deadline." },
    Command { name: "setnx", flags: "denyoom fast", categories: "string", group: "string", since: "1.0.0", arity: 3, access: WRITE, places: ONE_KEY, run: Run::Draft(setnx), summary: "Gives a key a value if there is no such key." },
    Command { name: "setex", flags: "denyoom", categories: "string", group: "string", since: "2.0.0", arity: 4, access: WRITE, places: ONE_KEY, run: Run::Draft(setex), summary: "Gives a key a value for some seconds." },
    Command { name: "psetex", flags: "denyoom", categories: "string", group: "string", since: "2.6.0", arity: 4, access: WRITE, places: ONE_KEY, run: Run::Draft(setex), summary: "Gives a key a value for some milliseconds." },
    Command { name: "getset", flags: "denyoom fast", categories: "string", group: "string", since: "1.0.0", arity: 3, access: WRITE, places: ONE_KEY, run: Run::Draft(getset), summary: "Gives a key a value and returns the one before." },
    Command { name: "getex", flags: "fast", categories: "string", group: "string", since: "6.2.0", arity: -2, access: WRITE, places: ONE_KEY, run: Run::Draft(getex), summary: "Returns the value of a key and changes its deadline." },
    Command { name: "delifeq", flags: "fast", categories: "string", group: "string", since: "9.0.0", arity: 3, access: WRITE, places: ONE_KEY, run: Run::Draft(delete_if_equal), summary: "Deletes a key if it has a value." },
    Command { name: "getdel", flags: "fast", categories: "string", group: "string", since: "6.2.0", arity: 2, access: WRITE, places: ONE_KEY, run: Run::Draft(getdel), summary: "Returns the value of a key and deletes it." },
    Command { name: "append", flags: "denyoom fast", categories: "string", group: "string", since: "2.0.0", arity: 3, access: WRITE, places: ONE_KEY, run: Run::Draft(append), summary: "Appends to the value of a key." },
    Command { name: "strlen", flags: "fast", categories: "string", group: "string", since: "2.2.0", arity: 2, access: READ, places: ONE_KEY, run: Run::Draft(strlen), summary: "Returns the length of a value in bytes." },
    Command { name: "getrange", flags: "", categories: "string", group: "string", since: "2.4.0", arity: 4, access: READ, places: ONE_KEY, run: Run::Draft(getrange), summary: "Returns a part of a value." },
    Command { name: "substr", flags: "", categories: "string", group: "string", since: "1.0.0", arity: 4, access: READ, places: ONE_KEY, run: Run::Draft(getrange), summary: "Returns a part of a value." },
    Command { name: "setrange", flags: "denyoom", categories: "string", group: "string", since: "2.2.0", arity: 4, access: WRITE, places: ONE_KEY, run: Run::Draft(setrange), summary: "Overwrites a part of a value." },
    Command { name: "mget", flags: "fast", categories: "string", group: "string", since: "1.0.0", arity: -2, access: READ, places: ALL_KEYS, run: Run::Draft(mget), summary: "Returns the values of several keys at one moment." },
    Command { name: "mset", flags: "denyoom", categories: "string", group: "string", since: "1.0.1", arity: -3, access: WRITE, places: KEYS_AND_VALUES, run: Run::Draft(mset), summary: "Gives several keys values, all at once." },
    Command { name: "msetnx", flags: "denyoom", categories: "string", group: "string", since: "1.0.1", arity: -3, access: WRITE, places: KEYS_AND_VALUES, run: Run::Draft(msetnx), summary: "Gives several keys values if there is none of them." },
];

fn value(head: Option<Head>) -> Reply {
    head.map_or(Reply::Null, |head| Reply::Bytes(head.value))
}

fn get(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    Ok(value(draft.head(arguments.take()?)?))
}

/// Condition on a key for SET to change it.
#[derive(Clone, Copy, PartialEq)]
enum If<'a> {
    Absent,
    Present,
    Equal(&'a Bytes),
}

/// The deadline that an option asks for.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    Kept,
    /// None.
    Gone,
    In(Unit, &'a Bytes),
}

impl<'a> Wanted<'a> {
    /// The time behind an option that names its unit. An option before it must have named the same.
    fn parse(option: &[u8], before: Option<Self>, arguments: &mut Arguments<'a>) -> Outcome<Self> {
        match (Unit::of_option(option), before) {
            (Some(unit), None) => Ok(Wanted::In(unit, arguments.take()?)),
            (Some(unit), Some(Wanted::In(same, _))) if unit == same => Ok(Wanted::In(unit, arguments.take()?)),
            _ => syntax(),
        }
    }
}

fn set(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let (key, new) = (arguments.take()?, arguments.take()?);
    let (mut condition, mut returns, mut deadline) = (None, false, None);
    while let Some(option) = arguments.option() {
        // An option that is given twice counts once, or the last time; options that exclude each
        // other are refused.
        match &option[..] {
            b"NX" if matches!(condition, None | Some(If::Absent)) => condition = Some(If::Absent),
            b"XX" if matches!(condition, None | Some(If::Present)) => condition = Some(If::Present),
            b"IFEQ" if matches!(condition, None | Some(If::Equal(_))) => {
                condition = Some(If::Equal(arguments.take()?));
            }
            b"GET" => returns = true,
            b"KEEPTTL" if matches!(deadline, None | Some(Wanted::Kept)) => deadline = Some(Wanted::Kept),
            option => deadline = Some(Wanted::parse(option, deadline, &mut arguments)?),
        }
    }
    // Only now is the time looked at: all options must make sense first.
    let deadline = match deadline {
        None => None,
        Some(Wanted::Kept) => Some(Deadline::Kept),
        Some(Wanted::Gone) => None,
        Some(Wanted::In(unit, time)) => Some(Deadline::At(unit.deadline(integer(time)?, &arguments, draft)?)),
    };
    let front = draft.front(key)?;
    let holds = match condition {
        None => true,
        Some(If::Absent) => front.is_none(),
        Some(If::Present) => front.is_some(),
        Some(If::Equal(wanted)) => match front.filter(|front| front.length == wanted.len()) {
            Some(front) => draft.part(key, &front, 0..front.length)? == *wanted,
            None => false,
        },
    };
    let old = if returns { draft.head(key)? } else { None };
    if holds {
        let kept = front.and_then(|front| front.deadline_ms);
        let deadline = match deadline {
            None => None,
            Some(Deadline::Kept) => kept,
            Some(Deadline::At(at)) => Some(at),
        };
        store(draft, key, new.clone(), deadline)?;
    }
    Ok(match (returns, holds) {
        (true, _) => value(old),
        (false, true) => Reply::OK,
        (false, false) => Reply::Null,
    })
}

fn setnx(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let (key, new) = (arguments.take()?, arguments.take()?);
    let is_new = draft.front(key)?.is_none();
    if is_new {
        store(draft, key, new.clone(), None)?;
    }
    Ok(Reply::Integer(i64::from(is_new)))
}

fn setex(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let unit = if arguments.command() == "setex" { Unit::Seconds } else { Unit::Milliseconds };
    let (key, time) = (arguments.take()?, arguments.integer()?);
    let deadline = unit.deadline(time, &arguments, draft)?;
    store(draft, key, arguments.take()?.clone(), Some(deadline))?;
    Ok(Reply::OK)
}

fn getset(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let (key, new) = (arguments.take()?, arguments.take()?);
    let old = draft.head(key)?;
    store(draft, key, new.clone(), None)?;
    Ok(value(old))
}

fn getex(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let key = arguments.take()?;
    let mut wanted = None;
    while let Some(option) = arguments.option() {
        wanted = Some(match (&option[..], wanted) {
            (b"PERSIST", None | Some(Wanted::Gone)) => Wanted::Gone,
            (option, wanted) => Wanted::parse(option, wanted, &mut arguments)?,
        });
    }
    let Some(head) = draft.head(key)? else { return Ok(Reply::Null) };
    match wanted {
        None | Some(Wanted::Kept) => {}
        Some(Wanted::Gone) if head.deadline_ms.is_none() => {}
        Some(Wanted::Gone) => draft.put(key, head.value.clone(), None)?,
        Some(Wanted::In(unit, time)) => {
            let at = unit.deadline(integer(time)?, &arguments, draft)?;
            draft.put(key, head.value.clone(), Some(at))?;
        }
    }
    Ok(Reply::Bytes(head.value))
}

fn getdel(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let key = arguments.take()?;
    let old = draft.head(key)?;
    draft.delete(key)?;
    Ok(value(old))
}

fn delete_if_equal(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let (key, wanted) = (arguments.take()?, arguments.take()?);
    let is_equal = draft.head(key)?.is_some_and(|head| head.value == wanted);
    if is_equal {
        draft.delete(key)?;
    }
    Ok(Reply::Integer(i64::from(is_equal)))
}

fn append(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let (key, more) = (arguments.take()?, arguments.take()?);
    let (old, deadline) = parts(draft.head(key)?);
    let new = [&old[..], more].concat();
    let length = new.len();
    store(draft, key, new.into(), deadline)?;
    Ok(length_reply(length))
}

fn strlen(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    Ok(length_reply(draft.front(arguments.take()?)?.map_or(0, |front| front.length)))
}

fn getrange(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let (key, first, last) = (arguments.take()?, arguments.integer()?, arguments.integer()?);
    let Some(front) = draft.front(key)? else { return Ok(Reply::Bytes(Bytes::new())) };
    // A negative place counts from the end; what lies before the first byte is the first.
    let length = front.length as i64;
    let place = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
    let (first, last) = match (first, last) {
        (first, last) if first < 0 && last < 0 && first > last => return Ok(Reply::Bytes(Bytes::new())),
        (first, last) => (place(first), place(last).min(length - 1)),
    };
    if first > last {
        return Ok(Reply::Bytes(Bytes::new()));
    }
    Ok(Reply::Bytes(draft.part(key, &front, first as usize..last as usize + 1)?))
}

fn setrange(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let (key, offset, part) = (arguments.take()?, arguments.integer()?, arguments.take()?);
    let Ok(offset) = usize::try_from(offset) else { return wrong("offset is out of range") };
    if part.is_empty() {
        return Ok(length_reply(draft.front(key)?.map_or(0, |front| front.length)));
    }
    let end = offset.saturating_add(part.len());
    check_length(end)?;
    let (old, deadline) = parts(draft.head(key)?);
    let mut new = BytesMut::from(&old[..]);
    new.resize(old.len().max(end), 0);
    new[offset..end].copy_from_slice(part);
    let length = new.len();
    store(draft, key, new.freeze(), deadline)?;
    Ok(length_reply(length))
}

fn mget(arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let mut values = Vec::new();
    for key in arguments.rest() {
        values.push(value(draft.head(key)?));
        bounded(draft)?;
        if draft.work() > WORK_BYTES_MAX {
            return wrong(format!("the values have more than {WORK_BYTES_MAX} bytes"));
        }
    }
    Ok(Reply::Array(values))
}

/// The pairs of MSET and MSETNX.
fn pairs<'a>(arguments: &Arguments<'a>) -> Outcome<impl Iterator<Item = (&'a Bytes, &'a Bytes)> + use<'a>> {
    let (pairs, odd) = arguments.rest().as_chunks::<2>();
    if !odd.is_empty() {
        return wrong(format!("wrong number of arguments for '{}' command", arguments.command()));
    }
    Ok(pairs.iter().map(|[key, value]| (key, value)))
}

fn mset(arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    for (key, value) in pairs(&arguments)? {
        store(draft, key, value.clone(), None)?;
        bounded(draft)?;
    }
    Ok(Reply::OK)
}

fn msetnx(arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    for (key, _) in pairs(&arguments)? {
        if draft.front(key)?.is_some() {
            return Ok(Reply::Integer(0));
        }
        bounded(draft)?;
    }
    mset(arguments, draft)?;
    Ok(Reply::Integer(1))
}

/// Gives a key a value that a client has made.
pub(super) fn store(draft: &mut Draft<'_>, key: &[u8], value: Bytes, deadline_ms: Option<u64>) -> Outcome<()> {
    check_length(value.len())?;
    Ok(draft.put(key, value, deadline_ms)?)
}

fn check_length(length: usize) -> Outcome<()> {
    if length > VALUE_BYTES_MAX {
        return wrong(format!("string exceeds maximum allowed size ({VALUE_BYTES_MAX} bytes)"));
    }
    Ok(())
}

fn length_reply(length: usize) -> Reply {
    Reply::Integer(length as i64)
}

#[cfg(test)]
mod tests {
    use super::{Reply, WORK_BYTES_MAX};
    use crate::command::tests::Table;

    #[test]
    fn set_obeys_its_conditions() {
        Table::default().replies(&[
            ("GET k", "$-1"),
            ("SET k v XX", "$-1"),
            ("SET k v nx", "+OK"),
            ("SET k w NX", "$-1"),
            ("SET k w NX GET", "$1 v"),
            ("SET k w IFEQ x", "$-1"),
            ("SET k w IFEQ v", "+OK"),
            ("SET none w IFEQ ''", "$-1"),
            ("SET k x IFEQ v GET", "$1 w"),
            ("GET k", "$1 w"),
            ("SET k y GET", "$1 w"),
            ("SET k y NX XX", "-ERR syntax error"),
            ("SET k y EX 1 KEEPTTL", "-ERR syntax error"),
            ("SET k y IFEQ", "-ERR syntax error"),
            ("SET k y EX", "-ERR syntax error"),
            ("SET k y EX 0", "-ERR invalid expire time in 'set' command"),
            ("SET k y EX 9223372036854775807", "-ERR invalid expire time in 'set' command"),
            ("SET k y PX x", "-ERR value is not an integer or out of range"),
            ("SET k y NEVER", "-ERR syntax error"),
            ("SETNX k z", ":0"),
            ("SETNX l z", ":1"),
            ("GETSET l y", "$1 z"),
            ("GETDEL l", "$1 y"),
            ("GETDEL l", "$-1"),
        ]);
    }

    #[test]
    fn deadlines_are_set_kept_and_taken_away() {
        let mut table = Table::at(1_000_000);
        table.replies(&[
            ("SET k v EX 10", "+OK"),
            ("PTTL k", ":10000"),
            ("SET k w KEEPTTL", "+OK"),
            ("TTL k", ":10"),
            ("APPEND k x", ":2"),
            ("PTTL k", ":10000"),
            ("GETEX k", "$2 wx"),
            ("PTTL k", ":10000"),
            ("GETEX k PXAT 1000500", "$2 wx"),
            ("PTTL k", ":500"),
            ("GETEX k PERSIST", "$2 wx"),
            ("TTL k", ":-1"),
            ("SETEX k 3 v", "+OK"),
            ("PSETEX l 3 v", "+OK"),
            ("SET k w", "+OK"),
            ("TTL k", ":-1"),
        ]);
        table.now_ms += 3;
        table.replies(&[("GET l", "$-1"), ("SET l v NX", "+OK"), ("TTL l", ":-1")]);
        assert_eq!(table.source.deadlines(), []);
    }

    #[test]
    fn parts_of_strings_are_read_and_overwritten() {
        Table::default().replies(&[
            ("APPEND k hello", ":5"),
            ("STRLEN k", ":5"),
            ("STRLEN none", ":0"),
            ("GETRANGE k 1 3", "$3 ell"),
            ("GETRANGE k -3 -1", "$3 llo"),
            ("GETRANGE k -1 -3", "$0"),
            ("GETRANGE k 3 1", "$0"),
            ("GETRANGE k 0 -1", "$5 hello"),
            ("GETRANGE k -99 1", "$2 he"),
            ("GETRANGE k 4 99", "$1 o"),
            ("GETRANGE k 5 99", "$0"),
            ("GETRANGE k -9223372036854775808 9223372036854775807", "$5 hello"),
            ("GETRANGE none 0 -1", "$0"),
            ("SETRANGE k 1 ipp", ":5"),
            ("GET k", "$5 hippo"),
            ("SETRANGE k 6 s", ":7"),
            ("GET k", "$7 hippo\0s"),
            ("SETRANGE k -1 s", "-ERR offset is out of range"),
            ("SETRANGE k 67108846 s", "-ERR string exceeds maximum allowed size (67108846 bytes)"),
            ("SETRANGE none 5 ''", ":0"),
            ("GET none", "$-1"),
        ]);
    }

    /// Hazard: one MGET of a large value, again and again, fills the memory with its reply.
    #[test]
    fn values_that_are_too_much_for_one_reply_are_refused() {
        const VALUE_BYTES: usize = 60_000;
        let mut table = Table::default();
        table.does(&format!("SET k {}", "v".repeat(VALUE_BYTES)));
        // Stored beside a value: type, flags and version.
        let most = WORK_BYTES_MAX / (VALUE_BYTES + 10);
        let Reply::Array(values) = table.does(&format!("MGET{}", " k".repeat(most))) else { panic!("no array") };
        assert_eq!(values.len(), most);
        let refused = Reply::error(format!("the values have more than {WORK_BYTES_MAX} bytes"));
        assert!(table.does(&format!("MGET{}", " k".repeat(most + 1))) == refused, "it was not refused");
    }

    #[test]
    fn several_keys_change_all_or_none() {
        Table::default().replies(&[
            ("MSETNX a 1 b 2", ":1"),
            ("MSETNX b 3 c 4", ":0"),
            ("MGET a b c", "*3 $1 1 $1 2 $-1"),
            ("MSET a 1 a 2", "+OK"),
            ("MGET a a", "*2 $1 2 $1 2"),
        ]);
    }

    /// Hazard: a lock whose time was over is given back, and is another's by then.
    #[test]
    fn a_key_is_deleted_only_if_it_has_the_value() {
        let mut table = Table::at(1_000_000);
        table.replies(&[
            ("DELIFEQ lock a", ":0"),
            ("SET lock a NX PX 100", "+OK"),
            ("DELIFEQ lock b", ":0"),
            ("DELIFEQ lock ''", ":0"),
            ("GET lock", "$1 a"),
            ("DELIFEQ lock a", ":1"),
            ("DELIFEQ lock a", ":0"),
            ("SET lock a NX PX 100", "+OK"),
            ("DELIFEQ lock", "-ERR wrong number of arguments for 'delifeq' command"),
            ("DELIFEQ lock a b", "-ERR wrong number of arguments for 'delifeq' command"),
        ]);
        table.now_ms += 100;
        table.replies(&[
            ("DELIFEQ lock a", ":0"),
            ("SET lock b NX", "+OK"),
            ("DELIFEQ lock a", ":0"),
            ("GET lock", "$1 b"),
        ]);
        table.replies(&[("SET lock ''", "+OK"), ("DELIFEQ lock ''", ":1"), ("DBSIZE", ":0")]);
        assert_eq!(table.source.deadlines(), []);
    }
}
