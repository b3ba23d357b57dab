//! A segment in the hands of one bulk insert, which fills its free cells from the first to the last and flushes lines
//! as they fill.
//!
//! The insert claims all free cells in the segment's map at once and gives back those it did not use, so a row needs no
//! atomic operation: a locked instruction would wait for the flushes before it.

use super::open_cells::SegmentOwner;
use super::segments::{OpenCells, OpenSegment, Segments};
use crate::format::Word;
use perdura_pmem::{LINE_BYTES, Region};

/// A segment being filled.
pub struct BulkSegment {
    open: OpenSegment,
    region: Region,
    cell_bytes: u64,
    /// Cells claimed and not used yet, a bit each.
    claimed: Box<[u64]>,
    /// Words of `claimed` before this one are 0.
    next: usize,
    /// Versions before this offset of the file are flushed.
    flushed: u64,
    /// The last version ends here.
    end: u64,
}

impl BulkSegment {
    /// Takes over a segment in `region`.
    pub fn new(open: OpenSegment, region: Region) -> BulkSegment {
        let start = open.start;
        let claimed = open.cells.claim_rest();
        let cell_bytes = open.cells.cell_offset(1);
        BulkSegment { open, region, cell_bytes, claimed, next: 0, flushed: start, end: start }
    }

    /// The mapping it lies in.
    #[inline]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// After a version of `bytes` was written at `at`: flushes the lines nothing more will be written to.
    #[inline]
    pub fn written(&mut self, at: u64, bytes: u64) {
        let line = at & !(LINE_BYTES - 1);
        if line > self.flushed {
            self.flush();
            // Lines between the last version's end and this one's start were never stored to.
            self.flushed = line;
        }
        self.end = at + bytes;
        let full = self.end & !(LINE_BYTES - 1);
        if full > self.flushed {
            self.region.flush(self.flushed, full - self.flushed);
            self.flushed = full;
        }
    }

    /// Flushes what is written and not flushed.
    pub fn flush(&mut self) {
        if self.end > self.flushed {
            self.region.flush(self.flushed, self.end - self.flushed);
            self.flushed = self.end;
        }
    }

    /// Ends the filling: the cells not used are free again.
    pub fn retire(mut self) -> OpenSegment {
        self.flush();
        self.open.cells.free_rest(&self.claimed);
        self.open
    }
}

impl OpenCells for BulkSegment {
    fn units(&self) -> u32 {
        self.open.cells.units()
    }

    #[inline]
    fn claim(&mut self) -> Option<Word> {
        while let Some(word) = self.claimed.get_mut(self.next) {
            if *word != 0 {
                let cell = self.next as u64 * 64 + u64::from(word.trailing_zeros());
                *word &= *word - 1;
                return Some(Word::new(self.open.id.file, self.open.start + cell * self.cell_bytes, 0));
            }
            self.next += 1;
        }
        None
    }
}

/// A bulk insert as an owner of segments.
pub enum Bulk {}

impl SegmentOwner for Bulk {
    type Segment = BulkSegment;

    fn open(segments: &Segments, segment: OpenSegment) -> BulkSegment {
        let region = segments.chain().file_of(segment.id).region().clone();
        BulkSegment::new(segment, region)
    }

    fn close(segments: &Segments, segment: BulkSegment) {
        segments.release_partly_filled(&segment.retire());
    }
}
