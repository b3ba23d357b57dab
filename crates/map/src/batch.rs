//! What has been stored since the last confirmation and is still to be flushed, as ranges of bytes.

use perdura_pmem::{LINE_BYTES, Region};

/// Ranges stored through the cache.
#[derive(Default)]
pub(crate) struct Batch {
    ranges: Vec<(u64, u64)>,
}

impl Batch {
    /// Notes a range; one that goes on where the last noted one ends makes that longer.
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

    /// Flushes every line noted, each once, and forgets them. The caller fences.
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
