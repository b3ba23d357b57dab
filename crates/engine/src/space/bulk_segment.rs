//! A segment that one bulk insert owns. The insert fills its free cells from the first to the last,
//! and flushes each line when it is full.
//!
//! The insert claims all free cells of the segment at once, and frees those it did not use at its
//! end. So a row needs no atomic operation: a locked instruction would wait for the flushes before
//! it.

use super::open_cells::SegmentOwner;
use super::segments::{OpenCells, OpenSegment, Segments};
use crate::format::Word;
use perdura_pmem::{LINE_BYTES, Region};

/// Bytes of whole lines that are flushed together.
const FLUSHED_AT_ONCE: u64 = 1024;

/// An open segment of a bulk insert.
pub(crate) struct BulkSegment {
    open: OpenSegment,
    region: Region,
    cell_bytes: u64,
    /// A bit for each cell that is claimed and not used yet.
    claimed: Box<[u64]>,
    /// Index into `claimed`; the words before it are 0.
    next: usize,
    /// Versions below this offset in the file are flushed.
    flushed: u64,
    /// Offset at which the last version ends.
    end: u64,
}

impl BulkSegment {
    /// Takes over an open segment, mapped by `region`, and claims its free cells.
    pub(crate) fn new(open: OpenSegment, region: Region) -> BulkSegment {
        let start = open.start;
        let claimed = open.cells.claim_rest();
        let cell_bytes = open.cells.cell_offset(1);
        BulkSegment { open, region, cell_bytes, claimed, next: 0, flushed: start, end: start }
    }

    /// The region that maps the segment's file.
    #[inline]
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// Notes that a version of `bytes` was written at `at`. Of the lines that get no more stores,
    /// it flushes many at a time: a locked instruction waits for the flushes before it, and the
    /// row's page is locked next.
    #[inline]
    pub(crate) fn written(&mut self, at: u64, bytes: u64) {
        let line = at & !(LINE_BYTES - 1);
        if line > self.end.next_multiple_of(LINE_BYTES) {
            self.flush();
        }
        if self.flushed == self.end {
            // Nothing was stored to the lines between the end of the last version and the start of
            // this one.
            self.flushed = line;
        }
        self.end = at + bytes;
        let full = self.end & !(LINE_BYTES - 1);
        if full >= self.flushed + FLUSHED_AT_ONCE {
            self.region.flush(self.flushed, full - self.flushed);
            self.flushed = full;
        }
    }

    /// Flushes versions that are not flushed yet.
    pub(crate) fn flush(&mut self) {
        if self.end > self.flushed {
            self.region.flush(self.flushed, self.end - self.flushed);
            self.flushed = self.end;
        }
    }

    /// Flushes the rest and frees the cells not used.
    pub(crate) fn retire(mut self) -> OpenSegment {
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

/// Marks a bulk insert as the owner of segments.
pub(crate) enum Bulk {}

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
