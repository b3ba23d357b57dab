//! A shard of a table's allocator: open segments by class of cells, and RIDs at hand.
//!
//! Sessions are spread over a table's shards, so two of them seldom meet at one lock. Lock order:
//! shard; then the lists of free segments, or of the directory's free places.

use super::directory_space::DirectorySpace;
use super::open_cells::{OpenSet, SegmentOwner};
use super::segments::{OpenSegment, Segments};
use crate::error::Result;
use crate::format::{PageState, Rid, Word};
use crate::shadow::slots::Shadows;
use std::ops::Range;

/// Most RIDs taken from the table's list at once.
const RIDS_AT_ONCE: usize = 64;

/// One shard of an allocator.
#[derive(Default)]
pub(crate) struct Shard {
    open: OpenSet<RowWise>,
    rids: Vec<Rid>,
    fresh_rows: Range<u64>,
}

/// Marks a shard as the owner of segments.
enum RowWise {}

impl SegmentOwner for RowWise {
    type Segment = OpenSegment;

    fn open(_: &Segments, segment: OpenSegment) -> OpenSegment {
        segment
    }

    fn close(segments: &Segments, segment: OpenSegment) {
        segments.release(&segment);
    }
}

impl Shard {
    /// Claims a cell for a version of class `units`.
    pub(crate) fn claim(&mut self, segments: &Segments, units: u32) -> Result<Word> {
        self.open.claim(segments, units).map(|(word, _)| word)
    }

    /// Claims a RID whose word is empty. If none is free, publishes an empty page and fences it
    /// before its RIDs are given out (I3).
    pub(crate) fn claim_rid(
        &mut self,
        segments: &Segments,
        directory_space: &DirectorySpace,
        shadows: &Shadows,
    ) -> Result<Rid> {
        loop {
            if let Some(rid) = self.rids.pop() {
                return Ok(rid);
            }
            let directory = segments.chain().directory();
            if let Some(row) = self.fresh_rows.next() {
                directory.use_row(row);
                return Ok(Rid::new(row, directory.raw_word(row).incarnation()));
            }
            self.rids = directory_space.take_rids(directory, RIDS_AT_ONCE);
            // Those of a page that was swept may lie behind its last row.
            self.rids.iter().for_each(|rid| directory.use_row(rid.row()));
            if self.rids.is_empty() {
                let page = directory_space.take_page(segments, shadows, false)?;
                directory.use_up_to(page, 0);
                directory.publish(page, PageState::OPEN);
                segments.chain().fence();
                self.fresh_rows = directory.page_rows(page);
            }
        }
    }

    /// Lets go of the segments in `file` that are empty and of the RIDs in its pages, so that the
    /// file may be given back.
    pub(crate) fn let_go(&mut self, segments: &Segments, directory_space: &DirectorySpace, file: u32) {
        self.open.close_those(segments, |segment| segment.id.file == file && segment.cells.used() == 0);
        let directory = segments.chain().directory();
        let is_there = |row: u64| directory.file_of(directory.page_of(row)) == Some(file);
        let mut freed: Vec<Rid> = self.rids.extract_if(.., |rid| is_there(rid.row())).collect();
        if is_there(self.fresh_rows.start) {
            let fresh = std::mem::take(&mut self.fresh_rows);
            freed.extend(fresh.map(|row| Rid::new(row, directory.raw_word(row).incarnation())));
        }
        directory_space.put_rids(directory, freed);
    }

    /// Rows whose RIDs the shard can give out without taking more from the table.
    pub(crate) fn rows_at_hand(&self) -> Vec<u64> {
        self.rids.iter().map(|rid| rid.row()).chain(self.fresh_rows.clone()).collect()
    }
}
