//! The segments of a table: which are free, how owners take them into use, and how they become free
//! again.

use super::extents::Granules;
use super::fragmentation::Fragmentation;
use super::free::FreeSegments;
use super::sparse::{Emptied, is_sparse};
use super::sweep;
use crate::error::{Error, Result};
use crate::files::cells::{self, CellMap};
use crate::files::chain::{Chain, SegmentId, rid_at};
use crate::files::context::Need;
use crate::files::datafile::DataFile;
use crate::format::{GRANULES, SEGMENT_BYTES_MIN, SegmentKind, UNIT_BYTES, VERSION_HEADER, Word};
use perdura_pmem::Mutant;
use perdura_pmem::sync::{Mutex, MutexGuard};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An open segment, whose cells its owner fills, and beside it those who put versions near others.
pub(crate) trait OpenCells {
    /// Size of its cells, in units of 8 bytes.
    fn units(&self) -> u32;

    /// Claims the next free cell, if there is one.
    fn claim(&mut self) -> Option<Word>;
}

/// A segment with cells that has an owner.
#[derive(Clone)]
pub(crate) struct OpenSegment {
    /// Place of the segment in the chain.
    pub id: SegmentId,
    /// The map of its cells.
    pub cells: Arc<CellMap>,
    /// Offset of its first cell in the file, in bytes.
    pub start: u64,
    /// Cell at which the search for a free one continues.
    cursor: u32,
}

impl OpenCells for OpenSegment {
    fn units(&self) -> u32 {
        self.cells.units()
    }

    fn claim(&mut self) -> Option<Word> {
        let cell = self.cells.claim(self.cursor)?;
        self.cursor = cell + 1;
        Some(Word::new(self.id.file, self.start + self.cells.cell_offset(cell), 0))
    }
}

/// The segments of a table.
///
/// All of it is DRAM; a sweep rebuilds it after a restart. The new use of a segment is durable
/// before a committed record can name anything in it (I3). A segment is swept before the first of
/// its versions is superseded, so while it is unswept the directory names every version in it that
/// counts. Lock order: growing; the lists; a segment's cells. A sweep of a segment holds only the
/// last.
pub(crate) struct Segments {
    chain: Chain,
    free: Mutex<FreeSegments>,
    growing: Mutex<()>,
    fragmentation: Fragmentation,
}

/// Content of the descriptors of an existing table.
pub(crate) struct Opened {
    /// The table's segments.
    pub segments: Segments,
    /// Those of the directory, each with the number of its first page, in the order of the pages.
    pub directory: Vec<(u32, SegmentId)>,
    /// Those with leaves of indexes, each with the size of the leaves in units of 256 bytes.
    pub leaves: Vec<(u32, SegmentId)>,
}

impl Segments {
    /// The segments of a new table, whose only file is all free.
    pub(crate) fn create(chain: Chain) -> Segments {
        let segments = Segments::new(chain);
        segments.free.lock().put_file(segments.chain.file(0).expect("a first file"));
        segments
    }

    fn new(chain: Chain) -> Segments {
        Segments { chain, free: Mutex::default(), growing: Mutex::new(()), fragmentation: Fragmentation::default() }
    }

    /// Reads the segment descriptors of an existing table.
    pub(crate) fn open(chain: Chain) -> Result<Opened> {
        let segments = Segments::new(chain);
        let (mut directory, mut leaves) = (Vec::new(), Vec::new());
        let mut free = segments.free.lock();
        for file in segments.chain.files() {
            // Header, link word and descriptors.
            file.region().reclaim(0, file.segment_offset(0));
            for index in 0..file.segment_count() {
                let id = SegmentId { file: file.sequence(), index };
                match file.kind(id.index)? {
                    SegmentKind::Cells(_) => free.put_unswept(id),
                    SegmentKind::Directory(page) => directory.push((page, id)),
                    SegmentKind::Extents => free.put_unswept_extents(id),
                    SegmentKind::Leaves(units) => leaves.push((units, id)),
                    SegmentKind::Free => free.put(file, id.index),
                }
            }
        }
        drop(free);
        directory.sort_unstable_by_key(|(page, _)| *page);
        Ok(Opened { segments, directory, leaves })
    }

    /// The chain of the table's files.
    #[inline]
    pub(crate) fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Bytes that versions waste in larger cells.
    pub(crate) fn fragmentation(&self) -> &Fragmentation {
        &self.fragmentation
    }

