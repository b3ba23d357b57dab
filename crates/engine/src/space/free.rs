//! The lists of a table's free, reusable and unswept segments.

use crate::files::chain::SegmentId;
use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

/// The segments of a table that are free, that offer free cells, or that are still to be swept.
#[derive(Default)]
pub struct FreeSegments {
    free: BTreeSet<SegmentId>,
    /// Segments that offer free cells and have no owner, with the units of their cells.
    reusable: BTreeSet<(u32, SegmentId)>,
    unswept: VecDeque<SegmentId>,
}

impl FreeSegments {
    /// Adds a free segment.
    pub fn put(&mut self, id: SegmentId) {
        self.free.insert(id);
    }

    /// Whether a segment is on the list of free ones.
    pub fn contains(&self, id: SegmentId) -> bool {
        self.free.contains(&id)
    }

    /// Number of free segments.
    pub fn count(&self) -> usize {
        self.free.len()
    }

    /// Takes the first `count` adjacent free segments, if `kept` others stay free. Returns the first of them.
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

    /// Offers the free cells, of `units`, of a segment without an owner.
    pub fn put_reusable(&mut self, units: u32, id: SegmentId) {
        self.reusable.insert((units, id));
    }

    /// Withdraws the offer of a segment.
    pub fn remove_reusable(&mut self, units: u32, id: SegmentId) {
        self.reusable.remove(&(units, id));
    }

    /// Takes a segment that offers cells of the smallest class within `classes`.
    pub fn take_reusable(&mut self, classes: RangeInclusive<u32>) -> Option<SegmentId> {
        let first = SegmentId { file: 0, index: 0 };
        let last = SegmentId { file: u32::MAX, index: u32::MAX };
        let found = *self.reusable.range((*classes.start(), first)..=(*classes.end(), last)).next()?;
        self.reusable.remove(&found);
        Some(found.1)
    }

    /// The segments that offer free cells, with the units of their cells.
    pub fn reusable(&self) -> impl Iterator<Item = (u32, SegmentId)> + '_ {
        self.reusable.iter().copied()
    }

    /// Adds a segment to those to be swept.
    pub fn put_unswept(&mut self, id: SegmentId) {
        self.unswept.push_back(id);
    }

    /// Takes a segment to be swept.
    pub fn next_unswept(&mut self) -> Option<SegmentId> {
        self.unswept.pop_front()
    }

    /// Number of segments still to be swept.
    pub fn unswept_count(&self) -> usize {
        self.unswept.len()
    }
}
