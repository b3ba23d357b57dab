//! What a replica remembers between commands: where listings of keys are. It is lost with the process.
//!
//! A cursor of SCAN is a number for clients, but stands for the last key that was looked at: 52 bits of its SHA-256, which a
//! client that counts in floating point keeps too. So the same place has the same cursor on all replicas. Bounded: [`CURSORS_MAX`] keys.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

/// Most cursors that are remembered. The one that was not used for the longest time is forgotten first.
pub const CURSORS_MAX: usize = 1024;
const CURSOR_BITS: u32 = 52;

/// Where listings are.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    /// By cursor: the key, and when it was used last.
    cursors: BTreeMap<u64, (Vec<u8>, u64)>,
    /// Cursors by when they were used last.
    used: BTreeMap<u64, u64>,
    uses: u64,
    random: u64,
    /// The last key that RANDOMKEY has looked at.
    drawn: Vec<u8>,
}

impl Places {
    fn keep(&mut self, cursor: u64, key: Vec<u8>) {
        self.uses += 1;
        if let Some((_, before)) = self.cursors.insert(cursor, (key, self.uses)) {
            self.used.remove(&before);
        }
        self.used.insert(self.uses, cursor);
        if self.used.len() > CURSORS_MAX
            && let Some((_, oldest)) = self.used.pop_first()
        {
            self.cursors.remove(&oldest);
        }
    }
}

impl Memory {
    /// Nothing; the seed decides what is drawn.
    pub fn new(seed: u64) -> Self {
        let random = (seed ^ 0x9e37_79b9_7f4a_7c15).max(1);
        Self(Mutex::new(Places { random, ..Places::default() }))
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cursor of a key.
    pub fn cursor(&self, key: &[u8]) -> u64 {
        let hash = Sha256::digest(key);
        let word = u64::from_le_bytes(hash[..8].try_into().expect("eight of 32 bytes"));
        // 0 is the beginning, and the end.
        let cursor = (word >> (64 - CURSOR_BITS)).max(1);
        self.places().keep(cursor, key.to_vec());
        cursor
    }

    /// The key of a cursor. `None` if it is forgotten.
    pub fn key(&self, cursor: u64) -> Option<Vec<u8>> {
        let mut places = self.places();
        let key = places.cursors.get(&cursor).map(|(key, _)| key.clone())?;
        places.keep(cursor, key.clone());
        Some(key)
    }

    /// The last key that RANDOMKEY has looked at.
    pub fn drawn(&self) -> Vec<u8> {
        self.places().drawn.clone()
    }

    /// RANDOMKEY has looked at the keys up to one.
    pub fn set_drawn(&self, key: &[u8]) {
        self.places().drawn = key.to_vec();
    }

    /// A number below `bound`, at random.
    pub fn below(&self, bound: u64) -> u64 {
        let mut places = self.places();
        let mut word = places.random.max(1);
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        places.random = word;
        word.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::{CURSORS_MAX, Memory};

    #[test]
    fn a_cursor_is_kept_while_it_is_used() {
        let memory = Memory::new(1);
        let first = memory.cursor(b"first");
        assert_eq!(memory.cursor(b"first"), first);
        for number in 0..3 * CURSORS_MAX {
            memory.cursor(&number.to_le_bytes());
            if number % 100 == 0 {
                assert_eq!(memory.key(first), Some(b"first".to_vec()));
            }
        }
        let other = memory.cursor(b"other");
        (0..CURSORS_MAX).for_each(|number| assert_ne!(memory.cursor(&number.to_be_bytes()), other));
        assert_eq!(memory.key(other), None);
        assert_eq!(memory.places().cursors.len(), CURSORS_MAX);
        assert_eq!(memory.places().used.len(), CURSORS_MAX);
    }
}
