//! Versions that a transaction writes to one table: in shared segments at first, and in segments of
//! its own once it has written many.

use super::bulk::BULK_AFTER;
use super::own_segments::OwnSegments;
use crate::error::Result;
use crate::files::datafile::DataFile;
use crate::format::{ROW_VALUE_EXTRA, Rid, VERSION_HEADER, VersionHeader, Word};
use crate::table::Table;
use perdura_pmem::trace;

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
    /// Versions wait for the record, which may carry them.
    by_value: bool,
    /// Those in shared segments that wait for it, with their lengths: at most [`BULK_AFTER`].
    waiting: Vec<(Word, u64)>,
}

impl Versions {
    /// None so far; `by_value` says that small transactions are logged by value.
    pub(super) fn new(by_value: bool) -> Versions {
        Versions { by_value, ..Versions::default() }
    }

    /// Writes a version for `rid`, near the one that `near` names if there is room. It is flushed
    /// as soon as it is entered or discarded: a locked instruction waits for the flushes before it,
    /// and the page is locked next. One that the record may carry is not flushed before that is
    /// made.
    #[inline]
    pub(super) fn write(&mut self, table: &Table, session: u64, rid: Rid, near: Word, row: &[u8]) -> Result<Word> {
        let header = VersionHeader::new(rid, row);
        if self.written >= BULK_AFTER {
            self.written += 1;
            return self.segments.write(table, &header, row);
        }
        let bytes = VERSION_HEADER + row.len() as u64;
        let place = table.space().allocate(session, bytes, near)?;
        let word = Word::new(place.file(), place.offset(), rid.incarnation());
        self.written += 1;
        if self.by_value {
            // One that is undone before the record is never flushed.
            let _unflushed = trace::span(trace::TRANSIENT);
            table.chain().write_version(word, &header, row);
            self.waiting.push((word, bytes));
        } else {
            table.chain().write_version(word, &header, row);
            self.unflushed = Some((word, bytes));
            self.segments.note_written();
        }
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

    /// Bytes of the log that the versions take by value, those replaced or undone included; `None`
    /// if some are in segments of the transaction's own, which are fenced before the record.
    pub(super) fn value_bytes(&self) -> Option<u64> {
        let bytes = self.waiting.iter().map(|(_, bytes)| bytes + ROW_VALUE_EXTRA).sum();
        (self.by_value && !self.segments.is_used()).then_some(bytes)
    }

    /// Flushes the versions that wait for the record: it does not carry them. Places that were
    /// freed meanwhile may be others' by now, which does no harm.
    pub(super) fn flush_waiting(&mut self, table: &Table) {
        // They share lines.
        let _again = trace::span(trace::TRANSIENT);
        for (word, bytes) in self.waiting.drain(..) {
            let region = table.chain().file(word.file()).map(DataFile::region);
            if let Some(region) = region.filter(|region| word.offset() + bytes <= region.len()) {
                region.flush(word.offset(), bytes);
            }
        }
    }

    /// The transaction's own segments.
    #[inline]
    pub(super) fn segments(&mut self) -> &mut OwnSegments {
        &mut self.segments
    }
}
