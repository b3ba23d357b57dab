//! Writes of a transaction to one table.
//!
//! Each row is in the shadow of its page, in the change that bears the transaction's name; here are
//! the numbers of those pages, and in which step each was first written, so that undo finds what it
//! looks for.

mod ending;
mod rows;
mod undo;

use super::bulk::{BULK_AFTER, BulkInsert, BulkMark};
use super::index_writes::{EntryWriter, IndexWrites};
use super::memory::Memory;
use super::row_request::Step;
use super::spill;
use super::target::Target;
use super::touched::Touched;
use super::versions::Versions;
use crate::error::Result;
use crate::format::{CATALOG_ID, Rid, Word};
use crate::index::redo::LeafRecord;
use crate::shadow::step_rows::StepRows;
use crate::shadow::writer::Writer;
use crate::space::purge::Retired;
use crate::space::segments::LastSwept;
use crate::table::Table;
use std::ops::Range;
use std::sync::Arc;

/// Writes of a transaction to one table.
pub(crate) struct TableWrites {
    target: Target,
    touched: Touched,
    bulk: Option<BulkInsert>,
    versions: Versions,
    /// Single inserts, undone ones included, refused ones not.
    inserts: u64,
    /// Some row was written twice, or inserted and deleted.
    rewritten: bool,
    swept: LastSwept,
    /// Versions for purge once the commit is reported as stored.
    retired: Retired,
    /// RIDs of undone inserts that others wait for, because of keys: they are locked until the
    /// transaction ends.
    waited_for: Vec<Rid>,
    /// Changes of indexes.
    keys: IndexWrites,
    /// Rows of the snapshot in whose place own rows are: another transaction has deleted them
    /// since, or moved them to another key, and an own row has their primary key. There are no
    /// more than keys that the transaction has inserted.
    hidden: StepRows,
    /// Rows written over a version that is newer than the snapshot.
    ahead: StepRows,
}

impl TableWrites {
    /// Nothing written to `table` so far.
    pub(crate) fn new(table: Arc<Table>, writer: Arc<Writer>) -> TableWrites {
        let mut touched = Touched::default();
        if writer.moves() {
            touched.set_admitted();
        }
        // DDL relies on the fence before the record of its catalog row (I3).
        let by_value = table.chain().context().redo_form.is_by_value() && table.id() != CATALOG_ID;
        TableWrites {
            target: Target { table, writer },
            touched,
            bulk: None,
            versions: Versions::new(by_value),
            inserts: 0,
            rewritten: false,
            swept: LastSwept::default(),
            retired: Retired::default(),
            waited_for: Vec::new(),
            keys: IndexWrites::new(by_value),
            hidden: StepRows::default(),
            ahead: StepRows::default(),
        }
    }

