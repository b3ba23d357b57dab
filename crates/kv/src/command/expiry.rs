//! Deadlines of keys. Their time is that of the log's entries: the leader's clock when it proposed
//! them.

use super::arguments::{Arguments, integer};
use super::{Access, Command, ONE_KEY, Outcome, Run, wrong};
use crate::machine::draft::Draft;
use crate::machine::head::parts;
use crate::resp::Reply;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "expire", flags: "fast", categories: "keyspace", group: "generic", since: "1.0.0", arity: -3, access: Access::Write, places: ONE_KEY, run: Run::Draft(expire), summary: "Lets a key end in some seconds." },
    Command { name: "pexpire", flags: "fast", categories: "keyspace", group: "generic", since: "2.6.0", arity: -3, access: Access::Write, places: ONE_KEY, run: Run::Draft(expire), summary: "Lets a key end in some milliseconds." },
    Command { name: "expireat", flags: "fast", categories: "keyspace", group: "generic", since: "1.2.0", arity: -3, access: Access::Write, places: ONE_KEY, run: Run::Draft(expire), summary: "Lets a key end at a second." },
    Command { name: "pexpireat", flags: "fast", categories: "keyspace", group: "generic", since: "2.6.0", arity: -3, access: Access::Write, places: ONE_KEY, run: Run::Draft(expire), summary: "Lets a key end at a millisecond." },
    Command { name: "persist", flags: "fast", categories: "keyspace", group: "generic", since: "2.2.0", arity: 2, access: Access::Write, places: ONE_KEY, run: Run::Draft(persist), summary: "Takes the deadline from a key." },
    Command { name: "ttl", flags: "fast", categories: "keyspace", group: "generic", since: "1.0.0", arity: 2, access: Access::Read, places: ONE_KEY, run: Run::Draft(ttl), summary: "Returns the seconds that a key has left." },
    Command { name: "pttl", flags: "fast", categories: "keyspace", group: "generic", since: "2.6.0", arity: 2, access: Access::Read, places: ONE_KEY, run: Run::Draft(ttl), summary: "Returns the milliseconds that a key has left." },
    Command { name: "expiretime", flags: "fast", categories: "keyspace", group: "generic", since: "7.0.0", arity: 2, access: Access::Read, places: ONE_KEY, run: Run::Draft(ttl), summary: "Returns the second at which a key ends." },
    Command { name: "pexpiretime", flags: "fast", categories: "keyspace", group: "generic", since: "7.0.0", arity: 2, access: Access::Read, places: ONE_KEY, run: Run::Draft(ttl), summary: "Returns the millisecond at which a key ends." },
];

/// The deadline that a command gives a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deadline {
    /// The one that it has.
    Kept,
    /// A moment of the log, in milliseconds.
    At(u64),
}

/// How a command says a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Milliseconds,
    /// Seconds since 1970.
    AtSecond,
    /// Milliseconds since 1970.
    AtMillisecond,
}

impl Unit {
    /// The unit behind an option of SET and GETEX.
    pub(super) fn of_option(option: &[u8]) -> Option<Unit> {
        Some(match option {
            b"EX" => Unit::Seconds,
            b"PX" => Unit::Milliseconds,
            b"EXAT" => Unit::AtSecond,
            b"PXAT" => Unit::AtMillisecond,
            _ => return None,
        })
    }

    /// The deadline that a positive time means.
    pub(super) fn deadline(self, time: i64, arguments: &Arguments<'_>, draft: &Draft<'_>) -> Outcome<u64> {
        match u64::try_from(self.moment_ms(time, arguments, draft)?) {
            Ok(at) if time > 0 => Ok(at),
            _ => invalid(arguments),
        }
    }

    /// The moment of the log that a time means, in milliseconds.
    fn moment_ms(self, time: i64, arguments: &Arguments<'_>, draft: &Draft<'_>) -> Outcome<i64> {
        let is_relative = matches!(self, Unit::Seconds | Unit::Milliseconds);
        let begin = if is_relative { draft.now_ms() } else { draft.ahead_ms()? } as i64;
        let factor = if matches!(self, Unit::Seconds | Unit::AtSecond) { 1000 } else { 1 };
        let moment = time.checked_mul(factor).and_then(|time| time.checked_add(begin));
        moment.map_or_else(|| invalid(arguments), Ok)
    }
}

fn invalid<T>(arguments: &Arguments<'_>) -> Outcome<T> {
    wrong(format!("invalid expire time in '{}' command", arguments.command()))
}

