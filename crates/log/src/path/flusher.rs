//! The log flusher's turn: what the log writer has written through the file system is synced.

use super::lsn::Lsn;
use perdura_pmem::{Region, Result};
use std::ops::Range;

/// Most ranges of a file that are kept apart.
const RANGES_MAX: usize = 256;

/// Files that are written and not synced, the ranges of each, and the LSN that they reach to.
#[derive(Default)]
pub(super) struct Unsynced {
    files: Vec<(Region, Vec<Range<u64>>)>,
    pub(super) upto: Lsn,
}

impl Unsynced {
    /// Adds a write, as one range with those that it touches. A file has at most [`RANGES_MAX`] of
    /// them; then they are one.
    pub(super) fn add(&mut self, region: &Region, range: Range<u64>) {
        let known = self.files.iter_mut().find(|(known, _)| known.as_ptr() == region.as_ptr());
        let Some((_, ranges)) = known else {
            self.files.push((region.clone(), vec![range]));
            return;
        };
        let mut joined = range;
        let is_full = ranges.len() == RANGES_MAX;
        ranges.retain(|range| {
            let is_apart = !is_full && (range.end < joined.start || joined.end < range.start);
            if !is_apart {
                joined = joined.start.min(range.start)..joined.end.max(range.end);
            }
            is_apart
        });
        ranges.push(joined);
    }

    /// Takes all there is.
    pub(super) fn take(&mut self) -> Unsynced {
        Unsynced { files: std::mem::take(&mut self.files), upto: self.upto }
    }

    /// Syncs the files. Returns how many.
    pub(super) fn sync_files(&self) -> Result<u64> {
        for (region, ranges) in &self.files {
            region.sync_file(ranges)?;
        }
        Ok(self.files.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_pmem::{Medium, SimMedium};

    #[test]
    fn ranges_are_bounded() {
        let region = SimMedium::new().create("lane", 1 << 20).expect("room");
        let mut unsynced = Unsynced::default();
        for range in [0..512, 512..1024, 4096..8192, 4608..5120, 900..1100] {
            unsynced.add(&region, range);
        }
        assert_eq!(unsynced.files[0].1, [4096..8192, 0..1100]);
        for number in 1..RANGES_MAX as u64 {
            unsynced.add(&region, 8192 + number * 2048..8192 + number * 2048 + 512);
        }
        let ranges = &unsynced.files[0].1;
        let end = 8192 + (RANGES_MAX as u64 - 1) * 2048 + 512;
        assert_eq!((ranges.len(), ranges[0].start, ranges[0].end), (1, 0, end));
        unsynced.upto = 7;
        let taken = unsynced.take();
        assert_eq!((taken.upto, taken.sync_files().expect("synced"), unsynced.files.len()), (7, 1, 0));
    }
}
