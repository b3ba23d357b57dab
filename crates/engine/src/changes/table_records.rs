//! The redo records of what a transaction has written to one table.

use super::target::Target;
use crate::error::Result;
use crate::files::chain;
use crate::files::context::RedoForm;
use crate::format::{Record, Rid, VERSION_HEADER, Word, delta_crc, fold_row};
use perdura_pmem::trace;
use smallvec::SmallVec;

/// Most rows of a page that are logged in records of their own: more are shorter as a delta.
const ROWS_LOGGED_SINGLY: usize = 5;

/// New words of a page's rows; those of a small commit take no heap.
type Rows = SmallVec<[(u16, Word); ROWS_LOGGED_SINGLY]>;
/// Positions of a page's deleted rows.
type Positions = SmallVec<[u16; ROWS_LOGGED_SINGLY]>;

/// The redo records of a transaction's writes to one table.
pub(super) struct TableRecords<'r> {
    target: &'r Target,
    /// Most bytes of a record.
    most: usize,
    form: RedoForm,
    add: &'r mut dyn FnMut(Record<'_>) -> Result<()>,
}

impl<'r> TableRecords<'r> {
    /// Hands records of at most `most` bytes, in the form `form`, to `add`.
    pub(super) fn new(
        target: &'r Target,
        (most, form): (usize, RedoForm),
        add: &'r mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> TableRecords<'r> {
        TableRecords { target, most, form, add }
    }

    /// Logs the rows of a page that are written singly.
    pub(super) fn page(&mut self, page: u64) -> Result<()> {
        let (mut rows, mut deleted, mut spilled) = (Rows::new(), Positions::new(), None);
        if let Some(shadow) = self.target.table.shadows().slot(page).lock_existing()
            && let Some(change) = shadow.change(&self.target.writer)
        {
            match change.after().spilled() {
                Some(place) => spilled = Some((place, change.after().len() as u16)),
                None => change.after().for_each(|position, word| rows.push((position, word))),
            }
            change.deleted().for_each(|position| deleted.push(position));
        }
        if let Some((place, rows)) = spilled {
            let (_, _, header) = self.target.table.chain().header(place, Rid::NO_ROW)?;
            (self.add)(Record::Spilled { table: self.target.table.id(), page, rows, place, crc: header.crc })?;
        }
        self.rows(page, rows)?;
        self.deleted(page, deleted)
    }

    /// Logs the new words of a page: row by row if they are few or by value, otherwise as a delta,
    /// or several where a log group is short.
    fn rows(&mut self, page: u64, rows: Rows) -> Result<()> {
        let target = self.target;
        let (table, base) = (target.table.id(), target.table.directory().page_base(page));
        let Some((last, _)) = rows.last() else { return Ok(()) };
        if self.form.is_by_value() {
            return rows.into_iter().try_for_each(|(position, word)| self.value(base + u64::from(position), word));
        }
        let room = self.most.saturating_sub(Record::delta_bytes(0, *last)) / 8;
        if rows.len() <= ROWS_LOGGED_SINGLY || room <= ROWS_LOGGED_SINGLY {
            return rows.into_iter().try_for_each(|(position, word)| {
                let row = base + u64::from(position);
                (self.add)(Record::Row {
                    table,
                    rid: Rid::new(row, word.incarnation()),
                    word,
                    crc: crc_of(target, row, word)?,
                    value: None,
                })
            });
        }
        for rows in rows.chunks(room) {
            let mut folded = 0;
            for (position, word) in rows {
                let row = base + u64::from(*position);
                folded ^= fold_row(row, crc_of(target, row, *word)?);
            }
            (self.add)(Record::Delta { table, page, rows: rows.to_vec(), crc: delta_crc(folded) })?;
        }
        Ok(())
    }

    /// Logs a row with its version, and flushes that or leaves it to the checkpoint.
    fn value(&mut self, row: u64, word: Word) -> Result<()> {
        let rid = Rid::new(row, word.incarnation());
        let (region, at, header) = self.target.table.chain().header(word, rid)?;
        // SAFETY: the version is the transaction's own until that has ended.
        let value = unsafe { chain::row(region, at, &header) };
        if self.form == RedoForm::Values {
            // Versions share lines.
            let _again = trace::span(trace::TRANSIENT);
            region.flush(at, VERSION_HEADER + u64::from(header.len));
        }
        (self.add)(Record::Row { table: self.target.table.id(), rid, word, crc: header.crc, value: Some(value.into()) })
    }

    /// Logs the rows deleted from a page: a bit each, however many they are.
    fn deleted(&mut self, page: u64, deleted: Positions) -> Result<()> {
        let target = self.target;
        let directory = target.table.directory();
        let row = |position: u16| directory.page_base(page) + u64::from(position);
        let is_short = deleted.last().is_some_and(|last| Record::delta_bytes(0, *last) > self.most);
        if deleted.len() <= ROWS_LOGGED_SINGLY || is_short {
            return deleted.into_iter().try_for_each(|position| {
                let word = directory.raw_word(row(position)).tombstone();
                let (rid, crc) = (Rid::new(row(position), word.incarnation()), crc_of(target, row(position), word)?);
                (self.add)(Record::Row { table: target.table.id(), rid, word, crc, value: None })
            });
        }
        let mut folded = 0;
        for position in &deleted {
            folded ^= fold_row(row(*position), crc_of(target, row(*position), directory.raw_word(row(*position)))?);
        }
        (self.add)(Record::Deleted { table: target.table.id(), page, rows: deleted.into_vec(), crc: delta_crc(folded) })
    }
}

/// Checksum of the version that `word` names.
fn crc_of(target: &Target, row: u64, word: Word) -> Result<u32> {
    Ok(target.table.chain().header(word, Rid::new(row, word.incarnation()))?.2.crc)
}
