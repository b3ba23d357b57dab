//! The places of a table's leaves: which are in use, and which are free.
//!
//! A leaf has a number, by which DRAM knows it as long as the table is open. All of this is DRAM;
//! opening the table finds it again by the states of the leaves. A place that a leaf has left is
//! *in quarantine*: it is used again when no snapshot, no redo and no reader on its way can need
//! what is there (I8).

use super::leaf::{LeafBytes, LeafId};
use super::leaf_list::LeafList;
use super::leaf_shadow::LeafShadow;
use super::places::{PLACES_MIN, Places};
use super::queue::LeafQueue;
use crate::error::Result;
use crate::files::chain::{Chain, SegmentId};
use crate::format::{LEAF_HEADER, LEAF_UNIT, LeafKind, LeafShape, SegmentKind, Word};
use crate::shadow::slot::Slot;
use crate::shadow::writer::Writer;
use crate::space::segments::Segments;
use perdura_log::Csn;
use perdura_pmem::ahead::prefetch;
use perdura_pmem::sync::Mutex;
use perdura_pmem::{Content, Health, LINE_BYTES, Mutant, Region, Step, publish};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Bits of an offset in units in a leaf's place; the file is above them.
const OFFSET_BITS: u32 = 40;
/// Of a leaf's extent: it is vacant. No size has that bit.
const VACANT: u64 = 1 << 31;

/// Leaves that are asked for ahead of a pass over many.
const AHEAD: usize = 4;

/// Bits of an address that a reference has beside the number of its leaf; below them is the offset
/// in a unit.
const ADDRESS_BITS: u32 = 32;
/// Where in a leaf's layout word the number of its slots is; the bits of a state word are below.
const SLOTS_AT: u32 = 50;

/// State of a leaf in DRAM: one line.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Leaf {
    /// Its shadow.
    pub slot: Slot<LeafShadow>,
    /// Number of its file in the list of files with leaves, and offset in units of 256 bytes.
    place: AtomicU64,
    /// Segment in its file, and size in units of 256 bytes; and whether it is vacant.
    extent: AtomicU64,
    /// How it is laid out, and the number of its slots; as the leaf before was while the place is
    /// free. 0 if no leaf was ever here.
    layout: AtomicU64,
}

const _: () = assert!(size_of::<Leaf>() == 64);

impl Leaf {
    fn put_at(&self, mapped: usize, index: u32, at: u64, units: u32) {
        self.place.store(((mapped as u64) << OFFSET_BITS) | (at / LEAF_UNIT), Ordering::Relaxed);
        self.extent.store(u64::from(index) << 32 | u64::from(units), Ordering::Relaxed);
        self.layout.store(0, Ordering::Release);
    }

    fn lay_out(&self, shape: LeafShape) {
        let slots = shape.slots(u64::from(self.units()) * LEAF_UNIT);
        self.layout.store(shape.encode(LeafKind::InUse) | u64::from(slots) << SLOTS_AT, Ordering::Release);
    }

    #[inline]
    fn units(&self) -> u32 {
        self.extent.load(Ordering::Relaxed) as u32 & !VACANT as u32
    }

    /// Whether those who see its last commits do not look for entries here.
    #[inline]
    pub(crate) fn is_vacant(&self) -> bool {
        self.extent.load(Ordering::Acquire) & VACANT != 0
    }

    /// Sets whether it is vacant. The caller has it locked, or nobody else knows of it.
    pub(crate) fn set_vacant(&self, vacant: bool) {
        match vacant {
            true => self.extent.fetch_or(VACANT, Ordering::Release),
            false => self.extent.fetch_and(!VACANT, Ordering::Release),
        };
    }

    /// Number of its file in the list of files with leaves.
    #[inline]
    fn mapped(&self) -> usize {
        (self.place.load(Ordering::Relaxed) >> OFFSET_BITS) as usize
    }

    /// Its offset in its file.
    #[inline]
    pub(super) fn offset(&self) -> u64 {
        (self.place.load(Ordering::Relaxed) & ((1 << OFFSET_BITS) - 1)) * LEAF_UNIT
    }
}

/// A place that a leaf has left.
struct Quarantined {
    leaf: LeafId,
    /// The visible CSN when it was left, or the newest commit that had stored changes there: redo
    /// may need the entries of its record.
    left: Csn,
    /// The newest commit of those stored there, and who was still to store changes: redo may need
    /// the entries of their records.
    stored: Csn,
    writers: Vec<Arc<Writer>>,
}

