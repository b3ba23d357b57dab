//! The lists of a table's free, reusable and unswept segments, and its extents.

use super::extents::{Extents, Granules};
use super::sparse::Sparse;
use crate::files::chain::{Chain, SegmentId};
use crate::files::datafile::DataFile;
use crate::format::GRANULES;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Range, RangeInclusive};

/// Room for an extent that was taken from the lists.
pub(crate) struct TakenExtent {
    /// The granules of the extent.
    pub extent: Granules,
    /// Those of its segments that were free, and still have their old descriptors.
    pub fresh: Range<u32>,
    /// The granules before the extent in the first of these segments. They are on no list yet.
    pub rest: Granules,
}

/// The segments of a table that are free, that offer free cells, or that are still to be swept; and
/// its extents.
#[derive(Default)]
pub(crate) struct FreeSegments {
    /// Ranges of adjacent free segments: the first of each, and their number.
    free: BTreeMap<SegmentId, u32>,
    count: usize,
    bytes: u64,
    /// Number of free segments in each file.
    by_file: Vec<u32>,
    /// Segments that offer free cells and have no owner, with the units of their cells.
    reusable: BTreeSet<(u32, SegmentId)>,
    /// Those of them that are sparse.
    pub sparse: Sparse,
    unswept: VecDeque<SegmentId>,
    /// Where large versions are.
    pub extents: Extents,
}

impl FreeSegments {
    /// Adds all segments of a new file.
    pub(crate) fn put_file(&mut self, file: &DataFile) {
        self.insert(SegmentId { file: file.sequence(), index: 0 }, file.segment_count(), file);
    }

    /// Adds a free segment of `file`.
    pub(crate) fn put(&mut self, file: &DataFile, index: u32) {
        let (mut first, mut length) = (SegmentId { file: file.sequence(), index }, 1);
        if let Some((&before, &count)) = self.free.range(..first).next_back()
            && before.file == first.file
            && before.index + count == index
        {
            self.remove(before, count, file);
            (first, length) = (before, count + 1);
        }
        let after = SegmentId { index: index + 1, ..first };
        if let Some(&count) = self.free.get(&after) {
            self.remove(after, count, file);
            length += count;
        }
        self.insert(first, length, file);
    }

    fn insert(&mut self, first: SegmentId, length: u32, file: &DataFile) {
        if length > 0 {
            self.free.insert(first, length);
            self.by_file.resize(self.by_file.len().max(first.file as usize + 1), 0);
            self.by_file[first.file as usize] += length;
            self.count += length as usize;
            self.bytes += u64::from(length) * file.segment_bytes();
        }
    }

    /// Takes a whole range off the list.
    fn remove(&mut self, first: SegmentId, length: u32, file: &DataFile) {
        self.free.remove(&first);
        self.by_file[first.file as usize] -= length;
        self.count -= length as usize;
        self.bytes -= u64::from(length) * file.segment_bytes();
    }

    /// Takes `indexes` of a free range off the list.
    fn cut(&mut self, range: (SegmentId, u32), indexes: Range<u32>, file: &DataFile) {
        let (first, length) = range;
        self.remove(first, length, file);
        self.insert(first, indexes.start - first.index, file);
        let after = SegmentId { index: indexes.end, ..first };
        self.insert(after, first.index + length - indexes.end, file);
    }

    /// The free range that a segment is in.
    fn range_of(&self, id: SegmentId) -> Option<(SegmentId, u32)> {
        let (&first, &length) = self.free.range(..=id).next_back()?;
        (first.file == id.file && id.index < first.index + length).then_some((first, length))
    }

    /// Whether a segment is on the list of free ones.
    pub(crate) fn contains(&self, id: SegmentId) -> bool {
        self.range_of(id).is_some()
    }

    /// Bytes in free segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of free segments in `file`.
    pub(crate) fn count_in(&self, file: &DataFile) -> u32 {
        self.by_file.get(file.sequence() as usize).copied().unwrap_or(0)
    }

    /// Bytes in the free segments of `file`.
    pub(crate) fn bytes_in(&self, file: &DataFile) -> u64 {
        u64::from(self.count_in(file)) * file.segment_bytes()
    }

    /// Forgets all segments of `file`, which is given back: those that are not free hold free pages
    /// of the directory.
    pub(crate) fn remove_file(&mut self, file: &DataFile) {
        let [first, last] = [0, u32::MAX].map(|index| SegmentId { file: file.sequence(), index });
        let ranges: Vec<_> = self.free.range(first..=last).map(|(first, length)| (*first, *length)).collect();
        for (first, length) in ranges {
            self.remove(first, length, file);
        }
        // Some were swept by who needed them, and became free.
        self.unswept.retain(|id| id.file != file.sequence());
    }

    /// Takes the first free segment of at least `segment_bytes`, if `kept` others stay free.
    pub(crate) fn take(&mut self, chain: &Chain, segment_bytes: u64, kept: u32) -> Option<SegmentId> {
        if self.count < 1 + kept as usize {
            return None;
        }
        let has_size = |first: &SegmentId| chain.file_of(*first).segment_bytes() >= segment_bytes;
        let (first, length) = self.free.iter().map(|(first, length)| (*first, *length)).find(|(id, _)| has_size(id))?;
        self.cut((first, length), first.index..first.index + 1, chain.file_of(first));
        Some(first)
    }

