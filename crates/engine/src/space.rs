//! Which segments, directory pages and RIDs of a table are free, and how they are taken into use and given back.
//!
//! All of it is DRAM: after a restart it is found again by sweeping. A segment's new use is durable before anything in it can be
//! named by a committed record (I3).

use crate::cells::{self, CellMap};
use crate::datafile::DataFile;
use crate::directory::DirectorySegment;
use crate::error::Result;
use crate::format::{PAGES_PER_SEGMENT, Rid, SegmentKind, Word};
use crate::open_cells::OpenCells;
use crate::table::Table;
use rustc_hash::FxHashSet;
use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A segment of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentId {
    /// Its file's place in the chain.
    pub file: u32,
    /// Its place in the file.
    pub index: u32,
}

/// A directory page nothing was published in.
#[derive(Clone, Copy, Debug)]
pub struct FreePage {
    /// Number of the page.
    pub page: u64,
    /// Whether a crash or a rollback may have left words in it.
    pub dirty: bool,
}

/// A segment with cells, in one owner's hands.
#[derive(Clone)]
pub struct OpenSegment {
    /// Which one.
    pub id: SegmentId,
    /// Its cells.
    pub cells: Arc<CellMap>,
    /// Offset of its first cell in the file, in bytes.
    pub start: u64,
    /// Where the search for a free cell goes on.
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

/// Free space of a table.
#[derive(Default)]
pub struct Space {
    free: BTreeSet<SegmentId>,
    /// Segments with free cells and no owner, by units of their cells.
    reusable: BTreeSet<(u32, SegmentId)>,
    unswept: VecDeque<SegmentId>,
    unswept_directory: VecDeque<u64>,
    pages: Vec<FreePage>,
    rids: Vec<Rid>,
    reserved_rows: FxHashSet<u64>,
    reserved_pages: FxHashSet<u64>,
}

impl Space {
    pub(crate) fn put_free(&mut self, id: SegmentId) {
        self.free.insert(id);
    }

    pub(crate) fn put_unswept(&mut self, id: SegmentId) {
        self.unswept.push_back(id);
    }

    pub(crate) fn put_unswept_directory(&mut self, number: u64) {
        self.unswept_directory.push_back(number);
    }

    pub(crate) fn put_page(&mut self, page: FreePage) {
        self.pages.push(page);
    }

    pub(crate) fn put_rids(&mut self, rids: impl IntoIterator<Item = Rid>) {
        self.rids.extend(rids);
    }

    /// Takes up to `count` free RIDs.
    pub(crate) fn take_rids(&mut self, count: usize) -> Vec<Rid> {
        let rest = self.rids.len().saturating_sub(count);
        self.rids.split_off(rest)
    }

    pub(crate) fn is_free(&self, id: SegmentId) -> bool {
        self.free.contains(&id)
    }

    pub(crate) fn reusable_cells(&self) -> impl Iterator<Item = (u32, SegmentId)> + '_ {
        self.reusable.iter().copied()
    }

    pub(crate) fn free_rids(&self) -> &[Rid] {
        &self.rids
    }

    pub(crate) fn free_count(&self) -> usize {
        self.free.len()
    }

    pub(crate) fn next_unswept(&mut self) -> Option<SegmentId> {
        self.unswept.pop_front()
    }

    pub(crate) fn next_unswept_directory(&mut self) -> Option<u64> {
        self.unswept_directory.pop_front()
    }

    /// Whether free RIDs of that directory segment are still to be found by its sweep.
    pub(crate) fn is_unswept_directory(&self, number: u64) -> bool {
        // The queue is ascending.
        let ends = self.unswept_directory.front().zip(self.unswept_directory.back());
        ends.is_some_and(|(first, last)| (*first..=*last).contains(&number))
    }

    /// Keeps a sweep off a row that a prepared transaction inserted.
    pub(crate) fn reserve_row(&mut self, row: u64) {
        self.reserved_rows.insert(row);
    }

    /// Keeps a sweep off a page that a prepared transaction filled.
    pub(crate) fn reserve_page(&mut self, page: u64) {
        self.reserved_pages.insert(page);
    }

    pub(crate) fn is_reserved_row(&self, row: u64) -> bool {
        self.reserved_rows.contains(&row)
    }

    pub(crate) fn is_reserved_page(&self, page: u64) -> bool {
        self.reserved_pages.contains(&page)
    }

    pub(crate) fn unswept_count(&self) -> usize {
        self.unswept.len() + self.unswept_directory.len()
    }

    /// Takes `count` contiguous free segments if `kept` are left after that.
    fn take_run(&mut self, count: u32, kept: u32) -> Option<SegmentId> {
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
}

impl Table {
    /// Whether so many RIDs are free that they are to be used before more of the directory is.
    pub(crate) fn has_many_free_rids(&self) -> bool {
        let geometry = self.context.geometry;
        let free = self.space.lock().rids.len() as u64;
        free >= geometry.words_per_page() && free * 4 >= self.directory.segment_count() * geometry.words_per_segment()
    }

