//! The places of a table's leaves: which are in use, and which are free.
//!
//! A leaf has a number, by which DRAM knows it as long as the table is open. All of this is DRAM; opening the table finds it
//! again by the states of the leaves. A place that a leaf has left is *in quarantine*: it is used again when no snapshot,
//! no redo and no reader on its way can need what is there (I8).

use super::leaf::{LeafBytes, LeafId};
use super::leaf_shadow::LeafShadow;
use super::queue::LeafQueue;
use crate::error::Result;
use crate::files::chain::{Chain, SegmentId};
use crate::format::{LEAF_UNIT, LeafKind, LeafShape, SegmentKind, Word};
use crate::shadow::slot::Slot;
use crate::shadow::writer::Writer;
use crate::space::segments::Segments;
use perdura_log::Csn;
use perdura_pmem::Region;
use perdura_pmem::sync::Mutex;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bits of an offset in units in a leaf's place; the file is above them.
const OFFSET_BITS: u32 = 40;

/// Leaves that are asked for ahead of a pass over many.
const AHEAD: usize = 4;

/// What DRAM knows of a leaf.
#[derive(Default)]
pub struct Leaf {
    /// Its shadow.
    pub slot: Slot<LeafShadow>,
    /// Number of its file in the list of files with leaves, and offset in units of 256 bytes.
    place: AtomicU64,
    /// Segment in its file, and size in units of 256 bytes.
    extent: AtomicU64,
    /// Its state word; that of the leaf before while the place is free.
    state: AtomicU64,
}

impl Leaf {
    fn put_at(&self, mapped: usize, index: u32, at: u64, units: u32) {
        self.place.store(((mapped as u64) << OFFSET_BITS) | (at / LEAF_UNIT), Ordering::Relaxed);
        self.extent.store(u64::from(index) << 32 | u64::from(units), Ordering::Relaxed);
        self.state.store(0, Ordering::Release);
    }

    #[inline]
    fn units(&self) -> u32 {
        self.extent.load(Ordering::Relaxed) as u32
    }

    /// Number of its file in the list of files with leaves.
    #[inline]
    fn mapped(&self) -> usize {
        (self.place.load(Ordering::Relaxed) >> OFFSET_BITS) as usize
    }

    /// Its offset in its file.
    pub(super) fn offset(&self) -> u64 {
        (self.place.load(Ordering::Relaxed) & ((1 << OFFSET_BITS) - 1)) * LEAF_UNIT
    }
}

/// A place that a leaf has left.
struct Quarantined {
    leaf: LeafId,
    /// The visible CSN when it was left.
    left: Csn,
    /// Who had changes there: redo may need the entries of their records.
    writers: Vec<Arc<Writer>>,
}

/// The leaves of a segment.
struct LeafSegment {
    units: u32,
    leaves: Vec<LeafId>,
    /// Number of them that are free.
    free: usize,
}

/// The places of leaves.
#[derive(Default)]
struct Lists {
    /// Free places by size.
    free: BTreeMap<u32, Vec<LeafId>>,
    quarantined: Vec<Quarantined>,
    segments: BTreeMap<SegmentId, LeafSegment>,
    /// Numbers without a place.
    numbers: Vec<LeafId>,
    /// Places were given back of which nobody has looked whether their segments are free.
    has_unused: bool,
}

/// A file with leaves. It stays mapped as long as the table is open, so no reader on its way meets anything else there.
struct Mapped {
    file: u32,
    region: Region,
}

/// The leaves of a table.
pub struct Leaves {
    /// Table id.
    table: u32,
    /// Largest size of a leaf, in units of 256 bytes: that of the pool's segments.
    units_max: u32,
    leaves: boxcar::Vec<Leaf>,
    files: boxcar::Vec<Mapped>,
    lists: Mutex<Lists>,
    queue: LeafQueue,
}

impl Leaves {
    /// The leaves of table `table`, none so far, in a pool whose segments have `segment_bytes` at most.
    pub fn new(table: u32, segment_bytes: u64) -> Leaves {
        let (leaves, files) = (boxcar::Vec::new(), boxcar::Vec::new());
        let units_max = (segment_bytes / LEAF_UNIT) as u32;
        Leaves { table, units_max, leaves, files, lists: Mutex::default(), queue: LeafQueue::default() }
    }

    /// Largest size of a leaf, in units of 256 bytes.
    pub fn units_max(&self) -> u32 {
        self.units_max
    }

