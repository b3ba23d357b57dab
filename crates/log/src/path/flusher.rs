//! The log flusher's turn: what the log writer has written through the file system is synced.

use super::Lsn;
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
    /// Adds a write. A lane has at most [`RANGES_MAX`] ranges; then they are one.
    pub(super) fn add(&mut self, region: &Region, range: Range<u64>) {
        let known = self.files.iter_mut().find(|(known, _)| known.as_ptr() == region.as_ptr());
        let Some((_, ranges)) = known else {
            self.files.push((region.clone(), vec![range]));
            return;
        };
        match ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => ranges.push(range),
        }
        if ranges.len() > RANGES_MAX {
            let start = ranges.iter().map(|range| range.start).min().unwrap_or_default();
            let end = ranges.iter().map(|range| range.end).max().unwrap_or_default();
            *ranges = vec![start..end];
        }
    }

    /// Takes all there is.
    pub(super) fn take(&mut self) -> Unsynced {
        Unsynced { files: std::mem::take(&mut self.files), upto: self.upto }
    }

    /// Syncs the files. Returns how many.
    pub(super) fn sync(&self) -> Result<u64> {
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
        unsynced.add(&region, 0..512);
        unsynced.add(&region, 512..1024);
        for number in 1..=RANGES_MAX as u64 {
            unsynced.add(&region, number * 2048..number * 2048 + 512);
        }
        assert_eq!(unsynced.files[0].1, vec![0..RANGES_MAX as u64 * 2048 + 512]);
        unsynced.upto = 7;
        let taken = unsynced.take();
        assert_eq!((taken.upto, taken.sync().expect("synced"), unsynced.files.len()), (7, 1, 0));
    }
}