    /// The table.
    #[inline]
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.target.table
    }

    /// The bulk insert, if it is running.
    #[inline]
    pub(crate) fn bulk_insert(&mut self, row: &[u8]) -> Option<Result<Rid>> {
        Some(self.bulk.as_mut()?.insert(self.versions.segments(), row))
    }

    /// Rows inserted, undone ones included.
    pub(crate) fn inserted(&self) -> u64 {
        self.inserts + self.bulk.as_ref().map_or(0, |bulk| bulk.rows().max(0) as u64)
    }

    /// Whether the next insert begins a bulk insert: the transaction has made enough single
    /// inserts, and the table has no large stock of free RIDs to use up first.
    pub(crate) fn is_bulk_due(&self) -> bool {
        self.bulk.is_none() && self.inserts >= BULK_AFTER && !self.target.table.space().has_many_free_rids()
    }

    /// The bulk insert, begun now if there is none.
    pub(crate) fn begin_bulk(&mut self) -> &mut BulkInsert {
        self.bulk.get_or_insert_with(|| BulkInsert::new(self.target.table.clone(), self.target.writer.clone()))
    }

    /// Whether the row belongs to the bulk insert.
    pub(crate) fn is_in_bulk(&self, rid: Rid) -> bool {
        self.bulk.as_ref().is_some_and(|bulk| bulk.owns_row(rid.row()))
    }

    /// Whether the transaction is known as a writer of the table.
    #[inline]
    pub(crate) fn is_admitted(&self) -> bool {
        self.touched.is_admitted()
    }

    /// Notes that the transaction has locked the table for its writes.
    pub(crate) fn set_admitted(&mut self) {
        self.touched.set_admitted();
    }

    /// Its DRAM.
    #[inline]
    pub(crate) fn memory(&self) -> &Memory {
        &self.touched.memory
    }

    /// DRAM of what was done to indexes.
    #[inline]
    pub(crate) fn leaf_bytes(&self) -> usize {
        self.keys.bytes() + self.hidden.bytes() + self.ahead.bytes()
    }

    /// Bytes of the log that words in DRAM take at least.
    pub(crate) fn logged(&self) -> usize {
        self.touched.memory.logged()
    }

    /// Frees a version that was written and not entered.
    pub(crate) fn discard(&mut self, word: Option<Word>) {
        self.versions.flush_last(&self.target.table);
        self.target.table.space().free_all(word);
    }

    /// Replaces the version of a row of the bulk insert; `None` deletes the row.
    pub(crate) fn edit_bulk(&mut self, rid: Rid, row: Option<&[u8]>, at: Step) -> Result<()> {
        let step = at.step;
        self.note_rows(step);
        let page = self.target.table.directory().page_of(rid.row());
        self.touched.note(step, page);
        self.bulk.as_mut().expect("the row is one of a bulk insert").edit(self.versions.segments(), rid, row, at)
    }

    /// Notes the rows of the bulk insert as written in step `step`; called before anybody takes a
    /// position.
    pub(crate) fn note_rows(&mut self, step: u64) {
        let pages = self.bulk.as_mut().map(|bulk| bulk.note_rows(step)).unwrap_or_default();
        pages.into_iter().for_each(|page| self.touched.note(step, page));
    }

    /// Forgets what nobody can go back to, up to step `floor`.
    pub(crate) fn forget_below(&mut self, floor: u64) {
        self.touched.forget_below(floor);
        self.keys.forget_below(floor);
    }

    /// Whether a bulk insert is running.
    #[inline]
    pub(crate) fn has_bulk(&self) -> bool {
        self.bulk.is_some()
    }

    /// The present position in the bulk insert.
    pub(crate) fn mark(&self) -> BulkMark {
        self.bulk.as_ref().map(BulkInsert::mark).unwrap_or_default()
    }

    /// Writes a version for `rid`, into a segment of the transaction's own once it has written
    /// many.
    #[inline]
    pub(crate) fn write_version(&mut self, session: u64, rid: Rid, near: Word, row: &[u8]) -> Result<Word> {
        self.versions.write(&self.target.table, session, rid, near, row)
    }

    /// Whether the transaction is to look for old versions that wait for purge before it writes the
    /// next one.
    #[inline]
    pub(crate) fn is_purge_due(&self) -> bool {
        self.versions.is_purge_due(&self.target.table)
    }

    /// Spills words to the medium, those written first before others, until the words left take no
    /// more than `most` bytes of DRAM or nothing is left to spill. The caller's next fence covers
    /// what is spilled.
    pub(crate) fn spill(&mut self, most: usize) -> Result<()> {
        spill::spill(&self.target, &mut self.touched, self.versions.segments(), most)
    }

    /// Changes entries of the table's indexes.
    pub(crate) fn entries(&mut self) -> EntryWriter<'_> {
        EntryWriter::new(&self.target, &mut self.keys)
    }

    /// Gives a prepared transaction the changes of a leaf back that a record of it names.
    pub(crate) fn restore_leaf(&mut self, record: &LeafRecord) -> Result<()> {
        self.keys.restore(&self.target, record)
    }

    /// Rows of the snapshot that are hidden.
    pub(crate) fn hidden(&mut self) -> &mut StepRows {
        &mut self.hidden
    }

    /// Forgets which rows were written over a version newer than the snapshot.
    pub(crate) fn forget_ahead(&mut self) {
        if !self.ahead.is_empty() {
            self.ahead = StepRows::default();
        }
    }

    /// Rows written over a version that is newer than the snapshot.
    pub(crate) fn ahead(&self) -> &StepRows {
        &self.ahead
    }

    /// Rows of a range that are hidden from a read that sees the steps up to `seen`.
    pub(crate) fn hidden_within(&self, rows: Range<u64>, seen: u64) -> impl Iterator<Item = u64> {
        self.hidden.within(rows).filter(move |row| self.hides(*row, seen))
    }
}
