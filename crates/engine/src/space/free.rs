//! The lists of a table's free segments.

use crate::files::chain::SegmentId;
use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

/// Segments that are free, that have free cells, or that are still to be swept.
#[derive(Default)]
pub struct FreeSegments {
    free: BTreeSet<SegmentId>,
    /// Segments with free cells and no owner, by units of their cells.
    reusable: BTreeSet<(u32, SegmentId)>,
    unswept: VecDeque<SegmentId>,
}

impl FreeSegments {
    /// Adds a free segment.
    pub fn put(&mut self, id: SegmentId) {
        self.free.insert(id);
    }

    /// Whether a segment is free.
    pub fn contains(&self, id: SegmentId) -> bool {
        self.free.contains(&id)
    }

    /// Number of free segments.
    pub fn count(&self) -> usize {
        self.free.len()
    }

    /// Takes the first of `count` free segments one after the other, if `kept` are left after that.
    pub fn take(&mut self, count: u32, kept: u32) -> Option<SegmentId> {
        if self.free.len() < (count + kept) as usize {
            return None;
        }
        let (mut start, mut length) = (None::<SegmentId>, 0);
        for &id in &self.free {
            let follows =
                start.is_some_and(|first: SegmentId| first.file == id.file && first.index + length == id.index);
            if !follows {
                (start, length) = (Some(id), 0);
            }
            length += 1;
            if length == count {
                break;
            }
        }
        let start = start.filter(|_| length == count)?;
        for index in start.index..start.index + count {
            self.free.remove(&SegmentId { file: start.file, index });
        }
        Some(start)
    }

    /// Offers the free cells of a segment without an owner.
    pub fn put_reusable(&mut self, units: u32, id: SegmentId) {
        self.reusable.insert((units, id));
    }

    /// Takes back an offer.
    pub fn remove_reusable(&mut self, units: u32, id: SegmentId) {
        self.reusable.remove(&(units, id));
    }

    /// Takes a segment with free cells of the smallest class among `classes`.
    pub fn take_reusable(&mut self, classes: RangeInclusive<u32>) -> Option<SegmentId> {
        let first = SegmentId { file: 0, index: 0 };
        let last = SegmentId { file: u32::MAX, index: u32::MAX };
        let found = *self.reusable.range((*classes.start(), first)..=(*classes.end(), last)).next()?;
        self.reusable.remove(&found);
        Some(found.1)
    }

    /// Segments with free cells on offer, and the units of their cells.
    pub fn reusable(&self) -> impl Iterator<Item = (u32, SegmentId)> + '_ {
        self.reusable.iter().copied()
    }

    /// Adds a segment that is to be swept.
    pub fn put_unswept(&mut self, id: SegmentId) {
        self.unswept.push_back(id);
    }

    /// Takes the next segment to be swept.
    pub fn next_unswept(&mut self) -> Option<SegmentId> {
        self.unswept.pop_front()
    }

    /// Number of segments to be swept.
    pub fn unswept_count(&self) -> usize {
        self.unswept.len()
    }
}