impl Quarantined {
    /// Whether no redo and no rollback needs what is there, if a checkpoint covers `limit`.
    fn is_done(&self, limit: Csn) -> bool {
        let is_over = |writer: &Arc<Writer>| writer.is_over() || writer.csn().is_some_and(|csn| csn <= limit);
        self.stored <= limit && self.writers.iter().all(is_over)
    }
}

/// The places of leaves.
#[derive(Default)]
struct Lists {
    places: Places,
    /// In the order in which they were left.
    quarantined: VecDeque<Quarantined>,
    /// Number of leaves that ever had a number.
    count: LeafId,
    /// Numbers without a place.
    numbers: Vec<LeafId>,
    /// Places were given back of which nobody has looked whether their segments are free.
    has_unused: bool,
}

/// A file with leaves. It stays mapped as long as the table is open, so no reader on its way meets
/// anything else there.
struct Mapped {
    file: u32,
    region: Region,
}

/// The leaves of a table.
pub(crate) struct Leaves {
    /// Table id.
    table: u32,
    /// Largest size of a leaf, in units of 256 bytes: that of the pool's segments.
    units_max: u32,
    /// That of the medium.
    health: Health,
    leaves: LeafList<Leaf>,
    files: boxcar::Vec<Mapped>,
    /// The upper bits of the addresses of the first file.
    window: AtomicUsize,
    lists: Mutex<Lists>,
    queue: LeafQueue,
}

impl Leaves {
    /// The leaves of table `table`, none so far, in a pool whose segments have `segment_bytes` at
    /// most, on a medium of this `health`.
    pub(crate) fn new(table: u32, segment_bytes: u64, health: Health) -> Leaves {
        Leaves {
            table,
            units_max: (segment_bytes / LEAF_UNIT) as u32,
            health,
            leaves: LeafList::default(),
            files: boxcar::Vec::new(),
            window: AtomicUsize::new(0),
            lists: Mutex::default(),
            queue: LeafQueue::default(),
        }
    }

    /// Largest size of a leaf, in units of 256 bytes.
    pub(crate) fn units_max(&self) -> u32 {
        self.units_max
    }

    /// Table id.
    pub(crate) fn table(&self) -> u32 {
        self.table
    }

    /// Fails if the medium has failed: low keys on a page that could not be read are zeros. What
    /// was read before a call that succeeds is what the medium has.
    ///
    /// # Errors
    /// Medium.
    #[inline]
    pub(super) fn check_medium(&self) -> Result<()> {
        Ok(self.health.check()?)
    }

    /// The leaves that purge is to look at.
    pub(crate) fn queue(&self) -> &LeafQueue {
        &self.queue
    }

    /// The leaf of number `leaf`.
    #[inline]
    pub(crate) fn leaf(&self, leaf: LeafId) -> &Leaf {
        self.leaves.get(leaf)
    }

    /// The reference of a leaf that is laid out: its number, and above it bits of its address.
    pub(crate) fn reference(&self, leaf: LeafId) -> u64 {
        let known = self.leaf(leaf);
        let address = self.files[known.mapped()].region.as_ptr().addr() + known.offset() as usize;
        (address as u64 / LEAF_UNIT) << ADDRESS_BITS | u64::from(leaf)
    }

    /// Asks for what a search looks at first in the leaf of a reference, in DRAM and on the medium.
    /// Where the files lie so far apart that the bits of the address do not tell the place, it asks
    /// in vain.
    #[inline]
    pub(crate) fn prefetch_at(&self, reference: u64) {
        let address = (reference >> ADDRESS_BITS) * LEAF_UNIT;
        let address = self.window.load(Ordering::Relaxed) | address as usize;
        prefetch(address);
        prefetch(address + LINE_BYTES as usize);
        self.leaf(reference as LeafId).slot.prefetch();
    }

    /// Asks for what a pass over leaves is about to meet after the one at `index`; `leaf` tells the
    /// leaf at each place of the pass.
    #[inline]
    pub(crate) fn prefetch(&self, leaf: impl Fn(usize) -> Option<LeafId>, index: usize) {
        if let Some(far) = leaf(index + 2 * AHEAD) {
            self.leaf(far).slot.prefetch();
        }
        if let Some(near) = leaf(index + AHEAD) {
            self.leaf(near).slot.prefetch_shadow();
            self.known_bytes(near).iter().for_each(LeafBytes::prefetch);
        }
    }

