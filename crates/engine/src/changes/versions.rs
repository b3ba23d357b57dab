//! Versions that a transaction writes to one table: in shared segments at first, and in segments of
//! its own once it has written many.

use super::bulk::BULK_AFTER;
use super::own_segments::OwnSegments;
use crate::error::Result;
use crate::format::{Rid, VERSION_HEADER, VersionHeader, Word};
use crate::table::Table;

/// Versions that a transaction writes between two looks at what waits for purge.
const VERSIONS_PER_LOOK: u64 = 256;
/// Row changes that may wait for purge: so many, or one of so many rows of the table.
const LAG_MIN: u64 = 1024;
const LAG_SHARE: u64 = 128;

/// Versions that a transaction writes to one table.
#[derive(Default)]
pub(super) struct Versions {
    segments: OwnSegments,
    /// Versions written, those of bulk inserts apart.
    written: u64,
    /// The version written last, with its length, until it is flushed.
    unflushed: Option<(Word, u64)>,
}

impl Versions {
    /// Writes a version for `rid`. It is flushed as soon as it is entered or discarded: a locked
    /// instruction waits for the flushes before it, and the page is locked next.
    #[inline]
    pub(super) fn write(&mut self, table: &Table, session: u64, rid: Rid, row: &[u8]) -> Result<Word> {
        let header = VersionHeader::new(rid, row);
        if self.written >= BULK_AFTER {
            self.written += 1;
            return self.segments.write(table, &header, row);
        }
        let bytes = VERSION_HEADER + row.len() as u64;
        let place = table.space().allocate(session, bytes)?;
        let word = Word::new(place.file(), place.offset(), rid.incarnation());
        table.chain().write_version(word, &header, row);
        self.unflushed = Some((word, bytes));
        self.segments.note_written();
        self.written += 1;
        Ok(word)
    }

    /// Whether the transaction writes so many versions that it is to look, before the next one,
    /// whether old ones wait for purge in its way: at the first in a segment of its own, and then
    /// now and then.
    #[inline]
    pub(super) fn is_purge_due(&self, table: &Table) -> bool {
        self.written % VERSIONS_PER_LOOK == BULK_AFTER
            && table.purge_lag() as u64 > LAG_MIN.max(table.row_count_estimate() / LAG_SHARE)
    }

    /// Flushes the version written last, if it is in a shared segment.
    #[inline]
    pub(super) fn flush_last(&mut self, table: &Table) {
        if let Some((word, bytes)) = self.unflushed.take() {
            let region = table.chain().file(word.file()).expect("allocated in a file of the chain").region();
            region.flush(word.offset(), bytes);
        }
    }

    /// The transaction's own segments.
    #[inline]
    pub(super) fn segments(&mut self) -> &mut OwnSegments {
        &mut self.segments
    }
}
