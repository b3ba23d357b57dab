//! Random words for pool ids and log salts, from the operating system or from a seed that repeats
//! them.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A SplitMix64 generator.
pub struct Source(u64);

impl Source {
    /// A generator seeded with `seed`, or by the operating system.
    #[allow(clippy::disallowed_methods, reason = "the operating system is asked only where no seed is given")]
    pub fn new(seed: Option<u64>) -> Source {
        Source(seed.unwrap_or_else(|| RandomState::new().build_hasher().finish()))
    }

    /// The next random word.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }
}
