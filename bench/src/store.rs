//! The interface of every system under test: puts, reads and deletes keys in batches.

use crate::keys::Key;

/// A system that holds keys and values. Any failure panics: there is nothing to measure then.
pub trait Store {
    /// Gives each key this value, whether it had one or not. Persists after every `batch` keys and
    /// at the end.
    fn insert(&mut self, keys: &[Key], value: &[u8], batch: usize);

    /// Reads each key, which must exist. Returns the sum of the values' lengths and first bytes.
    fn read(&self, keys: &[Key]) -> u64;

    /// Deletes each key, which must exist. Persists after every `batch` keys and at the end.
    fn delete(&mut self, keys: &[Key], batch: usize);
}

/// The part that one value adds to the sum of [`Store::read`], so that every value is looked at.
pub fn looked_at(value: &[u8]) -> u64 {
    value.len() as u64 + value.first().copied().map_or(0, u64::from)
}
