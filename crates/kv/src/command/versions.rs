//! Compare-and-set by version: the index of the entry that has changed a key last. What is not
//! there has version 0.
//!
//! A key that was deleted and made again has another version than before, so a client that compares
//! versions notices what one that compares values would not.

use super::arguments::{Arguments, integer, syntax};
use super::expiry::{Deadline, Unit};
use super::strings::store;
use super::{Access, Command, ONE_KEY, Outcome, Run, wrong};
use crate::machine::draft::Draft;
use crate::resp::Reply;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "perdura.get", flags: "fast", categories: "string", group: "string", since: "perdura", arity: 2, access: Access::Read, places: ONE_KEY, run: Run::Draft(get), summary: "Returns the version and the value of a key." },
    Command { name: "perdura.cas", flags: "denyoom fast", categories: "string", group: "string", since: "perdura", arity: -4, access: Access::Write, places: ONE_KEY, run: Run::Draft(set), summary: "Gives a key a value if it has a version, and returns the new one." },
    Command { name: "perdura.cad", flags: "fast", categories: "keyspace", group: "generic", since: "perdura", arity: 3, access: Access::Write, places: ONE_KEY, run: Run::Draft(delete), summary: "Deletes a key if it has a version." },
];

fn version(text: &[u8]) -> Outcome<u64> {
    u64::try_from(integer(text)?).or_else(|_| wrong("a version is not negative"))
}

fn number(version: u64) -> Reply {
    Reply::Integer(version as i64)
}

fn get(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    Ok(match draft.head(arguments.take()?)? {
        None => Reply::Array(vec![number(0), Reply::Null]),
        Some(head) => Reply::Array(vec![number(head.version), Reply::Bytes(head.value)]),
    })
}

fn set(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let (key, wanted, new) = (arguments.take()?, version(arguments.take()?)?, arguments.take()?);
    let mut deadline = None;
    while let Some(option) = arguments.option() {
        let given = match (&option[..], Unit::of_option(&option)) {
            (b"KEEPTTL", _) => Deadline::Kept,
            (_, Some(unit)) => Deadline::At(unit.deadline(arguments.integer()?, &arguments, draft)?),
            _ => return syntax(),
        };
        if deadline.replace(given).is_some() {
            return syntax();
        }
    }
    let front = draft.front(key)?;
    if front.map_or(0, |front| front.version) != wanted {
        return Ok(Reply::Null);
    }
    let deadline_ms = match deadline {
        None => None,
        Some(Deadline::Kept) => front.and_then(|front| front.deadline_ms),
        Some(Deadline::At(at)) => Some(at),
    };
    store(draft, key, new.clone(), deadline_ms)?;
    Ok(number(draft.version()))
}

fn delete(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let (key, wanted) = (arguments.take()?, version(arguments.take()?)?);
    let is_meant = wanted != 0 && draft.front(key)?.is_some_and(|front| front.version == wanted);
    if is_meant {
        draft.delete(key)?;
    }
    Ok(Reply::Integer(i64::from(is_meant)))
}

#[cfg(test)]
mod tests {
    use crate::command::tests::Table;

    #[test]
    fn a_key_changes_only_from_its_version() {
        Table::at(1_000).replies(&[
            ("PERDURA.GET k", "*2 :0 $-1"),
            ("PERDURA.CAS k 0 a", ":2"),
            ("PERDURA.CAS k 0 b", "$-1"),
            ("PERDURA.GET k", "*2 :2 $1 a"),
            ("SET k a", "+OK"),
            ("PERDURA.CAS k 2 b", "$-1"),
            ("PERDURA.CAS k 5 b PX 100", ":7"),
            ("PTTL k", ":100"),
            ("PERDURA.CAS k 7 c KEEPTTL", ":9"),
            ("PTTL k", ":100"),
            ("PERDURA.CAS k 9 c EX 1 KEEPTTL", "-ERR syntax error"),
            ("PERDURA.CAS k -1 c", "-ERR a version is not negative"),
            ("PERDURA.CAD k 8", ":0"),
            ("PERDURA.CAD k 9", ":1"),
            ("PERDURA.CAD k 0", ":0"),
        ]);
    }
}
