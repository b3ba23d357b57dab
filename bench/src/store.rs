//! What every system under test is: a place that keys are put into, read from and deleted from, in batches.

use crate::keys::Key;

/// A system that holds keys and values. A failure of any kind panics: there is nothing to measure then.
pub trait Store {
    /// Gives each key, which has none yet or another, this value; confirms after every `batch` keys, and at the end.
    fn insert(&mut self, keys: &[Key], value: &[u8], batch: usize);

    /// Reads each key, which must be there; the bytes of the values, and their first bytes, added up.
    fn read(&self, keys: &[Key]) -> u64;

    /// Deletes each key, which must be there; confirms after every `batch` keys, and at the end.
    fn delete(&mut self, keys: &[Key], batch: usize);
}

/// What a read contributes to the sum that [`Store::read`] returns, so that no value goes unlooked at.
pub fn looked_at(value: &[u8]) -> u64 {
    value.len() as u64 + value.first().copied().map_or(0, u64::from)
}
