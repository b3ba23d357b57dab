//! 128-bit hashes that are kept incrementally: a file's is the XOR of its lines', an image's that
//! of its files'.
//!
//! A line of zeros hashes to 0, so that zeroed memory costs nothing. Two lanes of 64 bits, each
//! step a bijection of the state, so that lines that differ in one word never collide in either
//! lane. Not made to withstand an attacker.

use super::page::LineBytes;
use crate::split_mix::{STEP as A, scrambled};

const B: u64 = 0xc2b2_ae3d_27d4_eb4f;

#[derive(Clone, Copy)]
struct Lanes(u64, u64);

impl Lanes {
    #[inline]
    fn new(seed: u64) -> Lanes {
        // Scrambled, or the number of a line and its first word would be interchangeable.
        Lanes(scrambled(seed ^ A), scrambled(seed.wrapping_add(B)))
    }

    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(A).rotate_left(29);
        self.1 = (self.1.wrapping_add(word)).wrapping_mul(B).rotate_left(37);
    }

    #[inline]
    fn finish(self) -> u128 {
        u128::from(scrambled(self.0)) << 64 | u128::from(scrambled(self.1))
    }
}

/// Hash of a line's content at its place; 0 for zeros.
#[inline]
pub(crate) fn line(number: u32, bytes: &LineBytes) -> u128 {
    let mut lanes = Lanes::new(u64::from(number));
    let mut any = 0;
    for word in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        any |= word;
        lanes.add(word);
    }
    if any == 0 { 0 } else { lanes.finish() }
}

/// Hash of a file: its name, its length and the XOR of its lines.
pub(crate) fn file(name: &str, len: u64, content: u128) -> u128 {
    let mut lanes = Lanes::new(name.len() as u64);
    for chunk in name.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        lanes.add(u64::from_le_bytes(word));
    }
    lanes.add(len);
    lanes.add(content as u64);
    lanes.add((content >> 64) as u64);
    lanes.finish()
}

/// Hash of a sequence that ended in `before` and goes on with `word`.
pub(crate) fn follow(before: u128, word: u64) -> u128 {
    let mut lanes = Lanes(before as u64 ^ A, (before >> 64) as u64);
    lanes.add(word);
    lanes.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small numbers next to each other are what pools are full of; the XOR of two such lines must
    /// not cancel out.
    #[test]
    fn neighbouring_lines_with_small_words_do_not_collide() {
        let mut seen = rustc_hash::FxHashSet::default();
        for number in 0..64 {
            for at in 0..8 {
                for value in 1..64 {
                    let mut bytes = [0; 64];
                    bytes[at * 8] = value;
                    let hash = line(number, &bytes);
                    assert!(seen.insert(hash as u64) && seen.insert((hash >> 64) as u64), "{number} {at} {value}");
                }
            }
        }
        assert_eq!(line(3, &[0; 64]), 0);
    }

    #[test]
    fn files_differ_by_name_length_and_content() {
        let hashes =
            [file("a", 1, 1), file("b", 1, 1), file("a", 2, 1), file("a", 1, 2), file("", 1, 1), file("a", 1, 1 << 64)];
        let distinct: rustc_hash::FxHashSet<_> = hashes.into_iter().collect();
        assert_eq!(distinct.len(), hashes.len());
    }
}
