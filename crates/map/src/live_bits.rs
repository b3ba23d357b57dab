//! A bitmap over the pages, in DRAM. One is kept for live objects, with a bit per grain, set where an object starts;
//! others for nodes that no confirmation covers, with a bit per cache line.
//!
//! Thread-safety: changed under the writer's lock, read by any thread.

use crate::format::Geometry;
use std::sync::atomic::{AtomicU64, Ordering};

/// A bit for every `grain_bytes` of a map's pages.
pub(crate) struct LiveBits {
    words: Box<[AtomicU64]>,
    data_at: u64,
    grain_bytes: u64,
}

impl LiveBits {
    pub(crate) fn new(geometry: &Geometry, grain_bytes: u64) -> LiveBits {
        let grains = geometry.pages * geometry.page_bytes / grain_bytes;
        LiveBits { words: zeroed(grains.div_ceil(64) as usize), data_at: geometry.data_at, grain_bytes }
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

    /// Clears all bits of a range.
    pub(crate) fn clear_all(&self, offset: u64, len: u64) {
        let mut grain = (offset - self.data_at) / self.grain_bytes;
        let end = grain + len / self.grain_bytes;
        while grain < end {
            if grain.is_multiple_of(64) && grain + 64 <= end {
                self.words[(grain / 64) as usize].store(0, Ordering::Release);
                grain += 64;
            } else {
                let word = &self.words[(grain / 64) as usize];
                word.store(word.load(Ordering::Relaxed) & !(1 << (grain % 64)), Ordering::Release);
                grain += 1;
            }
        }
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