    /// Locks the lists of free segments. A thread that also locks a segment's cells locks the lists
    /// first.
    pub(crate) fn free_segments(&self) -> MutexGuard<'_, FreeSegments> {
        self.free.lock()
    }

    /// Adds the next file to the chain, with room for what is `need`ed, unless it has more than
    /// `files_seen` by now. On a device that is nearly full the file is smaller than usual.
    ///
    /// # Errors
    /// DeviceFull, TableFull, NotFound (the table was dropped), Medium.
    fn grow(&self, files_seen: usize, need: Need) -> Result<()> {
        self.grow_by(files_seen, 0, need)
    }

    /// Adds the next file to the chain, in its full size, ahead of need.
    ///
    /// # Errors
    /// DeviceFull, TableFull, NotFound (the table was dropped), Medium.
    pub(crate) fn grow_ahead(&self) -> Result<()> {
        let files_seen = self.chain.file_count();
        self.grow_by(files_seen, self.chain.context().file_bytes(files_seen as u32), Need::LEAST)
    }

    fn grow_by(&self, files_seen: usize, least: u64, need: Need) -> Result<()> {
        let _growing = self.growing.lock();
        if self.chain.file_count() == files_seen {
            let file = self.chain.extend(least, need)?;
            self.free.lock().put_file(file);
        }
        Ok(())
    }

    /// Unmaps the files that were given back: nobody else uses the table.
    pub(crate) fn forget_given_back(&mut self) {
        self.chain.forget_given_back();
    }

    /// Keeps files from being added to the chain while the guard lives.
    pub(crate) fn stop_growing(&self) -> MutexGuard<'_, ()> {
        self.growing.lock()
    }

    /// Whether free segments have run low, so that the table needs its next file soon.
    pub(crate) fn is_low(&self) -> bool {
        self.free.lock().bytes() < self.chain.low_water()
    }

    /// Takes a free segment of at least `segment_bytes`, and sweeps or grows if there is none.
    /// `kept` others stay free.
    pub(crate) fn take_free(&self, segment_bytes: u64, kept: u32) -> Result<SegmentId> {
        let need = Need { segment_bytes, bytes: segment_bytes, kept };
        self.take(need, |free| free.take(&self.chain, segment_bytes, kept))
    }

    /// Makes a segment free in whose leaves nobody can need anything.
    pub(crate) fn put_free_of_leaves(&self, id: SegmentId) {
        let file = self.chain.file_of(id);
        file.segment(id.index).held_leaves.store(true, Ordering::Relaxed);
        self.free.lock().put(file, id.index);
    }

    /// Takes what is `need`ed from the lists by `take`, and sweeps or grows if they lack it.
    fn take<T>(&self, need: Need, mut take: impl FnMut(&mut FreeSegments) -> Option<T>) -> Result<T> {
        loop {
            let files_seen = self.chain.file_count();
            let taken = {
                let mut free = self.free.lock();
                let taken = take(&mut free);
                if free.bytes() < self.chain.low_water() {
                    self.chain.context().services.ask_for_file(self.chain.table());
                }
                taken
            };
            match taken {
                Some(taken) => return Ok(taken),
                None if self.sweep_some(64)? => {}
                None => self.grow(files_seen, need)?,
            }
        }
    }

    /// Takes a segment with free cells for one owner: of `class`, or of a larger class if `class`
    /// has not earned segments of its own. `largest` is the largest class that the owner has open.
    /// The segment's use is durable on return (I3).
    pub(crate) fn take_cells(&self, class: u32, earned: bool, largest: Option<u32>) -> Result<OpenSegment> {
        let reusable = if earned { class..=class } else { class..=class.saturating_mul(2) };
        if let Some(segment) = self.take_reusable_cells(reusable) {
            return Ok(segment);
        }
        let segment_bytes = self.chain.segment_bytes();
        match largest {
            Some(largest) if !earned && largest < class => {
                self.take_fresh_cells(cells::grown_class(largest, class, segment_bytes))
            }
            _ => self.take_fresh_cells(class),
        }
    }

    /// Takes a reusable segment of the smallest class larger than `class`.
    pub(crate) fn take_larger_cells(&self, class: u32) -> Option<OpenSegment> {
        self.take_reusable_cells(class + 1..=u32::MAX)
    }

    /// Takes a reusable segment of the smallest of `classes`.
    pub(crate) fn take_offered_cells(&self, classes: Range<u32>) -> Option<OpenSegment> {
        if classes.is_empty() { None } else { self.take_reusable_cells(classes.start..=classes.end - 1) }
    }

    /// Offers every free cell that has no owner, however few a segment has: there is no other room.
    pub(crate) fn offer_all(&self) {
        let mut free = self.free.lock();
        for file in self.chain.files() {
            for index in 0..file.segment_count() {
                let cells = file.segment(index).cells.lock().clone();
                let has_room = |cells: &Arc<CellMap>| cells.used() < cells.count() && !cells.is_withdrawn();
                if let Some(cells) = cells.filter(has_room) {
                    free.put_reusable(cells.units(), SegmentId { file: file.sequence(), index });
                }
            }
        }
    }

    /// Units of the cell that `word` names; `None` if no cell begins there or the segment is
    /// unswept.
    pub(crate) fn cell_units(&self, word: Word) -> Option<u32> {
        self.cell(word).map(|(_, cells, _)| cells.units())
    }

    fn take_reusable_cells(&self, classes: RangeInclusive<u32>) -> Option<OpenSegment> {
        let mut free = self.free.lock();
        let id = free.take_reusable(classes)?;
        let file = self.chain.file_of(id);
        let cells = file.segment(id.index).cells.lock().clone().expect("a reusable segment has cells");
        cells.taken.store(true, Ordering::Release);
        Some(OpenSegment { id, cells, start: file.segment_offset(id.index), cursor: 0 })
    }

    /// Takes a free segment for cells of `units`. Its use is durable before the commit of whoever
    /// writes there (I3). Only the smallest class may take the last free segment.
    fn take_fresh_cells(&self, units: u32) -> Result<OpenSegment> {
        let id = self.take_free(cells::segment_bytes_for(units), u32::from(units > cells::UNITS_MIN))?;
        let file = self.chain.file_of(id);
        file.publish_kind(id.index, SegmentKind::Cells(units));
        let cells = Arc::new(CellMap::new(units, file.segment_bytes()));
        cells.taken.store(true, Ordering::Release);
        *file.segment(id.index).cells.lock() = Some(cells.clone());
        Ok(OpenSegment { id, cells, start: file.segment_offset(id.index), cursor: 0 })
    }

    /// Returns an open segment that its owner has filled. It becomes free or reusable if enough
    /// cells were freed meanwhile.
    pub(crate) fn release(&self, segment: &OpenSegment) {
        drop(self.end_ownership(segment));
    }

    /// Returns an open segment with unused cells. However few these are, the next owner continues
    /// there.
    pub(crate) fn release_partly_filled(&self, segment: &OpenSegment) {
        let mut free = self.end_ownership(segment);
        let cells = &segment.cells;
        if (1..cells.count()).contains(&cells.used()) {
            free.put_reusable(cells.units(), segment.id);
        }
    }

    /// Ends the ownership of a segment and settles it. Returns the lists, still locked, so that
    /// nobody has taken the segment yet.
    fn end_ownership(&self, segment: &OpenSegment) -> MutexGuard<'_, FreeSegments> {
        let mut free = self.free.lock();
        segment.cells.taken.store(false, Ordering::Release);
        self.settle(&mut free, segment.id, &segment.cells);
        free
    }

    /// Takes an extent for a version of `bytes`, in a file created for it if no other has room. The
    /// use of its segments is durable on return (I3): the next extent in them may be another
    /// session's.
    pub(crate) fn take_extent(&self, bytes: u64) -> Result<Word> {
        let need = Need { segment_bytes: SEGMENT_BYTES_MIN, bytes, kept: 1 };
        let taken = self.take(need, |free| free.take_extent(&self.chain, bytes, need.kept))?;
        let file = self.chain.file(taken.extent.file).expect("a file of the chain");
        if !taken.fresh.is_empty() {
            for index in taken.fresh {
                file.set_kind(index, SegmentKind::Extents);
            }
            file.region().fence();
            self.free.lock().put_granules(file, taken.rest);
        }
        Ok(Word::new(taken.extent.file, file.granule_offset(taken.extent.first), 0))
    }

    /// Claims a cell of `units` in the segment where `near` names a version, if there is one at
    /// hand: `near` may be any word. The segment may have an owner, which fills it as well. In a
    /// segment that is thinly filled there is none: it is to become free, or an owner's.
    pub(crate) fn claim_near(&self, near: Word, units: u32) -> Option<Word> {
        let file = self.chain.file(near.file())?;
        let index = file.segment_of(near.offset())?;
        // It becomes free under this lock only, if no cell is in use then.
        let slot = file.segment(index).cells.try_lock()?;
        // Planted: cells of any size will do.
        let fits = |cells: &&CellMap| cells.units() == units || perdura_pmem::planted(Mutant::NearCellOfAnyClass);
        let cells = slot.as_deref().filter(fits)?;
        let is_filled = (cells.count() / 2..cells.count()).contains(&cells.used());
        if !is_filled || cells.emptied.load(Ordering::Acquire) {
            return None;
        }
        let cell = cells.claim(0)?;
        Some(Word::new(near.file(), file.segment_offset(index) + cells.cell_offset(cell), 0))
    }

    /// Frees the cell or extent that `word` names. No reader, record or directory word may name it
    /// any more (I8).
    pub(crate) fn free(&self, word: Word) {
        let Some((id, cells, cell)) = self.cell(word) else {
            let extent = self.chain.file(word.file()).and_then(|file| Some((file, file.granule_at(word.offset())?)));
            let freed = extent.is_some_and(|(file, granule)| self.free.lock().free_extent(file, granule));
            debug_assert!(freed || self.chain.context().health.check().is_err(), "freed a version that is nowhere");
            return;
        };
        let left = cells.free(cell);
        if left == 0 || has_room(left, cells.count()) {
            let mut free = self.free.lock();
            self.settle(&mut free, id, &cells);
        }
    }

    /// Frees the cells and extents that `words` name, those of one segment in a row at once.
    pub(crate) fn free_all(&self, words: impl Iterator<Item = Word>) {
        let mut last: Option<(SegmentId, u64, Arc<CellMap>)> = None;
        for word in words {
            if let Some((id, start, cells)) = &last
                && id.file == word.file()
                && let Some(cell) = word.offset().checked_sub(*start).and_then(|offset| cells.cell_at(offset))
            {
                cells.free(cell);
                continue;
            }
            self.settle_freed(last.take());
            let Some((id, cells, cell)) = self.cell(word) else {
                self.free(word);
                continue;
            };
            // Once the cell is free the file may go.
            let start = self.chain.file_of(id).segment_offset(id.index);
            cells.free(cell);
            last = Some((id, start, cells));
        }
        self.settle_freed(last);
    }

    fn settle_freed(&self, segment: Option<(SegmentId, u64, Arc<CellMap>)>) {
        if let Some((id, _, cells)) = segment {
            let mut free = self.free.lock();
            self.settle(&mut free, id, &cells);
        }
    }

    /// Segment, map and number of the cell that `word` names; `None` if no cell begins there or the
    /// segment is unswept.
    fn cell(&self, word: Word) -> Option<(SegmentId, Arc<CellMap>, u32)> {
        let file = self.chain.file(word.file())?;
        let index = file.segment_of(word.offset())?;
        let cells = file.segment(index).cells.lock().clone()?;
        let cell = cells.cell_at(word.offset() - file.segment_offset(index))?;
        Some((SegmentId { file: word.file(), index }, cells, cell))
    }

    /// Takes sparse segments to be emptied, up to `most`, if the table has so many that it is worth
    /// it. Until [`Segments::end_emptying`] nobody is offered their cells. They become free with
    /// their last cell.
    pub(crate) fn begin_emptying(&self, most: usize) -> Vec<Emptied> {
        let mut free = self.free.lock();
        if !free.sparse.is_worth_emptying(self.chain.bytes() - free.bytes()) {
            return Vec::new();
        }
        let cells_of = |id: SegmentId| self.chain.file_of(id).segment(id.index).cells.lock().clone();
        let chosen = free.sparse.choose(most, |id| cells_of(id).map_or((0, 0), |cells| (cells.used(), cells.count())));
        let mut emptied = Vec::new();
        for (units, id) in chosen {
            free.remove_reusable(units, id);
            let cells = cells_of(id).expect("a sparse segment has cells");
            cells.emptied.store(true, Ordering::Release);
            emptied.push(Emptied { id, cells, start: self.chain.file_of(id).segment_offset(id.index) });
        }
        emptied
    }

    /// Gives up emptying a segment, unless it is free by now.
    pub(crate) fn end_emptying(&self, segment: &Emptied) {
        let mut free = self.free.lock();
        segment.cells.emptied.store(false, Ordering::Release);
        self.settle(&mut free, segment.id, &segment.cells);
    }

    /// Makes a segment free if it is empty, or reusable if more than one in [`FREE_SHARE`] of its
    /// cells is free. A segment with an owner stays as it is, and so does one that is being emptied
    /// until it is empty. `free` are the locked lists.
    fn settle(&self, free: &mut FreeSegments, id: SegmentId, cells: &CellMap) {
        // Planted: an empty segment becomes free although an owner fills it.
        if cells.taken.load(Ordering::Acquire) && !perdura_pmem::planted(Mutant::OwnedSegmentFreed) {
            return;
        }
        // Another thread may have freed the last cell since, and the file is given back.
        let Some(file) = self.chain.file(id.file).filter(|file| id.index < file.segment_count()) else { return };
        let mut slot = file.segment(id.index).cells.lock();
        if !slot.as_deref().is_some_and(|present| std::ptr::eq(present, cells)) {
            return;
        }
        let (used, count) = (cells.used(), cells.count());
        let emptied = cells.emptied.load(Ordering::Acquire);
        if used == 0 {
            *slot = None;
            free.remove_reusable(cells.units(), id);
            free.put(file, id.index);
        } else if !emptied && has_room(used, count) {
            free.put_reusable(cells.units(), id);
            if is_sparse(used, count) {
                free.sparse.add(cells.units(), id, file.segment_bytes());
            }
        }
    }

    /// Sweeps the segment of the version that `word` names, unless that is done, and checks that a
    /// cell or an extent begins there.
    pub(crate) fn ensure_swept(&self, word: Word) -> Result<()> {
        LastSwept::default().ensure_in(self, word)
    }

    /// Sweeps the segment that `word` names a place in. Returns it with the offset of its first
    /// cell and their map; `None` if an extent begins there.
    fn swept(&self, word: Word) -> Result<Option<(SegmentId, u64, Arc<CellMap>)>> {
        let (region, at) = self.chain.locate(word)?;
        let file = self.chain.file(word.file()).expect("located");
        let index = file.segment_of(at).expect("located in a segment");
        let id = SegmentId { file: word.file(), index };
        let place = match self.sweep_segment(id)? {
            Some(cells) if cells.cell_at(at - file.segment_offset(index)).is_some() => {
                Some(Some((id, file.segment_offset(index), cells)))
            }
            Some(_) => None,
            None => {
                let begins = |first| self.free.lock().extents.begins_at(word.file(), first);
                file.granule_at(at).is_some_and(begins).then_some(None)
            }
        };
        place.ok_or_else(|| {
            Error::damaged(region.name(), at, "a directory word names a place where no version can begin")
        })
    }

    /// Sweeps a segment that holds cells or extents, unless that is done, and returns the map of
    /// its cells; `None` if it holds none. A segment is swept once only: later it may be free or
    /// have another use.
    fn sweep_segment(&self, id: SegmentId) -> Result<Option<Arc<CellMap>>> {
        // A segment may be swept by a thread that needs it, and then go with its file.
        let Some(file) = self.chain.file(id.file).filter(|file| id.index < file.segment_count()) else {
            return Ok(None);
        };
        let segment = file.segment(id.index);
        let mut cells = segment.cells.lock();
        if cells.is_none() && !segment.swept.load(Ordering::Relaxed) {
            let kind = file.kind(id.index)?;
            // Planted: extents count as swept as soon as somebody has begun to.
            let is_done = kind != SegmentKind::Extents || perdura_pmem::planted(Mutant::ExtentsSweptEarly);
            segment.swept.store(is_done, Ordering::Relaxed);
            match kind {
                SegmentKind::Cells(units) => {
                    file.region().will_need(file.segment_offset(id.index), file.segment_bytes());
                    let map = Arc::new(CellMap::new(units, file.segment_bytes()));
                    sweep::mark_live(file, id, &map, self.chain.directory());
                    self.chain.context().health.check()?;
                    *cells = Some(map);
                }
                SegmentKind::Extents => {
                    drop(cells);
                    self.sweep_extents(file, id);
                    return Ok(None);
                }
                SegmentKind::Directory(_) | SegmentKind::Leaves(_) | SegmentKind::Free => {}
            }
        }
        Ok(cells.clone())
    }

    /// Sweeps a range of segments of extents, unless that is done: extents go on from one into
    /// the next. Nobody else takes room from the lists meanwhile, or looks there for an extent of a
    /// segment that counts as swept from then on.
    fn sweep_extents(&self, file: &DataFile, id: SegmentId) {
        let mut free = self.free.lock();
        let Some((first, length)) = free.extents.take_unswept(id) else { return };
        let (start, end) = (first.index * GRANULES, (first.index + length) * GRANULES);
        let mut unused = start;
        let piece = |first: u32, end: u32| Granules {
            file: id.file,
            first,
            count: end - first,
            bytes_each: file.granule_bytes(),
        };
        // Later some of them are free, or have another use: nobody sweeps them again.
        for index in first.index..first.index + length {
            let segment = file.segment(index);
            let _cells = segment.cells.lock();
            segment.swept.store(true, Ordering::Relaxed);
        }
        for extent in sweep::live_extents(file, start..end, &self.chain) {
            free.extents.mark(piece(extent.start, extent.end));
            free.put_granules(file, piece(unused, extent.start));
            unused = extent.end;
        }
        free.put_granules(file, piece(unused, end));
    }

    /// Sweeps up to `count` segments. Returns whether any was unswept.
    pub(crate) fn sweep_some(&self, count: usize) -> Result<bool> {
        let mut any = false;
        for _ in 0..count {
            let Some(id) = self.free.lock().next_unswept() else { break };
            any = true;
            if let Some(cells) = self.sweep_segment(id)? {
                let mut free = self.free.lock();
                self.settle(&mut free, id, &cells);
            }
        }
        Ok(any)
    }

    /// Takes the cell or extent of a version that a prepared transaction wrote, after sweeping its
    /// segment. `room` bytes behind the version belong to it.
    pub(crate) fn keep_cell(&self, word: Word, room: u64) -> Result<()> {
        let (region, at) = self.chain.locate(word)?;
        let index = self.chain.file(word.file()).and_then(|file| file.segment_of(at)).expect("located in a segment");
        self.sweep_segment(SegmentId { file: word.file(), index })?;
        let kept = match self.cell(word) {
            Some((_, cells, cell)) => {
                let (_, _, header) = self.chain.header(word, rid_at(region, at))?;
                let bytes = VERSION_HEADER + u64::from(header.len) + room;
                bytes <= u64::from(cells.units()) * UNIT_BYTES && cells.mark(cell)
            }
            None => self.keep_extent(word, room)?,
        };
        if kept {
            return Ok(());
        }
        Err(Error::damaged(region.name(), at, "a prepared transaction wrote where another version is"))
    }

    fn keep_extent(&self, word: Word, room: u64) -> Result<bool> {
        let file = self.chain.file(word.file()).expect("located");
        let (region, at, header) = self.chain.header(word, rid_at(file.region(), word.offset()))?;
        let bytes = VERSION_HEADER + u64::from(header.len) + room;
        let Some(first) = file.granule_at(at).filter(|_| file.is_in_extents(at, bytes)) else {
            return Err(Error::damaged(region.name(), at, "an extent is not whole"));
        };
        let count = bytes.div_ceil(file.granule_bytes()) as u32;
        let granules = Granules { file: word.file(), first, count, bytes_each: file.granule_bytes() };
        Ok(self.free.lock().keep_extent(file, granules))
    }
}

