//! A thread's place in its file: one piece after the other, or in random order.

use perdura_pmem::split_mix::SplitMix64;

/// Order of the pieces of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Each behind the last, and from the beginning again.
    Sequential,
    /// At random.
    Random,
}

impl Pattern {
    /// Both.
    pub const ALL: [Pattern; 2] = [Pattern::Sequential, Pattern::Random];

    /// Its name in cases.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Sequential => "seq",
            Pattern::Random => "rand",
        }
    }
}

/// Offsets of the pieces of a file.
pub struct Places {
    pattern: Pattern,
    piece_bytes: u64,
    pieces: u64,
    next: u64,
    random: SplitMix64,
}

impl Places {
    /// The whole pieces of `piece_bytes` that a file of `file_bytes` has, in the order of a seed.
    pub fn new(pattern: Pattern, piece_bytes: u64, file_bytes: u64, seed: u64) -> Places {
        Places { pattern, piece_bytes, pieces: file_bytes / piece_bytes, next: 0, random: SplitMix64::new(seed) }
    }

    /// Offset of the next piece.
    #[inline]
    pub fn next(&mut self) -> u64 {
        let piece = match self.pattern {
            Pattern::Sequential => {
                let piece = self.next;
                self.next = if piece + 1 == self.pieces { 0 } else { piece + 1 };
                piece
            }
            // The high half of a product, so that no division is timed.
            Pattern::Random => ((u128::from(self.random.next_u64()) * u128::from(self.pieces)) >> 64) as u64,
        };
        piece * self.piece_bytes
    }

    /// Lets the places after the next depend on a word, which is 0: they are known when it is.
    #[inline]
    pub fn turn(&mut self, word: u64) {
        self.random = SplitMix64::new(self.random.next_u64() ^ word);
    }
}

/// A size as cases write it.
pub fn size_name(bytes: usize) -> String {
    if bytes >= 1024 { format!("{}KiB", bytes / 1024) } else { format!("{bytes}B") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_met_and_none_beyond_the_file() {
        let mut in_order = Places::new(Pattern::Sequential, 64, 200, 1);
        assert_eq!([0; 4].map(|_| in_order.next()), [0, 64, 128, 0]);
        let mut random = Places::new(Pattern::Random, 64, 200, 1);
        let met: std::collections::BTreeSet<u64> = (0..100).map(|_| random.next()).collect();
        assert_eq!(met.into_iter().collect::<Vec<_>>(), [0, 64, 128]);
        assert_eq!((size_name(64), size_name(32 << 10)), ("64B".to_owned(), "32KiB".to_owned()));
    }
}
