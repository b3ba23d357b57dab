//! Extents: which granules of a table's files hold large versions, and which are free beside them.

use crate::files::chain::SegmentId;
use crate::format::GRANULES;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Adjacent granules of one file, counted through all of its segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granules {
    /// Sequence number of the file.
    pub file: u32,
    /// The first granule.
    pub first: u32,
    /// Number of granules.
    pub count: u32,
    /// Size of each, in bytes.
    pub bytes_each: u64,
}

impl Granules {
    /// The granule after the last.
    pub(crate) fn end(self) -> u32 {
        self.first + self.count
    }

    /// Those of these granules that are from `first` on and before `end`.
    pub(crate) fn within(self, first: u32, end: u32) -> Granules {
        let first = first.clamp(self.first, self.end());
        Granules { first, count: end.clamp(first, self.end()) - first, ..self }
    }

    /// The segments that they lie in, each with a bit for each of their granules in it.
    fn by_segment(self) -> impl Iterator<Item = (SegmentId, u64)> {
        let segments = self.first / GRANULES..self.end().div_ceil(GRANULES);
        segments.map(move |index| {
            let part = self.within(index * GRANULES, (index + 1) * GRANULES);
            (SegmentId { file: self.file, index }, u64::MAX >> (GRANULES - part.count) << (part.first % GRANULES))
        })
    }
}

/// The granules of a segment: a bit each.
#[derive(Default)]
struct Map {
    used: u64,
    /// The first granules of extents.
    first: u64,
}

/// The extents of a table.
///
/// A segment of extents has 64 granules. An extent takes adjacent ones, and may go on from one
/// segment into the next, so that large versions of any length lie side by side. A run of free
/// granules is on the list here only while each of its segments also holds part of an extent; a
/// segment without any is free for every use (`free.rs`). All of it is DRAM; a sweep rebuilds it
/// after a restart.
#[derive(Default)]
pub(crate) struct Extents {
    maps: FxHashMap<SegmentId, Map>,
    /// Runs of free granules, by file and first granule.
    free: BTreeMap<(u32, u32), Granules>,
    /// The same runs, by their bytes.
    by_bytes: BTreeSet<(u64, u32, u32)>,
    /// Ranges of segments still to be swept, with their lengths.
    unswept: BTreeMap<SegmentId, u32>,
}