    fn file_of(&self, id: SegmentId) -> &DataFile {
        self.file(id.file).expect("a segment's file is in the chain")
    }

    /// Offset of a segment in its file, in bytes.
    pub(crate) fn segment_offset(&self, id: SegmentId) -> u64 {
        self.file_of(id).segment_offset(id.index)
    }

    /// Takes `count` contiguous free segments, sweeping or growing when there are none. `kept` segments stay free.
    fn take_free(&self, count: u32, kept: u32) -> Result<SegmentId> {
        loop {
            let files_seen = self.files.count();
            let taken = {
                let mut space = self.space.lock();
                let taken = space.take_run(count, kept);
                if space.free_count() < self.low_water() {
                    self.context.services.ask_for_file(self.id());
                }
                taken
            };
            match taken {
                Some(id) => return Ok(id),
                None if self.sweep_some(64)? => {}
                None => self.grow(files_seen, count + kept)?,
            }
        }
    }

    /// Takes a segment with free cells for one owner: of `class`, or of a larger one if `class` has not earned segments of its own.
    /// `largest` is the largest class the owner has open. Durable in its use on return.
    pub(crate) fn take_cells(&self, class: u32, earned: bool, largest: Option<u32>) -> Result<OpenSegment> {
        let reusable = if earned { class..=class } else { class..=class.saturating_mul(2) };
        if let Some(segment) = self.take_reusable_cells(reusable) {
            return Ok(segment);
        }
        let segment_bytes = self.context.geometry.segment_bytes;
        match largest {
            Some(largest) if !earned && largest < class => {
                self.take_fresh_cells(cells::grown_class(largest, class, segment_bytes))
            }
            _ => self.take_fresh_cells(class),
        }
    }

    /// Takes a segment with free cells of any class larger than `class`.
    pub(crate) fn take_larger_cells(&self, class: u32) -> Option<OpenSegment> {
        self.take_reusable_cells(class + 1..=u32::MAX)
    }

    /// Takes a segment with free cells of the smallest class among `classes`.
    fn take_reusable_cells(&self, classes: RangeInclusive<u32>) -> Option<OpenSegment> {
        let first = SegmentId { file: 0, index: 0 };
        let last = SegmentId { file: u32::MAX, index: u32::MAX };
        let mut space = self.space.lock();
        let found = *space.reusable.range((*classes.start(), first)..=(*classes.end(), last)).next()?;
        space.reusable.remove(&found);
        let (_, id) = found;
        let cells = self.file_of(id).segment(id.index).cells.lock().clone().expect("a reusable segment has cells");
        cells.taken.store(true, Ordering::Release);
        Some(OpenSegment { id, cells, start: self.segment_offset(id), cursor: 0 })
    }

    /// Takes an empty segment for cells of `units`. Durable in its use on return.
    ///
    /// The smallest class, that of deletions, may have the last free segment: with a full device rows can still be deleted.
    fn take_fresh_cells(&self, units: u32) -> Result<OpenSegment> {
        let id = self.take_free(1, u32::from(units > cells::UNITS_MIN))?;
        let file = self.file_of(id);
        file.set_kind(id.index, SegmentKind::Cells(units));
        file.region().fence();
        let cells = Arc::new(CellMap::new(units, self.context.geometry.segment_bytes));
        cells.taken.store(true, Ordering::Release);
        *file.segment(id.index).cells.lock() = Some(cells.clone());
        Ok(OpenSegment { id, cells, start: file.segment_offset(id.index), cursor: 0 })
    }

    /// Gives back an owned segment that is full but for cells freed meanwhile.
    pub(crate) fn release(&self, segment: &OpenSegment) {
        let mut space = self.space.lock();
        segment.cells.taken.store(false, Ordering::Release);
        self.settle(&mut space, segment.id, &segment.cells);
    }

    /// Gives back an owned segment with unused cells. However few, the next owner goes on there.
    pub(crate) fn release_partly_filled(&self, segment: &OpenSegment) {
        let cells = &segment.cells;
        let mut space = self.space.lock();
        cells.taken.store(false, Ordering::Release);
        self.settle(&mut space, segment.id, cells);
        if (1..cells.count()).contains(&cells.used()) {
            space.reusable.insert((cells.units(), segment.id));
        }
    }

