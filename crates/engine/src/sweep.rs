//! Sweeping: finding a table's free cells, RIDs and pages again after a restart.
//!
//! A cell is in use iff the directory word of the RID in its header names it; whatever else its bytes hold, torn or stale,
//! is free space. A segment is swept before the first of its versions is superseded, so that while it is unswept
//! the directory alone tells the truth. Order of locks: space, then a segment's cells; a sweep holds only the latter.

use crate::cells::CellMap;
use crate::datafile::DataFile;
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::format::{PAGES_PER_SEGMENT, Rid, SegmentKind, UNIT_BYTES, Word};
use crate::purge::Superseded;
use crate::space::{FreePage, SegmentId};
use crate::table::Table;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Directory segments whose rows are counted when a table is opened; the rest is extrapolated.
const COUNTED_AT_OPEN: u64 = 256;

impl Table {
    /// Makes sure that the segment of the version `word` names is swept, and that the version is in one of its cells.
    pub(crate) fn ensure_swept(&self, word: Word) -> Result<()> {
        let (region, at) = self.locate(word)?;
        let file = self.file(word.file()).expect("located");
        let index = file.segment_of(at).expect("located in a segment");
        let cells = self.sweep_segment(SegmentId { file: word.file(), index })?;
        match cells.and_then(|cells| cells.cell_at(at - file.segment_offset(index))) {
            Some(_) => Ok(()),
            None => Err(Error::damaged(region.name(), at, "a directory word names a place where no version can begin")),
        }
    }

    /// Sweeps a segment unless it is swept; `None` if it holds no cells. Only once: after that it may be free, or in other hands.
    fn sweep_segment(&self, id: SegmentId) -> Result<Option<Arc<CellMap>>> {
        let file = self.file(id.file).expect("a segment's file is in the chain");
        let segment = file.segment(id.index);
        let mut cells = segment.cells.lock();
        if cells.is_none() && !segment.swept.swap(true, Ordering::Relaxed) {
            *cells = match file.kind(id.index)? {
                SegmentKind::Cells(units) => Some(Arc::new(CellMap::new(units, self.context.geometry.segment_bytes))),
                SegmentKind::Run(_) => Some(Arc::new(CellMap::run())),
                _ => None,
            };
            if let Some(map) = cells.as_deref() {
                mark_live(file, id, map, &self.directory);
            }
        }
        Ok(cells.clone())
    }

    /// Sweeps up to `count` segments. Returns whether there were any.
    pub(crate) fn sweep_some(&self, count: usize) -> Result<bool> {
        let mut any = false;
        for _ in 0..count {
            let Some(id) = self.space.lock().next_unswept() else { break };
            any = true;
            if let Some(cells) = self.sweep_segment(id)? {
                let mut space = self.space.lock();
                self.settle(&mut space, id, &cells);
            }
        }
        Ok(any)
    }

    /// Sweeps up to `count` directory segments for free pages and RIDs, and for tombstones from before the restart.
    /// Returns how many there were.
    pub(crate) fn sweep_directory(&self, count: usize) -> Result<usize> {
        for done in 0..count {
            let mut space = self.space.lock();
            let Some(number) = space.next_unswept_directory() else { return Ok(done) };
            self.directory.reclaim(number);
            let mut tombstones = Vec::new();
            for page in number * PAGES_PER_SEGMENT..(number + 1) * PAGES_PER_SEGMENT {
                if space.is_reserved_page(page) {
                    continue;
                }
                if !self.directory.state(page).is_published() {
                    space.put_page(FreePage { page, dirty: true });
                    continue;
                }
                for row in self.directory.page_rows(page) {
                    let word = self.directory.sound_word(row)?;
                    let rid = Rid::new(row, word.incarnation());
                    if word.is_tombstone() {
                        tombstones.push(Superseded { csn: 0, rid, word });
                    // Planted: the row of a prepared transaction's insert is given to others.
                    } else if word.is_empty() && (!space.is_reserved_row(row) || perdura_pmem::planted(42)) {
                        space.put_rids([rid]);
                    }
                }
            }
            drop(space);
            self.purge_old_tombstones(tombstones)?;
        }
        Ok(count)
    }

    /// Hands tombstones that recovery left to purge. Those of this run are in its queue already.
    fn purge_old_tombstones(&self, tombstones: Vec<Superseded>) -> Result<()> {
        let recovered = self.context.services.recovered_csn();
        for item in tombstones {
            let Ok((region, at, _)) = self.header(item.word, item.rid) else { continue };
            let state = self.directory.state(self.directory.page_of(item.rid.row()));
            // Planted: deletions of this run go to purge as if they were from before it.
            if Table::version_csn(region, at, state) <= recovered || perdura_pmem::planted(43) {
                self.ensure_swept(item.word)?;
                self.superseded.lock().push_front(item);
            }
        }
        Ok(())
    }

    /// Counts rows when the table is opened, exactly up to some millions, beyond that by the average.
    pub(crate) fn estimate_rows(&self) {
        let segments = self.directory.segment_count();
        let counted = segments.min(COUNTED_AT_OPEN);
        let mut rows = 0;
        for page in 0..counted * PAGES_PER_SEGMENT {
            if self.directory.state(page).is_published() {
                let is_row = |row: &u64| {
                    let word = self.directory.raw_word(*row);
                    !word.is_empty() && !word.is_tombstone()
                };
                rows += self.directory.page_rows(page).filter(is_row).count() as u64;
            }
        }
        if counted > 0 {
            self.count_rows((u128::from(rows) * u128::from(segments) / u128::from(counted)) as i64);
        }
    }

    /// Keeps a prepared transaction's version: its segment is swept and its cell taken.
    pub(crate) fn keep_cell(&self, word: Word) -> Result<()> {
        self.ensure_swept(word)?;
        match self.cell(word) {
            Some((_, cells, cell)) if cells.mark(cell) => Ok(()),
            _ => {
                let (region, at) = self.locate(word)?;
                Err(Error::damaged(region.name(), at, "a prepared transaction wrote where another version is"))
            }
        }
    }

    /// Segments and directory segments not swept yet.
    pub(crate) fn unswept(&self) -> usize {
        self.space.lock().unswept_count()
    }
}

fn mark_live(file: &DataFile, id: SegmentId, map: &CellMap, directory: &Directory) {
    let start = file.segment_offset(id.index);
    let cells: Range<u32> = 0..map.count();
    for cell in cells {
        let at = start + map.cell_offset(cell);
        let rid = Rid::from_u64(file.region().load(at + UNIT_BYTES));
        let word = directory.word(rid.row());
        // Planted: a cell is in use if its row is.
        let named = word.file() == id.file && word.offset() == at || perdura_pmem::planted(44);
        if !word.is_empty() && named {
            map.mark(cell);
        }
    }
}
