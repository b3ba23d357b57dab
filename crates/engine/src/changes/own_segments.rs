//! Segments of a table that one transaction fills alone. Versions go there without a locked
//! instruction each, and each line is flushed once.

use crate::error::Result;
use crate::files::cells;
use crate::files::chain::write_at;
use crate::format::{Rid, SpilledPage, VERSION_HEADER, VersionHeader, Word};
use crate::space::bulk_segment::Bulk;
use crate::space::open_cells::OpenSet;
use crate::table::Table;

/// A transaction's own segments in one table.
#[derive(Default)]
pub(crate) struct OwnSegments {
    open: OpenSet<Bulk>,
    /// Something was written since the last [`OwnSegments::flush_rest`].
    written: bool,
    /// Something was ever written.
    used: bool,
}

impl OwnSegments {
    /// Writes a version, with incarnation and row of `header`, and flushes the lines that are full.
    /// A version that is too large for a cell gets an extent and is flushed whole.
    #[inline]
    pub(crate) fn write(&mut self, table: &Table, header: &VersionHeader, row: &[u8]) -> Result<Word> {
        let word = self.put(table, header, row, 0)?;
        Ok(Word::new(word.file(), word.offset(), header.rid.incarnation()))
    }

    /// Writes a spilled page as a version of no row, in a place with room for as many words again.
    /// Returns its word.
    pub(crate) fn spill(&mut self, table: &Table, page: &SpilledPage) -> Result<Word> {
        let content = page.encode();
        self.put(table, &VersionHeader::new(Rid::NO_ROW, &content), &content, page.rows.len() as u64 * 8)
    }

    /// Writes a version with `room` bytes behind it.
    #[inline]
    fn put(&mut self, table: &Table, header: &VersionHeader, row: &[u8], room: u64) -> Result<Word> {
        let bytes = VERSION_HEADER + row.len() as u64;
        (self.written, self.used) = (true, true);
        let Some(units) = cells::class_for(bytes + room, table.chain().segment_bytes()) else {
            let word = table.space().segments().take_extent(bytes + room)?;
            let (region, at) = table.chain().write_version(word, header, row);
            region.flush(at, bytes);
            return Ok(word);
        };
        let (word, segment) = self.open.claim(table.space().segments(), units)?;
        write_at(segment.region(), word.offset(), header, row);
        segment.written(word.offset(), bytes);
        Ok(word)
    }

    /// Writes a version once more, into a cell that is free already and no larger than the one at
    /// `from`. Returns `None` if there is none: no segment is taken into use.
    pub(crate) fn rewrite(&mut self, table: &Table, header: &VersionHeader, row: &[u8], from: Word) -> Option<Word> {
        let bytes = VERSION_HEADER + row.len() as u64;
        let segments = table.space().segments();
        let largest = segments.cell_units(from)?;
        let class = cells::class_for(bytes, table.chain().segment_bytes())?;
        let (word, segment) = self.open.claim_offered(segments, class..=largest)?;
        (self.written, self.used) = (true, true);
        write_at(segment.region(), word.offset(), header, row);
        segment.written(word.offset(), bytes);
        Some(Word::new(word.file(), word.offset(), header.rid.incarnation()))
    }

    /// Notes that the caller has stored something else that [`OwnSegments::flush_rest`] must
    /// report.
    pub(crate) fn note_written(&mut self) {
        self.written = true;
    }

    /// Whether the transaction has written anything there.
    pub(crate) fn is_used(&self) -> bool {
        self.used
    }

    /// Flushes what is not flushed yet. Returns whether anything was written since the last call.
    pub(crate) fn flush_rest(&mut self) -> bool {
        if !std::mem::take(&mut self.written) {
            return false;
        }
        for segment in self.open.iter_mut() {
            segment.flush();
        }
        true
    }

    /// Returns the segments, with the cells that were not used, to the table's allocator.
    pub(crate) fn release(&mut self, table: &Table) {
        self.open.close_all(table.space().segments());
    }
}
