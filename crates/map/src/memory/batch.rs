//! The byte ranges stored since the last persist, which the next one flushes.

use perdura_pmem::{LINE_BYTES, Region};

/// Ranges stored through the cache, not yet flushed.
#[derive(Default)]
pub(crate) struct Batch {
    ranges: Vec<(u64, u64)>,
}

impl Batch {
    /// Adds a range. A range that starts where the last one ends extends it.
    #[inline]
    pub(crate) fn add(&mut self, offset: u64, len: u64) {
        if let Some((_, end)) = self.ranges.last_mut()
            && *end == offset
        {
            *end += len;
            return;
        }
        self.ranges.push((offset, offset + len));
    }

    /// Bytes of the ranges. Linear in their number.
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// Flushes every line of the ranges once and empties the batch. The caller fences.
    #[track_caller]
    pub(crate) fn flush(&mut self, region: &Region) {
        self.ranges.sort_unstable();
        let mut flushed_to = 0;
        for (start, end) in self.ranges.drain(..) {
            let first = (start / LINE_BYTES * LINE_BYTES).max(flushed_to);
            let end = end.next_multiple_of(LINE_BYTES).min(region.len());
            if first < end {
                region.flush(first, end - first);
                flushed_to = end;
            }
        }
    }
}
