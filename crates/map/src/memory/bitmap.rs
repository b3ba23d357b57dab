//! A bitmap over the pages, in DRAM. One is kept for live objects, with a bit per grain, set where
//! an object starts; others for nodes that no persist covers, with a bit per cache line.
//!
//! Thread-safety: changed under the writer's lock, read by any thread.

use crate::memory::format::Geometry;
use std::sync::atomic::{AtomicU64, Ordering};

/// A bit for every `grain_bytes` of a map's pages.
pub(crate) struct Bitmap {
    words: Box<[AtomicU64]>,
    data_at: u64,
    grain_bytes: u64,
}

impl Bitmap {
    pub(crate) fn new(geometry: &Geometry, grain_bytes: u64) -> Bitmap {
        let grains = geometry.pages * geometry.page_bytes / grain_bytes;
        Bitmap { words: zeroed(grains.div_ceil(64) as usize), data_at: geometry.data_at, grain_bytes }
    }

    #[inline]
    fn place(&self, offset: u64) -> (usize, u64) {
        let grain = (offset - self.data_at) >> self.grain_bytes.trailing_zeros();
        ((grain / 64) as usize, 1 << (grain % 64))
    }

    #[inline]
    pub(crate) fn is_set(&self, offset: u64) -> bool {
        let (word, bit) = self.place(offset);
        self.words[word].load(Ordering::Acquire) & bit != 0
    }

    /// Sets a bit. Returns whether it was clear.
    #[inline]
    pub(crate) fn set(&self, offset: u64) -> bool {
        let (word, bit) = self.place(offset);
        let before = self.words[word].load(Ordering::Relaxed);
        self.words[word].store(before | bit, Ordering::Release);
        before & bit == 0
    }

    /// Clears a bit. Returns whether it was set.
    #[inline]
    pub(crate) fn clear(&self, offset: u64) -> bool {
        let (word, bit) = self.place(offset);
        let before = self.words[word].load(Ordering::Relaxed);
        self.words[word].store(before & !bit, Ordering::Release);
        before & bit != 0
    }

    /// Takes over the bits of a range from another over the same pages.
    pub(crate) fn copy_within(&self, other: &Bitmap, offset: u64, len: u64) {
        let mut grain = (offset - self.data_at) / self.grain_bytes;
        let end = grain + len / self.grain_bytes;
        while grain < end {
            let (word, from) = ((grain / 64) as usize, grain % 64);
            let count = (64 - from).min(end - grain);
            let range = u64::MAX >> (64 - count) << from;
            let kept = self.words[word].load(Ordering::Relaxed) & !range;
            self.words[word].store(kept | other.words[word].load(Ordering::Relaxed) & range, Ordering::Release);
            grain += count;
        }
    }

    /// Offset of the last set bit from `from` on and before `to`. Looks at a word at a time.
    pub(crate) fn last_within(&self, from: u64, to: u64) -> Option<u64> {
        let grain = |offset: u64| (offset - self.data_at) / self.grain_bytes;
        let (first, mut end) = (grain(from), grain(to));
        while end > first {
            let word = (end - 1) / 64;
            let below = u64::MAX >> (63 - (end - 1) % 64);
            let found = self.words[word as usize].load(Ordering::Acquire) & below;
            if found != 0 {
                let last = word * 64 + u64::from(63 - found.leading_zeros());
                return (last >= first).then(|| self.data_at + last * self.grain_bytes);
            }
            end = word * 64;
        }
        None
    }

    /// Offsets of the set bits within a range.
    pub(crate) fn within(&self, offset: u64, len: u64) -> impl Iterator<Item = u64> + '_ {
        (0..len / self.grain_bytes)
            .map(move |grain| offset + grain * self.grain_bytes)
            .filter(|offset| self.is_set(*offset))
    }
}

/// Zeroed atomics, allocated zeroed so that untouched memory stays unmapped.
fn zeroed(words: usize) -> Box<[AtomicU64]> {
    let words = vec![0u64; words].into_boxed_slice();
    // SAFETY: AtomicU64 has the size, alignment and bit validity of u64.
    unsafe { Box::from_raw(Box::into_raw(words) as *mut [AtomicU64]) }
}

#[cfg(test)]
mod tests {
    use super::Bitmap;
    use crate::memory::format::Geometry;

    #[test]
    fn the_bits_of_a_range_are_taken_over() {
        let geometry = Geometry::new(1 << 20, 1024);
        let at = |grain: u64| geometry.data_at + 16 * grain;
        let (own, other) = (|grain: u64| grain.is_multiple_of(3), |grain: u64| grain.is_multiple_of(5));
        for (from, to) in [(0, 64), (1, 2), (60, 70), (63, 64), (64, 256), (5, 5), (100, 300)] {
            let bits = [Bitmap::new(&geometry, 16), Bitmap::new(&geometry, 16)];
            (0..400).filter(|grain| own(*grain)).for_each(|grain| _ = bits[0].set(at(grain)));
            (0..400).filter(|grain| other(*grain)).for_each(|grain| _ = bits[1].set(at(grain)));
            bits[0].copy_within(&bits[1], at(from), 16 * (to - from));
            for grain in 0..400 {
                let wanted = if (from..to).contains(&grain) { other(grain) } else { own(grain) };
                assert_eq!(bits[0].is_set(at(grain)), wanted, "{from}..{to}: {grain}");
            }
        }
    }

    #[test]
    fn the_last_bit_of_a_range_is_found() {
        let geometry = Geometry::new(1 << 20, 1024);
        let bits = Bitmap::new(&geometry, 16);
        let at = |grain: u64| geometry.data_at + 16 * grain;
        let set = [0u64, 1, 63, 64, 65, 127, 200, 1000, 1023, 1024];
        set.iter().for_each(|grain| assert!(bits.set(at(*grain))));
        for from in (0..1100).step_by(7).chain(set) {
            for to in [from, from + 1, 64, 65, 128, 201, 1023, 1024, 1025, 1100] {
                let wanted = set.iter().copied().filter(|grain| (from..to).contains(grain)).max();
                assert_eq!(bits.last_within(at(from), at(to)), wanted.map(at), "{from}..{to}");
            }
        }
    }
}
