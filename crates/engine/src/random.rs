//! Random words for pool ids and log salts, from the operating system or from a seed that repeats
//! them.

use perdura_pmem::split_mix::SplitMix64;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A generator of words that nobody can foretell, unless it has a seed.
pub(crate) struct Source(SplitMix64);

impl Source {
    /// A generator seeded with `seed`, or by the operating system.
    #[allow(clippy::disallowed_methods, reason = "the operating system is asked only where no seed is given")]
    pub(crate) fn new(seed: Option<u64>) -> Source {
        Source(SplitMix64::new(seed.unwrap_or_else(|| RandomState::new().build_hasher().finish())))
    }

    /// The next random word.
    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }
}
