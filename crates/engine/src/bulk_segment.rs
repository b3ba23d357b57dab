//! A segment in the hands of one bulk insert: cells filled from the first to the last, flushed line by line as lines fill.
//!
//! The map has all cells in use while the segment is held, so that no atomic operation is needed for a row: a locked
//! instruction would wait for the flushes before it.

use crate::format::Word;
use crate::space::OpenSegment;
use perdura_pmem::{LINE_BYTES, Region};

/// A segment being filled.
pub struct BulkSegment {
    open: OpenSegment,
    region: Region,
    /// Offset of its first cell in the file, in bytes.
    start: u64,
    cell_bytes: u64,
    next: u32,
    /// Versions before this offset of the file are flushed.
    flushed: u64,
    /// The last version ends here.
    end: u64,
}

impl BulkSegment {
    /// Takes over a fresh segment that begins at `start` of `region`.
    pub fn new(open: OpenSegment, region: Region, start: u64) -> BulkSegment {
        open.cells.claim_all();
        let cell_bytes = open.cells.cell_offset(1);
        BulkSegment { open, region, start, cell_bytes, next: 0, flushed: start, end: start }
    }

    /// Units of its cells.
    pub fn units(&self) -> u32 {
        self.open.cells.units()
    }

    /// The next cell, if there is one.
    #[inline]
    pub fn claim(&mut self) -> Option<Word> {
        if self.next == self.open.cells.count() {
            return None;
        }
        self.next += 1;
        Some(Word::new(self.open.id.file, self.start + u64::from(self.next - 1) * self.cell_bytes, 0))
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
        self.open.cells.free_from(self.next);
        self.open
    }
}