/// Segments are worth another owner if more than one in so many of their cells is free. The cells
/// that are free in others wait for versions of the rows there and of their neighbours: an owner
/// would fill them with rows from anywhere. A table that is updated at random keeps as many as are
/// replaced between two rounds of purge, and no more than that share.
const FREE_SHARE: u32 = 64;

/// Whether a segment with `used` of its `count` cells in use is worth another owner.
fn has_room(used: u32, count: u32) -> bool {
    used < count - count / FREE_SHARE
}

/// The segment that was found swept last: versions that are replaced one after the other mostly lie
/// in one segment.
#[derive(Default)]
pub(crate) struct LastSwept(Option<(SegmentId, u64, Arc<CellMap>)>);

impl LastSwept {
    /// Sweeps the segment of the version that `word` names, unless that is done, and checks that a
    /// cell begins there. Called for versions that are in use, so their segment is not given to
    /// another use meanwhile.
    #[inline]
    pub(crate) fn ensure(&mut self, table: &Segments, word: Word) -> Result<()> {
        if self.begins_cell(word) { Ok(()) } else { self.ensure_in(table, word) }
    }

    fn begins_cell(&self, word: Word) -> bool {
        self.0.as_ref().is_some_and(|(id, start, cells)| {
            let offset = word.offset().checked_sub(*start);
            id.file == word.file() && offset.is_some_and(|offset| cells.cell_at(offset).is_some())
        })
    }

    fn ensure_in(&mut self, table: &Segments, word: Word) -> Result<()> {
        if let Some(found) = table.swept(word)? {
            self.0 = Some(found);
        }
        Ok(())
    }
}
