//! SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): salts of the log, seeded choices, and the hashes
//! of the simulation. The numbers of a seed are the same in every version.

/// Step of the state from number to number: 2^64 divided by the golden ratio.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of numbers that its seed decides.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence of a seed.
    pub const fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        scrambled(self.0)
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

/// Spreads the bits of a word over all of it; a bijection. 0 stays 0.
#[inline]
pub const fn scrambled(mut word: u64) -> u64 {
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::{STEP, SplitMix64, scrambled};

    /// Log files carry salts made so: the numbers are those of the published algorithm.
    #[test]
    fn the_numbers_are_those_of_the_published_algorithm() {
        let mut numbers = SplitMix64::new(1_234_567);
        let found = [numbers.next_u64(), numbers.next_u64(), numbers.next_u64()];
        assert_eq!(found, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!(scrambled(1_234_567_u64.wrapping_add(STEP)), found[0]);
    }
}
