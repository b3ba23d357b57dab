//! Lines that are open: stored to, but not yet known to be on the medium.

use super::page::LineBytes;
use crate::split_mix::SplitMix64 as Random;
use smallvec::SmallVec;

/// A store of one word that may or may not be on the medium.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    /// Place in the trace: orders stores.
    pub(crate) at: u32,
    pub(crate) thread: u16,
    /// Word of the line, 0 to 7.
    pub(crate) word: u8,
    pub(crate) nt: bool,
    pub(crate) value: u64,
}

/// The stores of an open line, in order; never empty while the line is open.
///
/// The rules of a legal crash image (I2): of a line's cached stores some prefix, in order, is on
/// the medium; of its non-temporal words any subset; and where both touch a word, the later of
/// those that are there. What a thread flushed (a line's cached stores up to then, whoever made
/// them) or stored non-temporally is there once that thread has fenced. Lines are independent of
/// each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenLine {
    pub(crate) pending: SmallVec<[Pending; 8]>,
}

impl OpenLine {
    /// Makes the stores that `settled` selects durable in `bytes`, and forgets those they overtake.
    pub(crate) fn settle(&mut self, bytes: &mut LineBytes, settled: impl Fn(&Pending) -> bool) {
        // Per word, the place of the newest settled store, plus one.
        let mut newest = [0; 8];
        for pending in self.pending.iter().filter(|pending| settled(pending)) {
            newest[usize::from(pending.word)] = pending.at + 1;
            put(bytes, pending);
        }
        self.pending.retain(|pending| !settled(pending) && pending.at + 1 > newest[usize::from(pending.word)]);
    }

    /// The line with all its stores.
    pub(crate) fn full(&self, durable: &LineBytes) -> LineBytes {
        let mut bytes = *durable;
        for pending in &self.pending {
            put(&mut bytes, pending);
        }
        bytes
    }

    /// The line with those of its stores that were made up to place `at` of the trace.
    pub(crate) fn until(&self, durable: &LineBytes, at: u32) -> LineBytes {
        let mut bytes = *durable;
        self.pending.iter().filter(|pending| pending.at <= at).for_each(|pending| put(&mut bytes, pending));
        bytes
    }

    /// The line with a random legal choice of its stores: of the cached ones a prefix, of the
    /// others any.
    pub(crate) fn partial(&self, durable: &LineBytes, random: &mut Random) -> LineBytes {
        let cached = self.pending.iter().filter(|pending| !pending.nt).count() as u64;
        let mut prefix = random.below(cached + 1);
        let mut bits = random.next_u64();
        let mut bytes = *durable;
        for pending in &self.pending {
            let here = if pending.nt {
                // More than 64 words: the same choices again.
                bits = bits.rotate_right(1);
                bits & 1 == 1
            } else if prefix > 0 {
                prefix -= 1;
                true
            } else {
                false
            };
            if here {
                put(&mut bytes, pending);
            }
        }
        bytes
    }
}

#[inline]
fn put(bytes: &mut LineBytes, pending: &Pending) {
    bytes[usize::from(pending.word) * 8..][..8].copy_from_slice(&pending.value.to_le_bytes());
}