    /// The bytes of leaf `leaf`.
    #[inline]
    pub(crate) fn bytes(&self, leaf: LeafId) -> LeafBytes<'_> {
        self.known_bytes(leaf).expect("a leaf that was in use")
    }

    /// The low key of leaf `leaf`.
    #[inline]
    pub(crate) fn low(&self, leaf: LeafId) -> &[u8] {
        let leaf = self.leaf(leaf);
        let length = LeafShape::low_of(leaf.layout.load(Ordering::Acquire));
        let region = &self.files[leaf.mapped()].region;
        // SAFETY: the low key never changes while the leaf is in use, nor as long as anybody may
        // have come by it.
        unsafe { region.slice(leaf.offset() + LEAF_HEADER, length) }
    }

    /// The bytes of leaf `leaf`; `None` if there never was a leaf at its place.
    #[inline]
    pub(crate) fn known_bytes(&self, leaf: LeafId) -> Option<LeafBytes<'_>> {
        let leaf = self.leaf(leaf);
        let layout = leaf.layout.load(Ordering::Acquire);
        if layout == 0 {
            return None;
        }
        let region = &self.files[leaf.mapped()].region;
        let extent = (leaf.offset(), u64::from(leaf.units()) * LEAF_UNIT);
        Some(LeafBytes::new(region, extent, LeafShape::known(layout), (layout >> SLOTS_AT) as u32))
    }

    /// Lays the free place `leaf` out as `shape` says.
    pub(crate) fn lay_out(&self, leaf: LeafId, shape: LeafShape) -> LeafBytes<'_> {
        self.leaf(leaf).set_vacant(false);
        self.leaf(leaf).lay_out(shape);
        self.bytes(leaf)
    }

    /// Size of the place `leaf`, in bytes.
    pub(crate) fn size(&self, leaf: LeafId) -> u64 {
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

    /// Salt that the check of a leaf's header covers beside the header.
    pub(crate) fn salt(&self, leaf: LeafId) -> u64 {
        let at = self.leaf(leaf).offset() / LEAF_UNIT;
        u64::from(self.table).rotate_left(40) ^ u64::from(self.segment_of(leaf).file) << OFFSET_BITS ^ at
    }

    /// The word that names the place of a leaf in records.
    pub(crate) fn word(&self, leaf: LeafId) -> Word {
        Word::new(self.segment_of(leaf).file, self.leaf(leaf).offset(), 0)
    }

    /// Number of the leaf at the place that `word` names, whatever it holds.
    pub(crate) fn at_word(&self, chain: &Chain, word: Word) -> Option<LeafId> {
        let index = chain.file(word.file())?.segment_of(word.offset())?;
        let lists = self.lists.lock();
        let segment = lists.places.segment(SegmentId { file: word.file(), index })?;
        let from_first = word.offset().checked_sub(self.leaf(*segment.leaves.first()?).offset())?;
        let bytes = u64::from(segment.units) * LEAF_UNIT;
        segment.leaves.get((from_first / bytes) as usize).copied().filter(|_| from_first % bytes == 0)
    }

    fn add_number(&self, lists: &mut Lists) -> LeafId {
        let number = lists.count;
        self.leaves.make(number);
        lists.count += 1;
        number
    }

    /// Adds the places of a segment, as if none ever held a leaf.
    pub(super) fn add_segment(&self, chain: &Chain, id: SegmentId, units: u32) -> Vec<LeafId> {
        let file = chain.file_of(id);
        let (start, bytes) = (file.segment_offset(id.index), u64::from(units) * LEAF_UNIT);
        let mut lists = self.lists.lock();
        let is_same = |mapped: &Mapped| mapped.file == id.file && mapped.region.as_ptr() == file.region().as_ptr();
        let mapped = self.files.iter().find(|(_, mapped)| is_same(mapped)).map(|(index, _)| index);
        let mapped = mapped.unwrap_or_else(|| {
            let region = file.region().holding(Content::Index);
            self.files.push(Mapped { file: id.file, region })
        });
        if mapped == 0 {
            let address = file.region().as_ptr().addr() as u64;
            let below = LEAF_UNIT << ADDRESS_BITS;
            self.window.store((address - address % below) as usize, Ordering::Relaxed);
        }
        let mut leaves = Vec::new();
        for at in (0..file.segment_bytes() / bytes).map(|index| start + index * bytes) {
            let number = lists.numbers.pop().unwrap_or_else(|| self.add_number(&mut lists));
            self.leaf(number).put_at(mapped, id.index, at, units);
            leaves.push(number);
        }
        lists.places.add_segment(id, units, leaves.clone());
        leaves
    }

    /// Reads what the place `leaf` holds, when the table is opened. `Err` is a state word that is
    /// none.
    pub(super) fn read_place(&self, leaf: LeafId) -> std::result::Result<Option<(LeafKind, LeafBytes<'_>)>, u64> {
        let known = self.leaf(leaf);
        match self.files[known.mapped()].region.load(known.offset()) {
            0 => Ok(None),
            state => {
                let (kind, shape) = LeafShape::decode(state).ok_or(state)?;
                known.lay_out(shape);
                Ok(Some((kind, self.bytes(leaf))))
            }
        }
    }

    /// Takes a free place of `units`. What it holds does not count, durably.
    ///
    /// # Errors
    /// DeviceFull, TableFull, NotFound (the table was dropped), Medium.
    pub(crate) fn take(&self, segments: &Segments, units: u32) -> Result<LeafId> {
        loop {
            if let Some(leaf) = self.take_listed(units) {
                return Ok(leaf);
            }
            let id = segments.take_free(u64::from(units) * LEAF_UNIT, 0)?;
            let file = segments.chain().file_of(id);
            // Bytes that a segment held before must not look like leaves.
            let (start, bytes) = (file.segment_offset(id.index), u64::from(units) * LEAF_UNIT);
            let region = file.region().holding(Content::Index);
            clear(&region, (0..file.segment_bytes() / bytes).map(|index| start + index * bytes));
            file.publish_kind(id.index, SegmentKind::Leaves(units));
            let leaves = self.add_segment(segments.chain(), id, units);
            let mut lists = self.lists.lock();
            leaves.into_iter().for_each(|leaf| self.put_free(&mut lists, leaf));
        }
    }

    /// Takes a free place of `units`, if there is one. What it holds does not count, durably.
    pub(crate) fn take_listed(&self, units: u32) -> Option<LeafId> {
        self.lists.lock().places.take_first(units)
    }

    /// Gives back a place that was taken and not used.
    pub(crate) fn put(&self, leaf: LeafId) {
        self.put_free(&mut self.lists.lock(), leaf);
    }

    /// Gives back places that hold nothing; the segments that are free then go with a later round
    /// of purge.
    pub(crate) fn put_unused(&self, unused: Vec<LeafId>) {
        let mut lists = self.lists.lock();
        lists.has_unused |= !unused.is_empty();
        unused.into_iter().for_each(|leaf| self.put_free(&mut lists, leaf));
    }

    /// Makes a place one that never held a leaf, durably.
    pub(crate) fn wipe(&self, leaf: LeafId) {
        let known = self.leaf(leaf);
        let (region, at) = (&self.files[known.mapped()].region, known.offset());
        known.layout.store(0, Ordering::Release);
        publish(&[Step { region, offset: at, value: 0 }]);
    }

    fn put_free(&self, lists: &mut Lists, leaf: LeafId) {
        lists.places.put_free(self.segment_of(leaf), leaf);
    }

    /// Notes that others have the entries of leaf `leaf`, since the visible CSN was `left`. Commits
    /// up to `stored` had stored changes there, and `writers` were still to.
    pub(crate) fn retire(&self, leaf: LeafId, left: Csn, (writers, stored): (Vec<Arc<Writer>>, Csn)) {
        let mut lists = self.lists.lock();
        let place = lists.quarantined.iter().rposition(|known| known.left <= left).map_or(0, |last| last + 1);
        lists.quarantined.insert(place, Quarantined { leaf, left, stored, writers });
    }

    /// Keeps the free place `leaf` until `writer` is over: the log names entries there. For
    /// recovery.
    pub(crate) fn keep(&self, leaf: LeafId, writer: &Arc<Writer>) {
        let mut lists = self.lists.lock();
        if lists.places.take(self.segment_of(leaf), leaf) {
            lists.quarantined.push_front(Quarantined { leaf, left: 0, stored: 0, writers: vec![writer.clone()] });
        } else if let Some(known) = lists.quarantined.iter_mut().find(|known| known.leaf == leaf) {
            known.writers.push(writer.clone());
        }
    }

    /// Ends the quarantine of the places that nobody can need, if every snapshot is at or above
    /// `limit`, which a checkpoint covers; `is_idle` asks whether there is no snapshot at all now.
    /// Gives back segments that are free. Returns the number of places.
    pub(crate) fn end_quarantine(&self, segments: &Segments, limit: Csn, is_idle: impl Fn() -> bool) -> usize {
        let mut lists = self.lists.lock();
        if lists.quarantined.is_empty() && !lists.has_unused {
            return 0;
        }
        // Whoever came by a place before it was left holds a snapshot that was taken before.
        fence(Ordering::SeqCst);
        let limit_of_readers = if is_idle() { limit } else { limit.saturating_sub(1) };
        let mut ended = Vec::new();
        // Those left later wait for a snapshot, and are not looked at.
        let no_readers = lists.quarantined.partition_point(|left| left.left <= limit_of_readers);
        let mut kept = Vec::new();
        for left in lists.quarantined.drain(..no_readers) {
            // Planted: redo needs what is there.
            match left.is_done(limit) || perdura_pmem::planted(Mutant::LeafPlaceReusedBeforeRedo) {
                true => ended.push(left.leaf),
                false => kept.push(left),
            }
        }
        kept.into_iter().rev().for_each(|left| lists.quarantined.push_front(left));
        if lists.quarantined.capacity() > 4096 && lists.quarantined.len() * 8 < lists.quarantined.capacity() {
            let kept = lists.quarantined.len() * 2;
            lists.quarantined.shrink_to(kept);
        }
        ended.iter().for_each(|leaf| self.put_free(&mut lists, *leaf));
        if std::mem::take(&mut lists.has_unused) || !ended.is_empty() {
            self.give_back(&mut lists, segments);
        }
        ended.len()
    }

    /// Gives back the segments whose places are all free, but for one of each size that is in use.
    fn give_back(&self, lists: &mut Lists, segments: &Segments) {
        for (id, leaves) in lists.places.take_empty() {
            lists.numbers.extend(leaves);
            segments.put_free_of_leaves(id);
        }
    }

    /// Leaves that are to move to free places before them, at most `most`, so that segments become
    /// free.
    pub(crate) fn to_move(&self, most: usize) -> Vec<LeafId> {
        self.lists.lock().places.to_move(most)
    }

    /// Whether `count` places of `units` are free.
    pub(crate) fn has_free(&self, units: u32, count: usize) -> bool {
        self.lists.lock().places.free_of(units) >= count
    }

    /// Whether packing may take a segment into use for places of `units`: none is free, and so few
    /// are in quarantine that what packing leaves does not just wait for an old snapshot.
    pub(crate) fn may_grow(&self, units: u32) -> bool {
        let lists = self.lists.lock();
        lists.places.free_of(units) == 0 && lists.quarantined.len() < PLACES_MIN
    }

    /// Whether the place `first` is in a segment before that of `second`.
    pub(crate) fn is_before(&self, first: LeafId, second: LeafId) -> bool {
        self.segment_of(first) < self.segment_of(second)
    }

    /// Whether forgetting the table's DRAM loses nothing, if the last round of purge went up to
    /// `limit`.
    pub(crate) fn is_at_rest(&self, limit: Csn) -> bool {
        let quarantined = &self.lists.lock().quarantined;
        quarantined.iter().all(|left| left.left <= limit && left.is_done(limit))
    }

    /// Number of places free and in quarantine, and of those in segments.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let lists = self.lists.lock();
        let (free, places) = lists.places.counts();
        (free + lists.quarantined.len(), places)
    }

    /// Whether `id` is a segment of leaves.
    pub(crate) fn has_segment(&self, id: SegmentId) -> bool {
        self.lists.lock().places.segment(id).is_some()
    }
}

/// Makes places hold no leaves. It flushes every store; the caller fences.
fn clear(region: &Region, places: impl Iterator<Item = u64>) {
    for at in places {
        // Planted: what was there looks like a leaf.
        if !perdura_pmem::planted(Mutant::OldContentLooksLikeLeaves) {
            region.store(at, 0);
        }
        region.flush(at, 8);
    }
}
