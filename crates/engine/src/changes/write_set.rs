//! The write set of a transaction: the rows it wrote one by one, and its bulk inserts.
//!
//! DRAM only. Until the transaction is published nothing persistent names its versions (I4). A row is in one of the two: what a
//! bulk insert made and changed again stays with the bulk insert.

use super::bulk::{BULK_AFTER, BulkInsert, BulkMark};
use super::row_writes::RowWrites;
use crate::error::Result;
use crate::format::{RECORD_BYTES, Record, Rid, Word};
use crate::space::purge::Superseded;
use crate::table::Table;
use perdura_log::{Csn, LogTxn};
use std::ops::Range;
use std::sync::Arc;

/// A position in a write set, to go back to. The default is its beginning.
#[derive(Clone, Debug, Default)]
pub struct Position {
    rows: usize,
    bulk: Vec<BulkMark>,
}

/// A row that is in a write set.
pub struct OwnRow {
    /// Newest own version, with its flags.
    pub head: Word,
    /// Committed word before the transaction; empty for its own insert.
    pub base: Word,
    /// A bulk insert made the row.
    pub in_bulk: bool,
}

/// A write set.
#[derive(Default)]
pub struct WriteSet {
    rows: RowWrites,
    bulk: Vec<BulkInsert>,
}

