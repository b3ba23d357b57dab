//! Strings that are numbers.

use bytes::Bytes;

use super::arguments::{Arguments, float, integer};
use super::decimal;
use super::strings::store;
use super::{Access, Command, ONE_KEY, Outcome, Run, wrong};
use crate::machine::draft::Draft;
use crate::resp::Reply;

/// Longest text that is a number.
const NUMBER_BYTES_MAX: usize = 5 << 10;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "incr", flags: "denyoom fast", categories: "string", group: "string", since: "1.0.0", arity: 2, access: Access::Write, places: ONE_KEY, run: Run::Draft(add), summary: "Adds 1 to a number." },
    Command { name: "decr", flags: "denyoom fast", categories: "string", group: "string", since: "1.0.0", arity: 2, access: Access::Write, places: ONE_KEY, run: Run::Draft(add), summary: "Takes 1 from a number." },
    Command { name: "incrby", flags: "denyoom fast", categories: "string", group: "string", since: "1.0.0", arity: 3, access: Access::Write, places: ONE_KEY, run: Run::Draft(add), summary: "Adds to a number." },
    Command { name: "decrby", flags: "denyoom fast", categories: "string", group: "string", since: "1.0.0", arity: 3, access: Access::Write, places: ONE_KEY, run: Run::Draft(add), summary: "Takes from a number." },
    Command { name: "incrbyfloat", flags: "denyoom fast", categories: "string", group: "string", since: "2.6.0", arity: 3, access: Access::Write, places: ONE_KEY, run: Run::Draft(add_float), summary: "Adds to a number with a fraction." },
];

fn add(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let key = arguments.take()?;
    let by = match arguments.command() {
        "incr" => 1,
        "decr" => -1,
        "incrby" => arguments.integer()?,
        _ => match arguments.integer()?.checked_neg() {
            Some(by) => by,
            None => return wrong("decrement would overflow"),
        },
    };
    let (old, deadline) = number(draft, key)?;
    let old = integer(&old)?;
    let Some(new) = old.checked_add(by) else { return wrong("increment or decrement would overflow") };
    store(draft, key, new.to_string().into(), deadline)?;
    Ok(Reply::Integer(new))
}

/// The text of a key's number, 0 if it is not there, and its deadline. What is too long for any
/// number is read as nothing.
fn number(draft: &Draft<'_>, key: &[u8]) -> Outcome<(Bytes, Option<u64>)> {
    let Some(front) = draft.front(key)? else { return Ok((Bytes::from_static(b"0"), None)) };
    let length = if front.length > NUMBER_BYTES_MAX { 0 } else { front.length };
    Ok((draft.part(key, &front, 0..length)?, front.deadline_ms))
}

fn add_float(mut arguments: Arguments<'_>, draft: &mut Draft<'_>) -> Outcome<Reply> {
    let (key, by) = (arguments.take()?, arguments.take()?);
    let (old, deadline) = number(draft, key)?;
    let (start, step) = (float(&old)?, float(by)?);
    let new = match decimal::sum(&old, by) {
        Some(exact) => Bytes::from(exact),
        None if (start + step).is_finite() => Bytes::from((start + step).to_string()),
        None => return wrong("increment would produce NaN or Infinity"),
    };
    store(draft, key, new.clone(), deadline)?;
    Ok(Reply::Bytes(new))
}

#[cfg(test)]
mod tests {
    use crate::command::tests::Table;

    #[test]
    fn numbers_count_and_do_not_wrap() {
        Table::default().replies(&[
            ("INCR n", ":1"),
            ("INCRBY n 41", ":42"),
            ("DECR n", ":41"),
            ("DECRBY n 50", ":-9"),
            ("GET n", "$2 -9"),
            ("SET n 9223372036854775807", "+OK"),
            ("INCR n", "-ERR increment or decrement would overflow"),
            ("DECRBY n -9223372036854775808", "-ERR decrement would overflow"),
            ("SET n ' 1'", "+OK"),
            ("INCR n", "-ERR value is not an integer or out of range"),
            ("SET n 01", "+OK"),
            ("INCR n", "-ERR value is not an integer or out of range"),
            ("INCRBY m 1.5", "-ERR value is not an integer or out of range"),
            ("GET m", "$-1"),
            ("SET m ''", "+OK"),
            ("INCR m", "-ERR value is not an integer or out of range"),
            ("INCRBYFLOAT m 1", "-ERR value is not a valid float"),
        ]);
    }

    #[test]
    fn fractions_are_exact_to_the_eye() {
        Table::default().replies(&[
            ("SET n 10.50", "+OK"),
            ("INCRBYFLOAT n 0.1", "$4 10.6"),
            ("INCRBYFLOAT n -5", "$3 5.6"),
            ("INCRBYFLOAT third 0.1", "$3 0.1"),
            ("INCRBYFLOAT third 0.2", "$3 0.3"),
            ("SET n 5.0e3", "+OK"),
            ("INCRBYFLOAT n 2.0e2", "$4 5200"),
            ("INCRBYFLOAT n inf", "-ERR increment would produce NaN or Infinity"),
            ("INCRBYFLOAT n nan", "-ERR value is not a valid float"),
            ("INCRBYFLOAT n x", "-ERR value is not a valid float"),
        ]);
    }

    #[test]
    fn a_number_keeps_its_deadline() {
        let mut table = Table::at(1_000_000);
        table.replies(&[("SET n 1 PX 500", "+OK"), ("INCR n", ":2"), ("INCRBYFLOAT n 1", "$1 3"), ("PTTL n", ":500")]);
    }
}