    /// Takes room for an extent of `bytes`: free granules beside other extents, or the end of a
    /// range of free segments together with the free granules behind it, if `kept` other segments
    /// stay free. Extents fill a file from its end and cells from its beginning, so they do not
    /// part each other's room.
    pub(crate) fn take_extent(&mut self, chain: &Chain, bytes: u64, kept: u32) -> Option<TakenExtent> {
        if let Some(extent) = self.extents.take(bytes) {
            return Some(TakenExtent { extent, fresh: 0..0, rest: Granules { count: 0, ..extent } });
        }
        for (&first, &length) in &self.free {
            let file = chain.file_of(first);
            let range_end = first.index + length;
            let needed = bytes.div_ceil(file.granule_bytes());
            let behind = self.extents.run_at(first.file, range_end * GRANULES);
            let segments = (needed.saturating_sub(u64::from(behind))).div_ceil(u64::from(GRANULES));
            if segments == 0 || segments > u64::from(length) || self.count < segments as usize + kept as usize {
                continue;
            }
            let fresh = range_end - segments as u32..range_end;
            let end = range_end * GRANULES + behind;
            let (begin, from) = (fresh.start * GRANULES, end - needed as u32);
            let whole =
                Granules { file: first.file, first: begin, count: end - begin, bytes_each: file.granule_bytes() };
            self.cut((first, length), fresh.clone(), file);
            self.extents.take_run(first.file, range_end * GRANULES);
            let (rest, extent) = (whole.within(begin, from), whole.within(from, end));
            self.extents.mark(extent);
            return Some(TakenExtent { extent, fresh, rest });
        }
        None
    }

    /// Adds granules to the free ones.
    pub(crate) fn put_granules(&mut self, file: &DataFile, granules: Granules) {
        for id in self.extents.put_free(granules) {
            self.put(file, id.index);
        }
    }

    /// Frees the extent that begins with granule `first` of `file`. Returns whether one does.
    pub(crate) fn free_extent(&mut self, file: &DataFile, first: u32) -> bool {
        let emptied = self.extents.free(file.sequence(), first, file.granule_bytes());
        for id in emptied.iter().flatten() {
            self.put(file, id.index);
        }
        emptied.is_some()
    }

    /// Takes exactly `granules` for an extent, which recovery has found in use. Returns whether
    /// they were free.
    pub(crate) fn keep_extent(&mut self, file: &DataFile, granules: Granules) -> bool {
        if granules.count == 0 || !self.extents.is_free(granules) {
            return false;
        }
        let mut rest = Vec::new();
        for index in granules.first / GRANULES..granules.end().div_ceil(GRANULES) {
            let id = SegmentId { file: granules.file, index };
            if let Some(range) = self.range_of(id) {
                self.cut(range, index..index + 1, file);
                let segment = Granules { first: index * GRANULES, count: GRANULES, ..granules };
                rest.extend([segment.within(0, granules.first), segment.within(granules.end(), u32::MAX)]);
            }
        }
        self.extents.take_out(granules);
        self.extents.mark(granules);
        for granules in rest {
            self.put_granules(file, granules);
        }
        true
    }

    /// Offers the free cells, of `units`, of a segment without an owner.
    pub(crate) fn put_reusable(&mut self, units: u32, id: SegmentId) {
        self.reusable.insert((units, id));
    }

    /// Withdraws the offer of a segment.
    pub(crate) fn remove_reusable(&mut self, units: u32, id: SegmentId) {
        self.reusable.remove(&(units, id));
        self.sparse.remove(units, id);
    }

    /// Takes a segment that offers cells of the smallest class within `classes`.
    pub(crate) fn take_reusable(&mut self, classes: RangeInclusive<u32>) -> Option<SegmentId> {
        let first = SegmentId { file: 0, index: 0 };
        let last = SegmentId { file: u32::MAX, index: u32::MAX };
        let found = *self.reusable.range((*classes.start(), first)..=(*classes.end(), last)).next()?;
        self.remove_reusable(found.0, found.1);
        Some(found.1)
    }

    /// The segments that offer cells, with the units of these. Others may have claimed those that
    /// were free.
    pub(crate) fn reusable(&self) -> impl Iterator<Item = (u32, SegmentId)> + '_ {
        self.reusable.iter().copied()
    }

    /// Adds a segment to those to be swept.
    pub(crate) fn put_unswept(&mut self, id: SegmentId) {
        self.unswept.push_back(id);
    }

    /// Adds a segment of extents to those to be swept. Adjacent ones are swept together.
    pub(crate) fn put_unswept_extents(&mut self, id: SegmentId) {
        if self.extents.put_unswept(id) {
            self.unswept.push_back(id);
        }
    }

    /// Takes a segment to be swept.
    pub(crate) fn next_unswept(&mut self) -> Option<SegmentId> {
        self.unswept.pop_front()
    }

    /// Number of segments still to be swept.
    pub(crate) fn unswept_count(&self) -> usize {
        self.unswept.len()
    }
}
