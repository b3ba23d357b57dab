//! State that a replica keeps between commands: listings that are under way (`listings.rs`), and
//! where RANDOMKEY is. It is lost with the process.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::listings::Listings;

/// Bits of a cursor, which a client that counts in floating point keeps too.
const CURSOR_BITS: u32 = 52;

/// Where listings are.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<Places>);

#[derive(Debug, Default)]
struct Places {
    listings: Listings,
    random: u64,
    /// The last key that RANDOMKEY has looked at.
    drawn: Vec<u8>,
}

impl Places {
    fn draw(&mut self) -> u64 {
        let mut word = self.random.max(1);
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        self.random = word;
        word.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

impl Memory {
    /// Nothing; the seed decides what is drawn.
    pub(crate) fn new(seed: u64) -> Self {
        let random = (seed ^ 0x9e37_79b9_7f4a_7c15).max(1);
        Self(Mutex::new(Places { random, ..Places::default() }))
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A user's listing at `cursor`, or a new one at 0, has looked at the keys up to `key`, or at
    /// all. Returns its next cursor.
    pub(crate) fn advance(&self, user: &Bytes, cursor: u64, key: Option<Vec<u8>>) -> u64 {
        let mut places = self.places();
        // 0 is the beginning, and the end.
        let fresh = (places.draw() >> (64 - CURSOR_BITS)).max(1);
        places.listings.advance(user, cursor, key, fresh)
    }

    /// The key of a user's cursor. `None` if it is not known.
    pub(crate) fn key(&self, user: &[u8], cursor: u64) -> Option<Vec<u8>> {
        self.places().listings.key(user, cursor).map(<[u8]>::to_vec)
    }

    /// The last key that RANDOMKEY has looked at.
    pub(crate) fn drawn(&self) -> Vec<u8> {
        self.places().drawn.clone()
    }

    /// RANDOMKEY has looked at the keys up to one.
    pub(crate) fn set_drawn(&self, key: &[u8]) {
        self.places().drawn = key.to_vec();
    }

    /// A number below `bound`, at random.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.places().draw() % bound.max(1)
    }
}
