//! The calendar by the log's time, and its setting by an operator.

use super::arguments::{Arguments, syntax};
use super::{Access, Command, NO_KEY, Outcome, Run, wrong};
use crate::machine::draft::Draft;
use crate::resp::Reply;

/// The last moment that can be set: the end of the year 9999.
const MS_MAX: i64 = 253_402_300_799_999;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "perdura.clock", flags: "admin noscript", categories: "", group: "server", since: "perdura", arity: -1, access: Access::Write, places: NO_KEY, run: Run::Draft(clock), summary: "Returns the time by which keys end, or sets it right." },
];

fn clock(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    match arguments.option().as_deref() {
        None => draft.rely_on_time(),
        Some(b"SET") => {
            let calendar_ms = arguments.integer()?;
            arguments.end()?;
            match u64::try_from(calendar_ms) {
                Ok(at) if calendar_ms <= MS_MAX => draft.set_calendar(at)?,
                _ => return wrong("the time is in milliseconds since 1970, and before the year 10000"),
            }
        }
        Some(_) => return syntax(),
    }
    Ok(Reply::Integer(draft.now_ms().saturating_sub(draft.ahead_ms()?) as i64))
}

#[cfg(test)]
mod tests {
    use crate::command::tests::Table;

    /// Hazard: a time that was wrong when keys were given deadlines stays wrong for good, or ends
    /// them when it is set right.
    #[test]
    fn the_calendar_goes_back_and_keys_keep_the_time_that_they_have_left() {
        let mut table = Table::at(9_000_000);
        table.replies(&[
            ("SET k v PX 500", "+OK"),
            ("PERDURA.CLOCK", ":9000000"),
            ("PERDURA.CLOCK SET 1000000", ":1000000"),
            ("PTTL k", ":500"),
            ("PEXPIRETIME k", ":1000500"),
            ("PEXPIREAT k 1000700", ":1"),
            ("PTTL k", ":700"),
            ("SET l v PXAT 1000300", "+OK"),
            ("PTTL l", ":300"),
            ("EXPIREAT l 999", ":1"),
            ("GET l", "$-1"),
            ("GETEX k EXAT 1002", "$1 v"),
            ("EXPIRETIME k", ":1002"),
            ("PERDURA.CAS m 0 v PXAT 1000040", ":14"),
            ("PTTL m", ":40"),
        ]);
        table.now_ms += 40;
        table.replies(&[
            ("GET m", "$-1"),
            ("PERDURA.CLOCK", ":1000040"),
            ("PERDURA.CLOCK SET 999000", ":999000"),
            ("PTTL k", ":1960"),
            ("PERDURA.CLOCK SET 1", ":1"),
            ("PEXPIRETIME k", ":1961"),
        ]);
    }

    #[test]
    fn time_that_is_set_forward_has_passed() {
        let mut table = Table::at(1_000_000);
        table.replies(&[
            ("SET k v PX 500", "+OK"),
            ("SET l v PX 501", "+OK"),
            ("PERDURA.CLOCK SET 1000500", ":1000500"),
        ]);
        table.now_ms += 500;
        table.replies(&[("GET k", "$-1"), ("PTTL l", ":1")]);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let range = "-ERR the time is in milliseconds since 1970, and before the year 10000";
        Table::at(1_000_000).replies(&[
            ("PERDURA.CLOCK SET -1", range),
            ("PERDURA.CLOCK SET 253402300800000", range),
            ("PERDURA.CLOCK SET soon", "-ERR value is not an integer or out of range"),
            ("PERDURA.CLOCK SET 1 2", "-ERR syntax error"),
            ("PERDURA.CLOCK GET", "-ERR syntax error"),
            ("PERDURA.CLOCK", ":1000000"),
        ]);
    }
}
