//! The simulation's randomness: a small generator whose sequence for a seed never changes between
//! versions.

use crate::split_mix::SplitMix64;

/// A sequence of numbers that its seed decides.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    /// A generator that yields the same numbers for the same seed in every version.
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64::new(seed))
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which is not 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n` on average.
    #[inline]
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// True with a probability of `percent` / 100.
    #[inline]
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
