//! The redo records of what a transaction has written to one table.

use super::bulk::BulkInsert;
use super::table_writes::TableWrites;
use crate::error::Result;
use crate::format::{Record, Rid, Word, delta_crc, fold_row};
use smallvec::SmallVec;

/// Most rows of a page that are logged in records of their own: more are shorter as a delta.
const ROWS_LOGGED_SINGLY: usize = 5;

/// New words of a page's rows; those of a small commit take no heap.
type Rows = SmallVec<[(u16, Word); ROWS_LOGGED_SINGLY]>;
/// Positions of a page's deleted rows.
type Positions = SmallVec<[u16; ROWS_LOGGED_SINGLY]>;

impl TableWrites {
    /// Hands the redo records to `add`, none of more than `most` bytes. Called after
    /// [`TableWrites::settle`] and a fence.
    pub fn log(&self, most: usize, add: &mut dyn FnMut(Record) -> Result<()>) -> Result<()> {
        for page in self.touched.pages() {
            let (mut rows, mut deleted, mut spilled) = (Rows::new(), Positions::new(), None);
            if let Some(shadow) = self.table.shadows().slot(page).lock_existing()
                && let Some(change) = shadow.change(&self.writer)
            {
                match change.after().spilled() {
                    Some(place) => spilled = Some((place, change.after().len() as u16)),
                    None => change.after().for_each(|position, word| rows.push((position, word))),
                }
                change.deleted().for_each(|position| deleted.push(position));
            }
            if let Some((place, rows)) = spilled {
                let (_, _, header) = self.table.chain().header(place, Rid::NO_ROW)?;
                add(Record::Spilled { table: self.table.id(), page, rows, place, crc: header.crc })?;
            }
            self.log_page(page, rows, most, add)?;
            self.log_deleted(page, deleted, most, add)?;
        }
        self.bulk.iter().flat_map(BulkInsert::records).try_for_each(&mut *add)?;
        if self.leaves.is_empty() { Ok(()) } else { self.log_leaves(add) }
    }

    /// Logs the new words of a page: row by row if they are few, otherwise as a delta, or several
    /// where a log group is short.
    fn log_page(&self, page: u64, rows: Rows, most: usize, add: &mut dyn FnMut(Record) -> Result<()>) -> Result<()> {
        let (table, base) = (self.table.id(), self.table.directory().page_base(page));
        let Some((last, _)) = rows.last() else { return Ok(()) };
        let room = most.saturating_sub(Record::delta_bytes(0, *last)) / 8;
        if rows.len() <= ROWS_LOGGED_SINGLY || room <= ROWS_LOGGED_SINGLY {
            return rows.into_iter().try_for_each(|(position, word)| {
                let row = base + u64::from(position);
                add(Record::Row { table, rid: Rid::new(row, word.incarnation()), word, crc: self.crc_of(row, word)? })
            });
        }
        for rows in rows.chunks(room) {
            let mut folded = 0;
            for (position, word) in rows {
                let row = base + u64::from(*position);
                folded ^= fold_row(row, self.crc_of(row, *word)?);
            }
            add(Record::Delta { table, page, rows: rows.to_vec(), crc: delta_crc(folded) })?;
        }
        Ok(())
    }

    /// Logs the rows deleted from a page: a bit each, however many they are.
    fn log_deleted(
        &self,
        page: u64,
        deleted: Positions,
        most: usize,
        add: &mut dyn FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        let directory = self.table.directory();
        let row = |position: u16| directory.page_base(page) + u64::from(position);
        let is_short = deleted.last().is_some_and(|last| Record::delta_bytes(0, *last) > most);
        if deleted.len() <= ROWS_LOGGED_SINGLY || is_short {
            return deleted.into_iter().try_for_each(|position| {
                let word = directory.raw_word(row(position)).tombstone();
                let (rid, crc) = (Rid::new(row(position), word.incarnation()), self.crc_of(row(position), word)?);
                add(Record::Row { table: self.table.id(), rid, word, crc })
            });
        }
        let mut folded = 0;
        for position in &deleted {
            folded ^= fold_row(row(*position), self.crc_of(row(*position), directory.raw_word(row(*position)))?);
        }
        add(Record::Deleted { table: self.table.id(), page, rows: deleted.into_vec(), crc: delta_crc(folded) })
    }

    /// Checksum of the version that `word` names.
    fn crc_of(&self, row: u64, word: Word) -> Result<u32> {
        Ok(self.table.chain().header(word, Rid::new(row, word.incarnation()))?.2.crc)
    }
}