    /// Table id.
    pub fn table(&self) -> u32 {
        self.table
    }

    /// The leaves that purge is to look at.
    pub fn queue(&self) -> &LeafQueue {
        &self.queue
    }

    /// The leaf of number `leaf`.
    #[inline]
    pub fn leaf(&self, leaf: LeafId) -> &Leaf {
        &self.leaves[leaf as usize]
    }

    /// Asks for what a pass over `leaves` is about to meet after the one at `index`.
    #[inline]
    pub fn prefetch(&self, leaves: &[LeafId], index: usize) {
        if let Some(far) = leaves.get(index + 2 * AHEAD) {
            self.leaf(*far).slot.prefetch();
        }
        if let Some(near) = leaves.get(index + AHEAD) {
            self.leaf(*near).slot.prefetch_shadow();
            self.known_bytes(*near).iter().for_each(LeafBytes::prefetch);
        }
    }

    /// The bytes of leaf `leaf`.
    #[inline]
    pub fn bytes(&self, leaf: LeafId) -> LeafBytes<'_> {
        let leaf = self.leaf(leaf);
        let (_, shape) = LeafShape::decode(leaf.state.load(Ordering::Acquire)).expect("a leaf that was in use");
        self.at(leaf, shape)
    }

    /// The bytes of leaf `leaf`; `None` if there never was a leaf at its place.
    pub fn known_bytes(&self, leaf: LeafId) -> Option<LeafBytes<'_>> {
        let leaf = self.leaf(leaf);
        let (_, shape) = LeafShape::decode(leaf.state.load(Ordering::Acquire))?;
        Some(self.at(leaf, shape))
    }

    #[inline]
    fn at(&self, leaf: &Leaf, shape: LeafShape) -> LeafBytes<'_> {
        let region = &self.files[leaf.mapped()].region;
        LeafBytes::new(region, leaf.offset(), u64::from(leaf.units()) * LEAF_UNIT, shape)
    }

    /// Lays the free place `leaf` out as `shape` says.
    pub fn lay_out(&self, leaf: LeafId, shape: LeafShape) -> LeafBytes<'_> {
        let leaf = self.leaf(leaf);
        leaf.state.store(shape.encode(LeafKind::InUse), Ordering::Release);
        self.at(leaf, shape)
    }

    /// Size of the place `leaf`, in bytes.
    pub fn size(&self, leaf: LeafId) -> u64 {
        u64::from(self.leaf(leaf).units()) * LEAF_UNIT
    }

    /// Name of the file of the place `leaf`, and its offset there, for errors.
    pub(super) fn place(&self, leaf: LeafId) -> (&str, u64) {
        let leaf = self.leaf(leaf);
        (self.files[leaf.mapped()].region.name(), leaf.offset())
    }

    fn segment_of(&self, leaf: LeafId) -> SegmentId {
        let leaf = self.leaf(leaf);
        SegmentId { file: self.files[leaf.mapped()].file, index: (leaf.extent.load(Ordering::Relaxed) >> 32) as u32 }
    }

    /// What the check of a leaf's header covers beside the header.
    pub fn salt(&self, leaf: LeafId) -> u64 {
        let at = self.leaf(leaf).offset() / LEAF_UNIT;
        u64::from(self.table).rotate_left(40) ^ u64::from(self.segment_of(leaf).file) << OFFSET_BITS ^ at
    }

    /// The word that names the place of a leaf in records.
    pub fn word(&self, leaf: LeafId) -> Word {
        Word::new(self.segment_of(leaf).file, self.leaf(leaf).offset(), 0)
    }

    /// Number of the leaf at the place that `word` names, whatever it holds.
    pub fn at_word(&self, chain: &Chain, word: Word) -> Option<LeafId> {
        let index = chain.file(word.file())?.segment_of(word.offset())?;
        let lists = self.lists.lock();
        let segment = lists.segments.get(&SegmentId { file: word.file(), index })?;
        segment.leaves.iter().copied().find(|leaf| self.leaf(*leaf).offset() == word.offset())
    }

    /// Adds the places of a segment, as if none ever held a leaf.
    pub(super) fn add_segment(&self, chain: &Chain, id: SegmentId, units: u32) -> Vec<LeafId> {
        let file = chain.file_of(id);
        let (start, bytes) = (file.segment_offset(id.index), u64::from(units) * LEAF_UNIT);
        let mut lists = self.lists.lock();
        let is_same = |mapped: &Mapped| mapped.file == id.file && mapped.region.as_ptr() == file.region().as_ptr();
        let mapped = self.files.iter().find(|(_, mapped)| is_same(mapped)).map(|(index, _)| index);
        let mapped = mapped.unwrap_or_else(|| self.files.push(Mapped { file: id.file, region: file.region().clone() }));
        let mut leaves = Vec::new();
        for at in (0..file.segment_bytes() / bytes).map(|index| start + index * bytes) {
            let number = lists.numbers.pop().unwrap_or_else(|| self.leaves.push(Leaf::default()) as LeafId);
            self.leaf(number).put_at(mapped, id.index, at, units);
            leaves.push(number);
        }
        lists.segments.insert(id, LeafSegment { units, leaves: leaves.clone(), free: 0 });
        leaves
    }

    /// Reads what the place `leaf` holds, when the table is opened. `Err` is a state word that is none.
    pub(super) fn read_place(&self, leaf: LeafId) -> std::result::Result<Option<(LeafKind, LeafBytes<'_>)>, u64> {
        let known = self.leaf(leaf);
        let state = self.files[known.mapped()].region.load(known.offset());
        known.state.store(state, Ordering::Release);
        match LeafShape::decode(state) {
            Some((kind, shape)) => Ok(Some((kind, self.at(known, shape)))),
            None if state == 0 => Ok(None),
            None => Err(state),
        }
    }

    /// Takes a free place of `units`. What it holds does not count, durably.
    ///
    /// # Errors
    /// DeviceFull, TableFull, NotFound (the table was dropped), Medium.
    pub fn take(&self, segments: &Segments, units: u32) -> Result<LeafId> {
        loop {
            if let Some(leaf) = self.take_listed(units) {
                return Ok(leaf);
            }
            let id = segments.take_free(u64::from(units) * LEAF_UNIT, 0)?;
            let file = segments.chain().file_of(id);
            // What a segment held before must not look like leaves.
            let (start, bytes) = (file.segment_offset(id.index), u64::from(units) * LEAF_UNIT);
            clear(file.region(), (0..file.segment_bytes() / bytes).map(|index| start + index * bytes));
            file.set_kind(id.index, SegmentKind::Leaves(units));
            file.region().fence();
            let leaves = self.add_segment(segments.chain(), id, units);
            let mut lists = self.lists.lock();
            leaves.into_iter().rev().for_each(|leaf| self.put_free(&mut lists, leaf));
        }
    }

    fn take_listed(&self, units: u32) -> Option<LeafId> {
        let mut lists = self.lists.lock();
        let leaf = lists.free.get_mut(&units)?.pop()?;
        lists.segments.get_mut(&self.segment_of(leaf)).expect("the segment of a leaf").free -= 1;
        Some(leaf)
    }

    /// Gives back a place that was taken and not used.
    pub fn put(&self, leaf: LeafId) {
        self.put_free(&mut self.lists.lock(), leaf);
    }

    /// Gives back places that hold nothing; the segments that are free then go with a later round of purge.
    pub fn put_unused(&self, unused: Vec<LeafId>) {
        let mut lists = self.lists.lock();
        lists.has_unused |= !unused.is_empty();
        unused.into_iter().for_each(|leaf| self.put_free(&mut lists, leaf));
    }

    /// Makes a place one that never held a leaf, durably.
    pub fn wipe(&self, leaf: LeafId) {
        let known = self.leaf(leaf);
        let (region, at) = (&self.files[known.mapped()].region, known.offset());
        known.state.store(0, Ordering::Release);
        clear(region, std::iter::once(at));
    }

    fn put_free(&self, lists: &mut Lists, leaf: LeafId) {
        lists.free.entry(self.leaf(leaf).units()).or_default().push(leaf);
        lists.segments.get_mut(&self.segment_of(leaf)).expect("the segment of a leaf").free += 1;
    }

    /// Notes that others have the entries of leaf `leaf`, since the visible CSN was `left`; `writers` had changes there.
    pub fn retire(&self, leaf: LeafId, left: Csn, writers: Vec<Arc<Writer>>) {
        self.lists.lock().quarantined.push(Quarantined { leaf, left, writers });
    }

    /// Keeps the free place `leaf` until `writer` is over: the log names entries there. For recovery.
    pub fn keep(&self, leaf: LeafId, writer: &Arc<Writer>) {
        let mut lists = self.lists.lock();
        let known = lists.free.get_mut(&self.leaf(leaf).units());
        let free = known.and_then(|free| Some((free.iter().position(|one| *one == leaf)?, free)));
        if let Some((index, free)) = free {
            free.swap_remove(index);
            let segment = self.segment_of(leaf);
            lists.segments.get_mut(&segment).expect("the segment of a leaf").free -= 1;
            lists.quarantined.push(Quarantined { leaf, left: 0, writers: vec![writer.clone()] });
        } else if let Some(known) = lists.quarantined.iter_mut().find(|known| known.leaf == leaf) {
            known.writers.push(writer.clone());
        }
    }

    /// Ends the quarantine of the places that nobody can need, if every snapshot is at or above `limit`, which a checkpoint
    /// covers; `is_idle` asks whether there is no snapshot at all now. Gives back segments that are free. Returns the number
    /// of places.
    pub fn end_quarantine(&self, segments: &Segments, limit: Csn, is_idle: impl Fn() -> bool) -> usize {
        let mut lists = self.lists.lock();
        if lists.quarantined.is_empty() && !lists.has_unused {
            return 0;
        }
        // Whoever came by a place before it was left holds a snapshot that was taken before.
        fence(Ordering::SeqCst);
        let limit_of_readers = if is_idle() { limit } else { limit.saturating_sub(1) };
        let mut ended = Vec::new();
        lists.quarantined.retain(|left| {
            let no_readers = left.left <= limit_of_readers;
            // Planted: redo needs what is there.
            let no_redo = left.writers.iter().all(|writer| is_done(writer, limit)) || perdura_pmem::planted(206);
            let is_over = no_readers && no_redo;
            if is_over {
                ended.push(left.leaf);
            }
            !is_over
        });
        ended.iter().for_each(|leaf| self.put_free(&mut lists, *leaf));
        if std::mem::take(&mut lists.has_unused) || !ended.is_empty() {
            self.give_back(&mut lists, segments);
        }
        ended.len()
    }

    /// Gives back the segments whose places are all free, but for one of each size that is in use.
    fn give_back(&self, lists: &mut Lists, segments: &Segments) {
        let mut in_use: FxHashSet<u32> = FxHashSet::default();
        for segment in lists.segments.values().filter(|segment| segment.free < segment.leaves.len()) {
            in_use.insert(segment.units);
        }
        let empty = lists.segments.iter().filter(|(_, segment)| segment.free == segment.leaves.len());
        let empty: Vec<(SegmentId, u32)> = empty.map(|(id, segment)| (*id, segment.units)).collect();
        let mut gone: FxHashSet<LeafId> = FxHashSet::default();
        for (id, units) in empty {
            // One stays, so that splits and joins do not take and give back segments in turn.
            if !in_use.remove(&units)
                && let Some(segment) = lists.segments.remove(&id)
            {
                gone.extend(segment.leaves.iter());
                lists.numbers.extend(segment.leaves);
                segments.put_free(id);
            }
        }
        if !gone.is_empty() {
            lists.free.values_mut().for_each(|free| free.retain(|leaf| !gone.contains(leaf)));
        }
    }

    /// Whether forgetting the table's DRAM loses nothing, if the last round of purge went up to `limit`.
    pub fn is_at_rest(&self, limit: Csn) -> bool {
        let quarantined = &self.lists.lock().quarantined;
        quarantined.iter().all(|left| left.left <= limit && left.writers.iter().all(|writer| is_done(writer, limit)))
    }

    /// Number of places free and in quarantine, and of those in segments.
    pub fn counts(&self) -> (usize, usize) {
        let lists = self.lists.lock();
        let free = lists.free.values().map(Vec::len).sum::<usize>() + lists.quarantined.len();
        (free, lists.segments.values().map(|segment| segment.leaves.len()).sum())
    }

    /// Whether `id` is a segment of leaves.
    pub fn has_segment(&self, id: SegmentId) -> bool {
        self.lists.lock().segments.contains_key(&id)
    }
}

/// Makes places hold no leaves, durably.
fn clear(region: &Region, places: impl Iterator<Item = u64>) {
    for at in places {
        // Planted: what was there looks like a leaf.
        if !perdura_pmem::planted(229) {
            region.store(at, 0);
        }
        region.flush(at, 8);
    }
    region.fence();
}

/// Whether no redo and no rollback needs what `writer` wrote, if a checkpoint covers `limit`.
fn is_done(writer: &Arc<Writer>, limit: Csn) -> bool {
    writer.is_over() || writer.csn().is_some_and(|csn| csn <= limit)
}