impl Extents {
    /// Takes granules for `bytes` from the end of the smallest free run that has room.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<Granules> {
        let (_, file, first) = *self.by_bytes.range((bytes, 0, 0)..).next()?;
        let run = self.take_run(file, first).expect("listed twice");
        let split = run.end() - bytes.div_ceil(run.bytes_each) as u32;
        self.put_run(run.within(run.first, split));
        let taken = run.within(split, run.end());
        self.mark(taken);
        Some(taken)
    }

    /// Takes the whole free run that begins with granule `first` of `file`, if one does.
    pub(crate) fn take_run(&mut self, file: u32, first: u32) -> Option<Granules> {
        let run = self.free.remove(&(file, first))?;
        self.by_bytes.remove(&(u64::from(run.count) * run.bytes_each, file, first));
        Some(run)
    }

    /// Number of granules in the free run that begins with granule `first` of `file`; 0 if none
    /// does.
    pub(crate) fn run_at(&self, file: u32, first: u32) -> u32 {
        self.free.get(&(file, first)).map_or(0, |run| run.count)
    }

    fn put_run(&mut self, run: Granules) {
        if run.count > 0 {
            self.free.insert((run.file, run.first), run);
            self.by_bytes.insert((u64::from(run.count) * run.bytes_each, run.file, run.first));
        }
    }

    /// Marks the granules of an extent as used. They must be on no list.
    pub(crate) fn mark(&mut self, extent: Granules) {
        let mut first = 1 << (extent.first % GRANULES);
        for (id, bits) in extent.by_segment() {
            let map = self.maps.entry(id).or_default();
            debug_assert_eq!(map.used & bits, 0, "granules given out twice");
            map.used |= bits;
            map.first |= first;
            first = 0;
        }
    }

    /// The extent that begins with granule `first` of `file`, if one does.
    fn extent_at(&self, file: u32, first: u32, bytes_each: u64) -> Option<Granules> {
        let mut index = first / GRANULES;
        let mut map = self.maps.get(&SegmentId { file, index })?;
        if map.first & 1 << (first % GRANULES) == 0 {
            return None;
        }
        let mut from = first % GRANULES + 1;
        loop {
            let ends = (map.first | !map.used).checked_shr(from).unwrap_or(0);
            let end = index * GRANULES + (from + ends.trailing_zeros()).min(GRANULES);
            let next = self.maps.get(&SegmentId { file, index: index + 1 });
            match next {
                Some(next) if ends == 0 => (map, index, from) = (next, index + 1, 0),
                _ => return Some(Granules { file, first, count: end - first, bytes_each }),
            }
        }
    }

    /// Whether an extent begins with granule `first` of `file`.
    pub(crate) fn begins_at(&self, file: u32, first: u32) -> bool {
        let id = SegmentId { file, index: first / GRANULES };
        self.maps.get(&id).is_some_and(|map| map.first & 1 << (first % GRANULES) != 0)
    }

    /// Frees the extent that begins with granule `first` of `file`. Returns the segments that no
    /// extent is in any more, or `None` if no extent begins there.
    #[must_use]
    pub(crate) fn free(&mut self, file: u32, first: u32, bytes_each: u64) -> Option<Vec<SegmentId>> {
        let extent = self.extent_at(file, first, bytes_each)?;
        for (id, bits) in extent.by_segment() {
            let map = self.maps.get_mut(&id).expect("an extent has maps");
            map.used &= !bits;
            map.first &= !bits;
        }
        Some(self.put_free(extent))
    }

    /// Adds granules to the free ones, and joins them with their neighbours. Returns the segments
    /// that no extent is in any more.
    #[must_use]
    pub(crate) fn put_free(&mut self, granules: Granules) -> Vec<SegmentId> {
        if granules.count == 0 {
            return Vec::new();
        }
        let Granules { file, mut first, .. } = granules;
        let mut end = granules.end();
        let before = self.free.range((file, 0)..(file, first)).next_back().map(|(_, run)| *run);
        if let Some(before) = before.filter(|before| before.end() == first) {
            self.take_run(file, before.first);
            first = before.first;
        }
        if let Some(after) = self.take_run(file, end) {
            end = after.end();
        }
        let run = Granules { first, count: end - first, ..granules };
        let empty = first.div_ceil(GRANULES)..end / GRANULES;
        if empty.is_empty() {
            self.put_run(run);
            return Vec::new();
        }
        self.put_run(run.within(first, empty.start * GRANULES));
        self.put_run(run.within(empty.end * GRANULES, end));
        let empty: Vec<_> = empty.map(|index| SegmentId { file, index }).collect();
        for id in &empty {
            self.maps.remove(id);
        }
        empty
    }

    /// Takes those of `granules` off the list that are on it.
    pub(crate) fn take_out(&mut self, granules: Granules) {
        let (file, first) = (granules.file, granules.first);
        let mut runs: Vec<_> = self.free.range((file, first)..(file, granules.end())).map(|(_, run)| *run).collect();
        runs.extend(self.free.range((file, 0)..(file, first)).next_back().map(|(_, run)| *run));
        for run in runs.into_iter().filter(|run| run.end() > first) {
            self.take_run(file, run.first);
            self.put_run(run.within(run.first, first));
            self.put_run(run.within(granules.end(), run.end()));
        }
    }

    /// Whether all of `granules` are unused.
    pub(crate) fn is_free(&self, granules: Granules) -> bool {
        granules.by_segment().all(|(id, bits)| self.maps.get(&id).is_none_or(|map| map.used & bits == 0))
    }

    /// Whether an extent, or a part of one, is in a segment.
    pub(crate) fn contains(&self, id: SegmentId) -> bool {
        self.maps.contains_key(&id)
    }

    /// Number of extents that begin in a segment.
    pub(crate) fn count_in(&self, id: SegmentId) -> usize {
        self.maps.get(&id).map_or(0, |map| map.first.count_ones() as usize)
    }

    /// Number of free granules in a segment that are on the list. For the audit of a table at rest.
    pub(crate) fn listed_in(&self, id: SegmentId) -> u32 {
        let (first, end) = (id.index * GRANULES, (id.index + 1) * GRANULES);
        let of_file = self.free.range((id.file, 0)..(id.file, end));
        of_file.rev().take_while(|(_, run)| run.end() > first).map(|(_, run)| run.within(first, end).count).sum()
    }

    /// Number of granules in use in a segment.
    pub(crate) fn used_in(&self, id: SegmentId) -> u32 {
        self.maps.get(&id).map_or(0, |map| map.used.count_ones())
    }

    /// Adds a segment to those to be swept. Returns whether a range of them begins with it.
    /// Segments are added in their order.
    pub(crate) fn put_unswept(&mut self, id: SegmentId) -> bool {
        if let Some((first, length)) = self.unswept.range_mut(..id).next_back()
            && first.file == id.file
            && first.index + *length == id.index
        {
            *length += 1;
            return false;
        }
        self.unswept.insert(id, 1);
        true
    }

    /// Takes the range of adjacent segments, to be swept together, that `id` is in. Returns its
    /// first and its length.
    pub(crate) fn take_unswept(&mut self, id: SegmentId) -> Option<(SegmentId, u32)> {
        let (first, length) = self.unswept.range(..=id).next_back().map(|(first, length)| (*first, *length))?;
        if first.file != id.file || first.index + length <= id.index {
            return None;
        }
        self.unswept.remove(&first);
        Some((first, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_pmem::sim::Random;

    const BYTES_EACH: u64 = 64;
    const SEGMENTS: u32 = 12;

    fn granules(range: std::ops::Range<u32>) -> Granules {
        Granules { file: 3, first: range.start, count: range.end - range.start, bytes_each: BYTES_EACH }
    }

    fn id(index: u32) -> SegmentId {
        SegmentId { file: 3, index }
    }

    /// Extents of a file, beside a model that knows the owner of each granule.
    struct Subject {
        extents: Extents,
        owners: Vec<u32>,
        free: BTreeSet<u32>,
    }

    impl Subject {
        /// Takes an extent for `bytes` where one fits, or else in the last of enough adjacent free
        /// segments.
        fn take(&mut self, bytes: u64, owner: u32) {
            let count = bytes.div_ceil(BYTES_EACH) as u32;
            let extent = self.extents.take(bytes).or_else(|| {
                let segments = count.div_ceil(GRANULES);
                let fits = |end: &u32| (end - segments..*end).all(|index| self.free.contains(&index));
                let end = (segments..=SEGMENTS).rev().find(fits)?;
                self.free.retain(|index| !(end - segments..end).contains(index));
                let split = end * GRANULES - count;
                self.extents.mark(granules(split..end * GRANULES));
                assert!(self.extents.put_free(granules((end - segments) * GRANULES..split)).is_empty());
                Some(granules(split..end * GRANULES))
            });
            let Some(extent) = extent else { return };
            assert_eq!(extent.count, count);
            for granule in extent.first..extent.end() {
                assert_eq!(std::mem::replace(&mut self.owners[granule as usize], owner), 0, "given out twice");
            }
        }

        fn free(&mut self, granule: u32) {
            let owner = self.owners[granule as usize];
            let first = self.owners.iter().position(|other| *other == owner).expect("it owns one") as u32;
            assert!(first == granule || self.extents.free(3, granule, BYTES_EACH).is_none(), "no extent begins here");
            let emptied = self.extents.free(3, first, BYTES_EACH).expect("an extent begins here");
            self.free.extend(emptied.iter().map(|id| id.index));
            self.owners.iter_mut().filter(|other| **other == owner).for_each(|other| *other = 0);
        }

        fn check(&self) {
            for index in 0..SEGMENTS {
                let range = (index * GRANULES) as usize..((index + 1) * GRANULES) as usize;
                let used = self.owners[range].iter().filter(|owner| **owner != 0).count() as u32;
                assert_eq!(self.extents.used_in(id(index)), used);
                assert_eq!(self.free.contains(&index), used == 0 && !self.extents.contains(id(index)));
                let listed = if used == 0 { 0 } else { GRANULES - used };
                assert_eq!(self.extents.listed_in(id(index)), listed, "segment {index}");
            }
            let runs: Vec<_> = self.extents.free.values().collect();
            assert!(runs.windows(2).all(|pair| pair[0].end() < pair[1].first), "neighbours are joined");
            assert_eq!(runs.len(), self.extents.by_bytes.len());
        }
    }

    /// Hazard: granules are lost or given out twice as extents come and go across the boundaries of
    /// segments.
    #[test]
    fn every_granule_is_in_one_place() {
        for seed in 0..60 {
            let mut random = Random::new(seed);
            let owners = vec![0; (SEGMENTS * GRANULES) as usize];
            let mut subject = Subject { extents: Extents::default(), owners, free: (0..SEGMENTS).collect() };
            for owner in 1..400 {
                let granule = random.below(u64::from(SEGMENTS * GRANULES)) as u32;
                if subject.owners[granule as usize] != 0 {
                    subject.free(granule);
                } else {
                    let most = if random.one_in(4) { 250 } else { 40 };
                    subject.take(1 + random.below(most * BYTES_EACH), owner);
                }
                subject.check();
            }
        }
    }

    /// Recovery finds what a prepared transaction wrote in granules that are free to everybody
    /// else.
    #[test]
    fn what_recovery_keeps_leaves_the_rest_free() {
        let mut extents = Extents::default();
        extents.mark(granules(10..20));
        assert!(extents.put_free(granules(0..10)).is_empty() && extents.put_free(granules(20..64)).is_empty());
        assert!(extents.is_free(granules(30..50)) && !extents.is_free(granules(15..30)));
        extents.take_out(granules(30..50));
        extents.mark(granules(30..50));
        assert_eq!((extents.used_in(id(0)), extents.listed_in(id(0)), extents.count_in(id(0))), (30, 34, 2));
        assert_eq!(extents.free(3, 10, BYTES_EACH), Some(vec![]));
        assert_eq!(extents.free(3, 30, BYTES_EACH), Some(vec![id(0)]), "no extent is left");
        assert!(!extents.contains(id(0)));
    }
}
