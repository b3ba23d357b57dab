//! Milestones: records of a list's chain at which the collector can begin a walk, so that it need
//! not come from the head.
//!
//! Timestamps never rise along the chain. So the records of some timestamps are found from the
//! nearest newer milestone. A walk sets one in each range that it leaves behind, and takes up
//! those it found there: none outlives its record. Changes settled since the last round lie before
//! the first milestone.

use crate::timestamps::Ts;
use perdura_pmem::{Mutant, planted};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::RangeInclusive;

/// The offsets of records by their timestamps, one for a timestamp.
#[derive(Default)]
pub(crate) struct Milestones {
    places: BTreeMap<Ts, u64>,
}

impl Milestones {
    /// The milestone nearest before all records of timestamp `ts`, if there is one.
    pub(crate) fn before(&self, ts: Ts) -> Option<u64> {
        self.places.range((Excluded(ts), Unbounded)).next().map(|(_, offset)| *offset)
    }

    pub(crate) fn set(&mut self, ts: Ts, offset: u64) {
        self.places.insert(ts, offset);
    }

    /// Takes up the milestones of these timestamps at records that `is_here` accepts.
    pub(crate) fn take_up(&mut self, timestamps: RangeInclusive<Ts>, is_here: impl Fn(u64) -> bool) {
        let here = self.places.range(timestamps).filter(|(_, offset)| is_here(**offset));
        let here: Vec<Ts> = here.map(|(ts, _)| *ts).collect();
        // Planted: a milestone outlives its record.
        here.iter().filter(|_| !planted(Mutant::MilestoneOutlivesRecord)).for_each(|ts| _ = self.places.remove(ts));
    }

    pub(crate) fn clear(&mut self) {
        self.places.clear();
    }
}

/// Merges ranges of timestamps, each from high to low, that overlap. Returns them from the highest
/// on.
pub(crate) fn merge(mut ranges: Vec<(Ts, Ts)>) -> Vec<(Ts, Ts)> {
    ranges.sort_unstable_by(|a, b| b.cmp(a));
    ranges.dedup_by(|next, merged| {
        let overlaps = next.0 >= merged.1;
        if overlaps {
            merged.1 = merged.1.min(next.1);
        }
        overlaps
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::{Milestones, merge};

    #[test]
    fn ranges_that_overlap_become_one() {
        assert_eq!(merge(vec![(3, 1), (9, 7), (7, 5), (4, 4), (3, 2)]), [(9, 5), (4, 4), (3, 1)]);
        assert_eq!(merge(vec![]), []);
    }

    #[test]
    fn a_walk_begins_before_all_records_of_a_timestamp() {
        let mut milestones = Milestones::default();
        [(10, 100), (20, 50), (30, 10)].into_iter().for_each(|(ts, offset)| milestones.set(ts, offset));
        assert_eq!((milestones.before(20), milestones.before(19), milestones.before(30)), (Some(10), Some(50), None));
        milestones.take_up(10..=20, |offset| offset == 50);
        assert_eq!((milestones.before(15), milestones.before(9)), (Some(10), Some(100)));
    }
}
