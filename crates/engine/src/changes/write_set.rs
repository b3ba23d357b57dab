//! The write set of a transaction: the rows that it wrote one by one, and its bulk inserts.
//!
//! It lives in DRAM. Nothing published names the versions in it until the transaction publishes them (I4). Each row is
//! in one of the two parts: a row that a bulk insert made stays there when the transaction changes it again.

use super::bulk::{BULK_AFTER, BulkInsert, BulkMark};
use super::row_writes::{RowWrites, Write};
use crate::error::Result;
use crate::format::{RECORD_BYTES, Record, Rid, Word};
use crate::space::purge::Superseded;
use crate::table::Table;
use perdura_log::{Csn, LogTxn};
use std::ops::Range;
use std::sync::Arc;

/// A position in a write set to undo to. The default is its beginning.
#[derive(Clone, Debug, Default)]
pub struct Position {
    rows: usize,
    bulk: Vec<BulkMark>,
}

/// What a transaction made of a row.
pub struct OwnRow {
    /// Newest own version, with its flags.
    pub head: Word,
    /// Directory word before the transaction; empty if the transaction inserted the row.
    pub base: Word,
    /// The row belongs to a bulk insert.
    pub in_bulk: bool,
}

/// The write set of a transaction.
#[derive(Default)]
pub struct WriteSet {
    rows: RowWrites,
    bulk: Vec<BulkInsert>,
}

impl WriteSet {
    /// Whether the transaction has written nothing; undone writes count as well.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.bulk.is_empty()
    }

    /// Whether the transaction has written to table `table`, undone writes included.
    pub fn touches(&self, table: u32) -> bool {
        self.rows.touches(table) || self.bulk_into(table).is_some()
    }

    fn bulk_into(&self, table: u32) -> Option<&BulkInsert> {
        self.bulk.iter().find(|bulk| bulk.table().id() == table)
    }

    /// What the transaction made of a row; `None` if it never wrote the row.
    pub fn own(&self, table: u32, rid: Rid) -> Option<OwnRow> {
        if let Some(bulk) = self.bulk_into(table).filter(|bulk| bulk.owns_row(rid.row())) {
            return Some(OwnRow { head: bulk.word(rid.row()), base: Word::EMPTY, in_bulk: true });
        }
        self.rows.get(table, rid).map(|write| OwnRow { head: write.head, base: write.base, in_bulk: false })
    }

    /// Row numbers that a bulk insert has filled in directory page `page`; `None` if the page is not one of its own.
    pub fn own_page(&self, table: u32, page: u64) -> Option<Range<u64>> {
        self.bulk_into(table)?.page_rows(page)
    }

    /// The latest bulk insert, if it goes into table `table`.
    #[inline]
    pub fn running_bulk(&mut self, table: u32) -> Option<&mut BulkInsert> {
        self.bulk.last_mut().filter(|bulk| bulk.table().id() == table)
    }

    /// Whether the next insert into `table` begins or resumes a bulk insert: the transaction has made enough single
    /// inserts, and the table has no large stock of free RIDs to use up first.
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

    /// Replaces the version of a row that belongs to a bulk insert; `None` deletes the row.
    pub fn edit_bulk(&mut self, table: u32, rid: Rid, row: Option<&[u8]>, sequence: u64) -> Result<()> {
        let bulk = self.bulk.iter_mut().find(|bulk| bulk.table().id() == table);
        bulk.expect("the row is one of a bulk insert").edit(rid, row, sequence)
    }

    /// Adds the first write of a row; `base` is its committed word, `head` the new version.
    pub fn add(&mut self, table: &Arc<Table>, rid: Rid, base: Word, head: Word) {
        self.rows.add(table, rid, base, head);
    }

    /// Adds a further write of a row that has an entry.
    pub fn replace(&mut self, table: u32, rid: Rid, head: Word) {
        self.rows.replace(table, rid, head);
    }

    /// The present position.
    pub fn position(&self) -> Position {
        Position { rows: self.rows.position(), bulk: self.bulk.iter().map(BulkInsert::mark).collect() }
    }

    /// Undoes the writes since `position`, and frees what they wrote.
    pub fn undo_to(&mut self, position: &Position) {
        for (index, bulk) in self.bulk.iter_mut().enumerate() {
            bulk.rollback_to(position.bulk.get(index).copied().unwrap_or(BulkInsert::START));
        }
        while let Some(undone) = self.rows.undo_one(position.rows) {
            undone.table.space().free(undone.version);
            // Planted: the RID of an undone insert is lost.
            undone.table.space().free_rids(undone.rid.filter(|_| !perdura_pmem::planted(62)));
        }
    }

    /// Returns the pages and segments of the bulk inserts, once everything is undone and fenced.
    pub fn abandon(&mut self) {
        for bulk in self.bulk.drain(..) {
            bulk.abandon();
        }
    }

    /// Flushes what the bulk inserts have written since the last call. Returns whether that was anything; if so, the
    /// caller fences.
    pub fn flush_rest(&mut self) -> bool {
        let mut flushed = false;
        for bulk in &mut self.bulk {
            flushed |= bulk.flush_rest();
        }
        flushed
    }

    /// Brings words, checksums and links to their final state before the commit. The caller flushes the rest of the
    /// bulk inserts. Returns whether versions were flushed here; if so, the caller fences.
    pub fn settle(&mut self) -> Result<bool> {
        for bulk in &mut self.bulk {
            bulk.settle();
        }
        self.skip_replaced()
    }

    /// Links the newest version of each row written more than once to the committed version. Nobody else can have seen
    /// the versions between; they are freed when the transaction retires.
    fn skip_replaced(&self) -> Result<bool> {
        // Planted: versions link to own ones that are soon freed.
        let skips = |write: &&Write| write.versions > 1 && !write.is_nothing() && !perdura_pmem::planted(37);
        let mut relinked = false;
        for write in self.rows.entries().iter().filter(skips) {
            write.table.chain().relink(write.head, write.rid, write.base)?;
            relinked = true;
        }
        Ok(relinked)
    }

    /// Encodes the redo records into `records`. Whenever `chunk_bytes` are full, they go to the log as a chunk. Called
    /// after [`WriteSet::settle`] and a fence.
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

    /// Stores the CSN in the versions, for readers of this run. It is not flushed: after a restart nobody needs it.
    pub fn stamp(&self, csn: Csn) {
        let _unflushed = perdura_pmem::trace::span(perdura_pmem::trace::TRANSIENT);
        for write in self.rows.entries().iter().filter(|write| !write.is_nothing()) {
            if let Ok((region, at)) = write.table.chain().locate(write.head) {
                region.store(at, csn);
            }
        }
    }

    /// Publishes the write set: stores and flushes directory words and page states. The caller fences.
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

    /// Stores and flushes the page states of the bulk inserts. The caller fences.
    pub fn publish_pages(&self, csn: Csn) {
        self.bulk.iter().for_each(|bulk| bulk.publish(csn));
    }

    /// Retires the write set after publication by commit `csn`: hands superseded versions to purge, frees those that
    /// only the transaction ever saw, and counts rows. `now` is the time for reports, in seconds since 1970.
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
            // Planted: a superseded version is freed before a checkpoint covers its commit.
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

    /// Forgets all writes. Keeps the memory of a small write set for the next transaction.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.bulk.clear();
    }
}
