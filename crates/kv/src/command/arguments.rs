//! The arguments of a request, taken one after the other.

use bytes::Bytes;

use super::{Outcome, wrong};

/// Arguments of a request not taken yet.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a> {
    command: &'static str,
    rest: &'a [Bytes],
}

impl<'a> Arguments<'a> {
    /// The arguments behind a command.
    pub(crate) fn new(command: &'static str, rest: &'a [Bytes]) -> Self {
        Self { command, rest }
    }

    /// The command's name, in small messages.
    pub(crate) fn command(&self) -> &'static str {
        self.command
    }

    /// All that is left.
    pub(crate) fn rest(&self) -> &'a [Bytes] {
        self.rest
    }

    /// The next argument, if there is one.
    pub(crate) fn next(&mut self) -> Option<&'a Bytes> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// The next argument, which must be there.
    pub(crate) fn take(&mut self) -> Outcome<&'a Bytes> {
        self.next().map_or_else(syntax, Ok)
    }

    /// The next argument as a number.
    pub(crate) fn integer(&mut self) -> Outcome<i64> {
        integer(self.take()?)
    }

    /// The next argument, which is an option, in capitals. `None` at the end.
    pub(crate) fn option(&mut self) -> Option<Vec<u8>> {
        self.next().map(|option| option.to_ascii_uppercase())
    }

    /// The end: no argument may follow.
    pub(crate) fn end(&self) -> Outcome<()> {
        if self.rest.is_empty() { Ok(()) } else { syntax() }
    }
}

/// Error of arguments that make no sense.
pub(super) fn syntax<T>() -> Outcome<T> {
    wrong("syntax error")
}

/// A number as clients write it: digits, a minus before them or not, and nothing else.
pub(crate) fn integer(text: &[u8]) -> Outcome<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = digits.first().is_some_and(u8::is_ascii_digit) && (digits.len() == 1 || digits[0] != b'0');
    let number = str::from_utf8(text).ok().filter(|_| is_plain && text != b"-0").and_then(|text| text.parse().ok());
    number.map_or_else(|| wrong("value is not an integer or out of range"), Ok)
}

/// A number with a fraction. Infinity is one, what is no number is none.
pub(super) fn float(text: &[u8]) -> Outcome<f64> {
    let is_plain = text.first().is_some_and(|byte| !byte.is_ascii_whitespace());
    let number = str::from_utf8(text).ok().filter(|_| is_plain).and_then(|text| text.parse::<f64>().ok());
    number.filter(|number| !number.is_nan()).map_or_else(|| wrong("value is not a valid float"), Ok)
}