impl WriteSet {
    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.bulk.is_empty()
    }

    /// Whether any row of `table` is in it.
    pub fn touches(&self, table: u32) -> bool {
        self.rows.touches(table) || self.bulk_into(table).is_some()
    }

    fn bulk_into(&self, table: u32) -> Option<&BulkInsert> {
        self.bulk.iter().find(|bulk| bulk.table().id() == table)
    }

    /// What the transaction made of a row, if it wrote the row.
    pub fn own(&self, table: u32, rid: Rid) -> Option<OwnRow> {
        if let Some(bulk) = self.bulk_into(table).filter(|bulk| bulk.owns_row(rid.row())) {
            return Some(OwnRow { head: bulk.word(rid.row()), base: Word::EMPTY, in_bulk: true });
        }
        self.rows.get(table, rid).map(|write| OwnRow { head: write.head, base: write.base, in_bulk: false })
    }

    /// Rows that a bulk insert has in a page of the directory, if the page is one of its own.
    pub fn own_page(&self, table: u32, page: u64) -> Option<Range<u64>> {
        self.bulk_into(table)?.page_rows(page)
    }

    /// The bulk insert that the transaction is in the middle of, if it is into `table`.
    #[inline]
    pub fn running_bulk(&mut self, table: u32) -> Option<&mut BulkInsert> {
        self.bulk.last_mut().filter(|bulk| bulk.table().id() == table)
    }

    /// Whether the next insert into `table` is to begin or resume a bulk insert.
    pub fn is_bulk_due(&self, table: &Table) -> bool {
        self.rows.inserts(table.id()) >= BULK_AFTER && !table.space().has_many_free_rids()
    }

    /// The bulk insert into `table`, begun now if there is none.
    pub fn bulk(&mut self, table: &Arc<Table>) -> &mut BulkInsert {
        let position = self.bulk.iter().position(|bulk| bulk.table().id() == table.id()).unwrap_or_else(|| {
            self.bulk.push(BulkInsert::new(table.clone()));
            self.bulk.len() - 1
        });
        &mut self.bulk[position]
    }

    /// Replaces the version of a row that a bulk insert made; `None` deletes the row.
    pub fn edit_bulk(&mut self, table: u32, rid: Rid, row: Option<&[u8]>, sequence: u64) -> Result<()> {
        let bulk = self.bulk.iter_mut().find(|bulk| bulk.table().id() == table);
        bulk.expect("the row is one of a bulk insert").edit(rid, row, sequence)
    }

    /// Adds the first write of a row.
    pub fn add(&mut self, table: &Arc<Table>, rid: Rid, base: Word, head: Word) {
        self.rows.add(table, rid, base, head);
    }

    /// Adds a further write of a row that was added.
    pub fn replace(&mut self, table: u32, rid: Rid, head: Word) {
        self.rows.replace(table, rid, head);
    }

    /// Where it stands.
    pub fn position(&self) -> Position {
        Position { rows: self.rows.position(), bulk: self.bulk.iter().map(BulkInsert::mark).collect() }
    }

    /// Takes back what was written since `position`, and frees it.
    pub fn undo_to(&mut self, position: &Position) {
        for (index, bulk) in self.bulk.iter_mut().enumerate() {
            bulk.rollback_to(position.bulk.get(index).copied().unwrap_or(BulkInsert::START));
        }
        while let Some(undone) = self.rows.undo_one(position.rows) {
            undone.table.space().free(undone.version);
            // Planted: the RID of an insert that was taken back is lost.
            undone.table.space().free_rids(undone.rid.filter(|_| !perdura_pmem::planted(62)));
        }
    }

    /// After everything was undone and fenced: gives back pages and segments of the bulk inserts.
    pub fn abandon(&mut self) {
        for bulk in self.bulk.drain(..) {
            bulk.abandon();
        }
    }

    /// Flushes what the bulk inserts wrote since the last time; whether that was anything, which the caller fences.
    pub fn flush_rest(&mut self) -> bool {
        let mut flushed = false;
        for bulk in &mut self.bulk {
            flushed |= bulk.flush_rest();
        }
        flushed
    }

    /// Before the commit: brings words, checksums and links to their last state. The caller flushes the rest; whether rows were
    /// flushed, which it fences as well.
    pub fn settle(&mut self) -> Result<bool> {
        for bulk in &mut self.bulk {
            bulk.settle();
        }
        self.skip_replaced()
    }

    /// Links rows written more than once to their committed version: the versions between were seen by nobody else, and are soon free.
    fn skip_replaced(&self) -> Result<bool> {
        // Planted: versions lead to own ones that are soon free.
        let skips =
            |write: &&super::row_writes::Write| write.versions > 1 && !write.is_nothing() && !perdura_pmem::planted(37);
        let mut relinked = false;
        for write in self.rows.entries().iter().filter(skips) {
            write.table.chain().relink(write.head, write.rid, write.base)?;
            relinked = true;
        }
        Ok(relinked)
    }

    /// Encodes the redo records into `records`; chunks of `chunk_bytes` that are full go to the log. After [`WriteSet::settle`] and a
    /// fence.
    pub fn log(&self, records: &mut Vec<u8>, log: &mut LogTxn, chunk_bytes: usize) -> Result<()> {
        records.clear();
        let mut add = |record: Record| -> Result<()> {
            if records.len() + RECORD_BYTES > chunk_bytes {
                log.append_chunk(records)?;
                records.clear();
            }
            records.extend_from_slice(&record.encode());
            Ok(())
        };
        for write in self.rows.entries().iter().filter(|write| !write.is_nothing()) {
            let (_, _, header) = write.table.chain().header(write.head, write.rid)?;
            add(Record::Row { table: write.table.id(), rid: write.rid, word: write.head, crc: header.crc })?;
        }
        for record in self.bulk.iter().flat_map(BulkInsert::records) {
            add(record)?;
        }
        Ok(())
    }

    /// Stores the CSN into the versions for readers of this run. Not flushed: after a restart nobody needs it.
    pub fn stamp(&self, csn: Csn) {
        let _unflushed = perdura_pmem::trace::span(perdura_pmem::trace::TRANSIENT);
        for write in self.rows.entries().iter().filter(|write| !write.is_nothing()) {
            if let Ok((region, at)) = write.table.chain().locate(write.head) {
                region.store(at, csn);
            }
        }
    }

    /// Names the versions in the row directory, flushed but not fenced.
    pub fn publish(&mut self, csn: Csn) {
        for write in self.rows.entries().iter().filter(|write| !write.is_nothing()) {
            let row = write.rid.row();
            write.table.directory().store(row, write.head);
            write.table.directory().flush(row);
        }
        for bulk in &mut self.bulk {
            bulk.collect_holes();
        }
        self.publish_pages(csn);
    }

    /// Publishes the pages of the bulk inserts, flushed but not fenced.
    pub fn publish_pages(&self, csn: Csn) {
        self.bulk.iter().for_each(|bulk| bulk.publish(csn));
    }

    /// After publication: hands replaced versions to purge, frees those nobody but the transaction ever saw, and counts rows. `now` is
    /// the time for reports, in seconds.
    pub fn retire(&mut self, csn: Csn, now: u64) {
        for (write, version) in self.rows.replaced() {
            write.table.space().free(version);
        }
        for write in self.rows.entries().iter().filter(|write| !write.void) {
            let space = write.table.space();
            if write.is_nothing() {
                space.free(write.head);
                space.free_rids([write.rid]);
                continue;
            }
            // Planted: what a commit replaced may go before the commit is covered.
            let csn = if perdura_pmem::planted(36) { csn - 1 } else { csn };
            write.table.set_changed(now);
            let was_row = !write.base.is_empty();
            let is_row = !write.head.is_tombstone();
            write.table.count_rows(i64::from(is_row) - i64::from(was_row));
            let replaced = was_row.then_some(Superseded { csn, rid: write.rid, word: write.base });
            let deletion = (!is_row).then_some(Superseded { csn, rid: write.rid, word: write.head });
            space.supersede(replaced.into_iter().chain(deletion));
        }
        for bulk in self.bulk.drain(..) {
            bulk.table().set_changed(now);
            bulk.table().count_rows(bulk.rows());
            bulk.finish();
        }
    }

    /// Forgets everything, keeping memory for the next transaction within reason.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.bulk.clear();
    }
}
