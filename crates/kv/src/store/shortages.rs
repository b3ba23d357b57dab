//! Counts how often a medium had no room for what was to be written.

use super::error::{ErrorKind, Result};

/// Writes for which a medium had no room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shortages {
    /// Number of them, those that were tried again included.
    pub count: u64,
    /// Error of the last one.
    pub last: String,
}

impl Shortages {
    /// Counts a result that is the error `Full`.
    pub(super) fn watch<T>(&mut self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| {
            if error.kind() == ErrorKind::Full {
                self.count += 1;
                self.last = error.to_string();
            }
        })
    }
}