    /// Takes a run of segments for a version of `bytes`, in a file made for it if no other has room. Flushes the
    /// descriptors; the owner's fence covers them with the version.
    pub(crate) fn take_run(&self, bytes: u64) -> Result<Word> {
        let segment_bytes = self.context.geometry.segment_bytes;
        let count = bytes.div_ceil(segment_bytes);
        let first = self.take_free(count as u32, 1)?;
        let file = self.file_of(first);
        file.set_kind(first.index, SegmentKind::Run(count as u32));
        for distance in 1..count as u32 {
            file.set_kind(first.index + distance, SegmentKind::RunTail(distance));
        }
        let cells = Arc::new(CellMap::run());
        cells.taken.store(true, Ordering::Release);
        cells.mark(0);
        *file.segment(first.index).cells.lock() = Some(cells);
        Ok(Word::new(first.file, file.segment_offset(first.index), 0))
    }

    /// Frees the cell or run that `word` names. No reader, record or directory word may name it any more (I8).
    pub(crate) fn free(&self, word: Word) {
        let Some((id, cells, cell)) = self.cell(word) else {
            debug_assert!(false, "freed a version that is nowhere");
            return;
        };
        let left = cells.free(cell);
        let crowded = u64::from(left) * 8 > u64::from(cells.count()) * 7;
        if cells.units() == 0 || left == 0 || !crowded {
            let mut space = self.space.lock();
            self.settle(&mut space, id, &cells);
        }
    }

    /// Segment, map and number of the cell that `word` names; `None` if it names none or its segment is unswept.
    pub(crate) fn cell(&self, word: Word) -> Option<(SegmentId, Arc<CellMap>, u32)> {
        let file = self.file(word.file())?;
        let index = file.segment_of(word.offset())?;
        let cells = file.segment(index).cells.lock().clone()?;
        let cell = cells.cell_at(word.offset() - file.segment_offset(index))?;
        Some((SegmentId { file: word.file(), index }, cells, cell))
    }

    /// With the space locked: an empty segment becomes free, another reusable if it has room. One with an owner stays
    /// as it is.
    pub(crate) fn settle(&self, space: &mut Space, id: SegmentId, cells: &CellMap) {
        if cells.units() == 0 {
            return self.free_run(space, id, cells);
        }
        // Planted: an empty segment is free though somebody fills it.
        if cells.taken.load(Ordering::Acquire) && !perdura_pmem::planted(51) {
            return;
        }
        let mut slot = self.file_of(id).segment(id.index).cells.lock();
        if !slot.as_deref().is_some_and(|present| std::ptr::eq(present, cells)) {
            return;
        }
        let (used, count) = (cells.used(), cells.count());
        if used == 0 {
            *slot = None;
            space.reusable.remove(&(cells.units(), id));
            space.put_free(id);
        } else if u64::from(used) * 8 <= u64::from(count) * 7 {
            space.reusable.insert((cells.units(), id));
        }
    }

    fn free_run(&self, space: &mut Space, id: SegmentId, cells: &CellMap) {
        let file = self.file_of(id);
        let mut slot = file.segment(id.index).cells.lock();
        let present = slot.as_deref().is_some_and(|present| std::ptr::eq(present, cells));
        if cells.used() > 0 || !present {
            return;
        }
        if let Ok(SegmentKind::Run(count)) = file.kind(id.index) {
            *slot = None;
            for index in id.index..id.index + count {
                space.put_free(SegmentId { file: id.file, index });
            }
        }
    }

    /// Takes a directory page nothing was published in; all its words are 0 on the medium.
    pub(crate) fn take_page(&self) -> Result<u64> {
        loop {
            let page = self.space.lock().pages.pop();
            match page {
                Some(page) => {
                    // Planted: words that a rollback or a crash left come with the page.
                    if page.dirty && !perdura_pmem::planted(50) {
                        let (region, at, bytes) = self.directory.page_bytes(page.page).expect("a free page exists");
                        region.zero(at, bytes);
                        region.fence();
                    }
                    return Ok(page.page);
                }
                None if self.sweep_directory(1)? > 0 => {}
                None => self.add_directory_segment()?,
            }
        }
    }

    fn add_directory_segment(&self) -> Result<()> {
        let _span = perdura_pmem::trace::span("directory_growth");
        let id = self.take_free(1, 1)?;
        let file = self.file_of(id);
        let at = file.segment_offset(id.index);
        // Planted: the directory begins with whatever was there.
        if !perdura_pmem::planted(49) {
            file.region().zero(at, self.context.geometry.segment_bytes);
        }
        file.region().fence();
        let mut space = self.space.lock();
        let number = self.directory.segment_count();
        file.set_kind(id.index, SegmentKind::Directory(number as u32));
        file.region().fence();
        self.directory.push(DirectorySegment { region: file.region().clone(), at });
        for page in (0..PAGES_PER_SEGMENT).rev() {
            space.put_page(FreePage { page: number * PAGES_PER_SEGMENT + page, dirty: false });
        }
        Ok(())
    }
}
