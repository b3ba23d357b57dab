//! Rows for a server's information_schema: values of few kinds, in the order of the table's
//! columns.

use std::ffi::c_void;
use std::time::Duration;

/// Kinds of values of a column in a row.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerduraValueKind {
    /// NULL.
    Null = 0,
    /// A whole number.
    Number,
    /// A time, in milliseconds.
    Milliseconds,
    /// A text.
    Text,
}

/// A value of a column.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraValue {
    /// Kind of the value.
    pub kind: PerduraValueKind,
    /// The number or the milliseconds; else 0.
    pub number: u64,
    /// The text; else null.
    pub text: *const u8,
    /// Length of the text.
    pub bytes: usize,
}

impl PerduraValue {
    pub(super) const NULL: PerduraValue = PerduraValue::plain(PerduraValueKind::Null, 0);

    const fn plain(kind: PerduraValueKind, number: u64) -> PerduraValue {
        PerduraValue { kind, number, text: std::ptr::null(), bytes: 0 }
    }

    pub(super) fn number(number: u64) -> PerduraValue {
        PerduraValue::plain(PerduraValueKind::Number, number)
    }

    pub(super) fn count(count: usize) -> PerduraValue {
        PerduraValue::number(count as u64)
    }

    pub(super) fn time(time: Duration) -> PerduraValue {
        PerduraValue::plain(PerduraValueKind::Milliseconds, time.as_millis() as u64)
    }

    /// A text, which must live as long as the value is used.
    pub(super) fn text(text: &str) -> PerduraValue {
        PerduraValue { kind: PerduraValueKind::Text, number: 0, text: text.as_ptr(), bytes: text.len() }
    }

    /// The value made of what is there; NULL if nothing is.
    pub(super) fn of<T>(value: Option<T>, make: impl FnOnce(T) -> PerduraValue) -> PerduraValue {
        value.map_or(PerduraValue::NULL, make)
    }
}

/// Receiver of the rows of a list.
pub(super) struct Taker {
    pub(super) take: unsafe extern "C" fn(context: *mut c_void, values: *const PerduraValue, count: usize) -> bool,
    pub(super) context: *mut c_void,
}

impl Taker {
    /// Hands over a row. Returns whether there is to be another.
    pub(super) fn row(&self, values: &[PerduraValue]) -> bool {
        // SAFETY: whoever made the taker vouched for its function; texts live until the call
        // returns.
        unsafe { (self.take)(self.context, values.as_ptr(), values.len()) }
    }
}