fn expire(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let unit = match arguments.command() {
        "expire" => Unit::Seconds,
        "pexpire" => Unit::Milliseconds,
        "expireat" => Unit::AtSecond,
        _ => Unit::AtMillisecond,
    };
    let (key, time) = (arguments.take()?, arguments.take()?);
    let [mut only_first, mut only_again, mut only_later, mut only_sooner] = [false; 4];
    while let Some(option) = arguments.next() {
        match &option.to_ascii_uppercase()[..] {
            b"NX" => only_first = true,
            b"XX" => only_again = true,
            b"GT" => only_later = true,
            b"LT" => only_sooner = true,
            _ => return wrong(format!("Unsupported option {}", String::from_utf8_lossy(option))),
        }
    }
    if only_first && (only_again || only_later || only_sooner) {
        return wrong("NX and XX, GT or LT options at the same time are not compatible");
    }
    if only_later && only_sooner {
        return wrong("GT and LT options at the same time are not compatible");
    }
    let moment = unit.moment_ms(integer(time)?, &arguments, draft)?;
    let Some(front) = draft.front(key)? else { return Ok(Reply::Integer(0)) };
    // Without a deadline a key never ends.
    let present = front.deadline_ms.map_or(i64::MAX, |at| at as i64);
    let keeps = only_first && front.deadline_ms.is_some()
        || only_again && front.deadline_ms.is_none()
        || only_later && moment <= present
        || only_sooner && front.deadline_ms.is_some() && moment >= present;
    if keeps {
        return Ok(Reply::Integer(0));
    }
    match u64::try_from(moment) {
        Ok(at) if at > draft.now_ms() => {
            let (value, _) = parts(draft.head(key)?);
            draft.put(key, value, Some(at))?;
        }
        _ => drop(draft.delete(key)?),
    }
    Ok(Reply::Integer(1))
}

fn persist(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let key = arguments.take()?;
    if draft.front(key)?.is_none_or(|front| front.deadline_ms.is_none()) {
        return Ok(Reply::Integer(0));
    }
    let (value, _) = parts(draft.head(key)?);
    draft.put(key, value, None)?;
    Ok(Reply::Integer(1))
}

fn ttl(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let Some(front) = draft.front(arguments.take()?)? else { return Ok(Reply::Integer(-2)) };
    let Some(at) = front.deadline_ms else { return Ok(Reply::Integer(-1)) };
    draft.rely_on_time();
    let (left, on_calendar) = (at - draft.now_ms(), at.saturating_sub(draft.ahead_ms()?));
    // Half a second counts as one, as clients know it.
    Ok(Reply::Integer(match arguments.command() {
        "ttl" => (left + 500) / 1000,
        "pttl" => left,
        "expiretime" => (on_calendar + 500) / 1000,
        _ => on_calendar,
    } as i64))
}

#[cfg(test)]
mod tests {
    use crate::command::tests::Table;

    #[test]
    fn a_key_ends_when_its_time_has_come() {
        let mut table = Table::at(1_000_000);
        table.replies(&[
            ("TTL k", ":-2"),
            ("EXPIRE k 1", ":0"),
            ("SET k v", "+OK"),
            ("TTL k", ":-1"),
            ("EXPIRE k 2", ":1"),
            ("TTL k", ":2"),
            ("PTTL k", ":2000"),
            ("EXPIRETIME k", ":1002"),
            ("PEXPIRETIME k", ":1002000"),
            ("PERSIST k", ":1"),
            ("PERSIST k", ":0"),
            ("PEXPIREAT k 1002000", ":1"),
        ]);
        table.now_ms += 1999;
        table.replies(&[("GET k", "$1 v"), ("TTL k", ":0"), ("PTTL k", ":1")]);
        table.now_ms += 1;
        table.replies(&[("GET k", "$-1"), ("TTL k", ":-2"), ("PERSIST k", ":0")]);
    }

    #[test]
    fn a_time_that_is_past_deletes() {
        let mut table = Table::at(1_000_000);
        for command in ["EXPIRE k 0", "EXPIRE k -1", "PEXPIRE k -5", "EXPIREAT k 1000", "PEXPIREAT k 1"] {
            table.replies(&[("SET k v EX 5", "+OK"), (command, ":1"), ("GET k", "$-1")]);
            assert_eq!(table.source.deadlines(), [], "{command}");
        }
    }

    #[test]
    fn options_say_when_a_deadline_changes() {
        let mut table = Table::at(1_000_000);
        table.replies(&[
            ("SET k v", "+OK"),
            ("EXPIRE k 5 XX", ":0"),
            ("EXPIRE k 5 GT", ":0"),
            ("EXPIRE k 5 LT", ":1"),
            ("EXPIRE k 6 NX", ":0"),
            ("EXPIRE k 6 LT", ":0"),
            ("EXPIRE k 5 GT", ":0"),
            ("EXPIRE k 6 GT XX", ":1"),
            ("TTL k", ":6"),
            ("EXPIRE k 5 NX GT", "-ERR NX and XX, GT or LT options at the same time are not compatible"),
            ("EXPIRE k 5 GT LT", "-ERR GT and LT options at the same time are not compatible"),
            ("EXPIRE k 5 SOON", "-ERR Unsupported option SOON"),
            ("EXPIRE k x", "-ERR value is not an integer or out of range"),
            ("EXPIRE k 9223372036854775807", "-ERR invalid expire time in 'expire' command"),
            ("PEXPIRE k 9223372036854775807", "-ERR invalid expire time in 'pexpire' command"),
            ("PEXPIREAT k 9223372036854775807", ":1"),
        ]);
    }
}
