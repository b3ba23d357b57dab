//! The write set of a transaction: table by table, what it has locked and written.
//!
//! It lives in DRAM, by page: some 10 bytes a row updated, a bit a row deleted or locked. Nothing
//! published names the versions in it until the transaction publishes them (I4). Writes are
//! numbered by *steps*. Whoever takes a position ends the present step: a scan sees the steps
//! before it, a rollback undoes those after.

use super::bulk::BulkMark;
use super::deferred_flush::DeferredFlush;
use super::row_request::Step;
use super::table_writes::TableWrites;
use crate::error::Result;
use crate::files::context::RedoForm;
use crate::format::{Record, Rid, Word};
use crate::index::redo::LeafRecord;
use crate::shadow::change::Own;
use crate::shadow::page::OwnView;
use crate::shadow::row_set::RowSet;
use crate::shadow::step_rows::StepRows;
use crate::shadow::writer::Writer;
use crate::table::Table;
use perdura_log::{Csn, LogTxn};
use perdura_pmem::Mutant;
use smallvec::SmallVec;
use std::sync::Arc;

/// A position in a write set to undo to. The default is its beginning.
#[derive(Clone, Debug, Default)]
pub(crate) struct Position {
    /// Last step before it.
    step: u64,
    bulk: SmallVec<[BulkMark; 2]>,
}

impl Position {
    /// Last step before the position.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }
}

/// The write set of a transaction.
#[derive(Default)]
pub(crate) struct WriteSet {
    writer: Option<Arc<Writer>>,
    tables: Vec<TableWrites>,
    /// The present step.
    step: u64,
    /// Something was written in the present step.
    in_step: bool,
    /// The oldest position that anybody can still go back to.
    floor: u64,
    /// Something was written, if only to be undone.
    written: bool,
    /// Rows of the snapshot may be hidden.
    hides: bool,
}

impl WriteSet {
    /// Whether the transaction has written nothing; undone writes count as well.
    pub(crate) fn is_empty(&self) -> bool {
        !self.written
    }

    /// The transaction as others meet it; `owner` is the owner of its locks.
    pub(crate) fn writer(&mut self, owner: u64) -> &Arc<Writer> {
        self.writer.get_or_insert_with(|| Arc::new(Writer::new(owner)))
    }

    /// Begins a transaction that only moves rows; `owner` is the owner of its locks.
    pub(crate) fn begin_moving(&mut self, owner: u64) {
        self.writer = Some(Arc::new(Writer::mover(owner)));
    }

    /// Whether the transaction only moves rows.
    pub(crate) fn moves(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| writer.moves())
    }

    /// The transaction as others meet it, if it has locked or written anything.
    pub(crate) fn known_writer(&self) -> Option<&Arc<Writer>> {
        self.writer.as_ref()
    }

    /// View of the transaction's own writes to `table` up to step `seen`; `None` if it has none.
    pub(crate) fn view(&self, table: u32, seen: u64) -> Option<OwnView<'_>> {
        self.writes_of(table)?;
        Some(OwnView { writer: self.writer.as_ref()?, seen })
    }

    /// Whether the transaction has locked or written rows of table `table`, undone writes included.
    pub(crate) fn touches(&self, table: u32) -> bool {
        self.writes_of(table).is_some()
    }

    /// Whether the transaction is known as a writer of table `table` to those who read it as a
    /// whole.
    pub(crate) fn is_admitted(&self, table: u32) -> bool {
        self.writes_of(table).is_some_and(TableWrites::is_admitted)
    }

    /// Whether the transaction has written to a table.
    #[inline]
    pub(crate) fn has_table(&self, table: u32) -> bool {
        self.writes_of(table).is_some()
    }

    #[inline]
    fn writes_of(&self, table: u32) -> Option<&TableWrites> {
        self.tables.iter().find(|writes| writes.table().id() == table)
    }

    /// Writes of the transaction to `table`.
    #[inline]
    pub(crate) fn table(&mut self, table: &Arc<Table>, owner: u64) -> &mut TableWrites {
        let index = match self.tables.last() {
            // Most writes are to the table of the one before.
            Some(last) if Arc::ptr_eq(last.table(), table) => self.tables.len() - 1,
            _ => self.index_or_new(table, owner),
        };
        &mut self.tables[index]
    }

    /// Index of what the transaction has done to `table`, begun now if there is nothing.
    #[inline(never)]
    fn index_or_new(&mut self, table: &Arc<Table>, owner: u64) -> usize {
        let known = self.tables.iter().rposition(|writes| writes.table().id() == table.id());
        known.unwrap_or_else(|| {
            let writer = self.writer(owner).clone();
            self.tables.push(TableWrites::new(table.clone(), writer));
            self.tables.len() - 1
        })
    }

    /// Writes of the transaction to `table`, for a write in the present step.
    #[inline]
    pub(crate) fn table_to_write(&mut self, table: &Arc<Table>, owner: u64) -> (&mut TableWrites, Step) {
        if !self.in_step {
            self.step += 1;
            self.in_step = true;
        }
        let at = Step { step: self.step, floor: self.floor };
        (self.table(table, owner), at)
    }

    /// Notes that a write has succeeded.
    #[inline]
    pub(crate) fn note_written(&mut self) {
        self.written = true;
    }

    /// Whether the write set takes more than `most` bytes of DRAM, and enough of that for words
    /// that can be spilled.
    #[inline]
    pub(crate) fn is_over(&self, most: usize) -> bool {
        let (mut bytes, mut words) = (0, 0);
        for memory in self.tables.iter().map(TableWrites::memory) {
            bytes += memory.bytes();
            words += memory.word_bytes();
        }
        bytes += self.leaf_bytes();
        bytes > most && words > most / 4
    }

    /// Estimated DRAM, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.tables.iter().map(|writes| writes.memory().bytes()).sum::<usize>() + self.leaf_bytes()
    }

    /// Estimated DRAM of what was done to indexes, in bytes.
    fn leaf_bytes(&self) -> usize {
        self.tables.iter().map(TableWrites::leaf_bytes).sum()
    }

    /// Bytes of the log that words in DRAM take at least.
    pub(crate) fn logged(&self) -> usize {
        self.tables.iter().map(TableWrites::logged).sum()
    }

    /// Spills words to the medium until those left take no more than `most` bytes of DRAM, or
    /// nothing is left to spill. The next fence of this thread covers what is spilled.
    ///
    /// # Errors
    /// DeviceFull, TableFull.
    pub(crate) fn spill(&mut self, most: usize) -> Result<()> {
        let share = most / self.tables.len().max(1);
        self.tables.iter_mut().try_for_each(|writes| writes.spill(share))
    }

    /// The transaction's own version of a row; `None` if it never wrote the row.
    pub(crate) fn own(&self, table: u32, rid: Rid) -> Option<Own> {
        self.writes_of(table)?.own(rid)
    }

    /// The own state of a row as of the end of step `seen`; `None` if the committed row counts.
    pub(crate) fn own_at(&self, table: u32, rid: Rid, seen: u64) -> Option<Own> {
        self.writes_of(table)?.own_at(rid, seen)
    }

    /// Hides a row of the snapshot from consistent reads, in the present step: an own row has its
    /// primary key. Returns false if it was hidden already.
    pub(crate) fn hide(&mut self, table: &Arc<Table>, owner: u64, row: u64, at: Step) -> bool {
        self.hides = true;
        self.table(table, owner).hidden().add(row, at.step)
    }

    /// Shows a row of the snapshot again that the present step has hidden.
    pub(crate) fn show(&mut self, table: &Arc<Table>, owner: u64, row: u64) {
        self.table(table, owner).hidden().remove(row);
    }

    /// Estimated number of rows of a table: those that are committed, and those that the
    /// transaction has inserted, undone ones included.
    pub(crate) fn row_count_estimate(&self, table: &Table) -> u64 {
        table.row_count_estimate() + self.writes_of(table.id()).map_or(0, TableWrites::inserted)
    }

    /// Forgets which rows were written over versions newer than the snapshot: the next one is newer
    /// than those.
    pub(crate) fn forget_ahead(&mut self) {
        self.tables.iter_mut().for_each(TableWrites::forget_ahead);
    }

    /// Rows of table `table` that were written over a version newer than the snapshot; `None` if
    /// there are none.
    pub(crate) fn ahead(&self, table: u32) -> Option<&StepRows> {
        self.writes_of(table).map(TableWrites::ahead).filter(|rows| !rows.is_empty())
    }

    /// Whether consistent reads may have to leave rows out ([`WriteSet::is_hidden`]).
    #[inline]
    pub(crate) fn hides_rows(&self) -> bool {
        self.hides
    }

    /// Whether a consistent read that sees the steps up to `seen` leaves a row out, for an own row
    /// has its primary key.
    #[inline]
    pub(crate) fn is_hidden(&self, table: u32, row: u64, seen: u64) -> bool {
        self.hides && self.writes_of(table).is_some_and(|writes| writes.hides(row, seen))
    }

    /// Takes rows that are hidden up to step `seen` out of the words of a page whose first row is
    /// `base`.
    #[inline]
    pub(crate) fn hide_words(&self, table: u32, (base, seen): (u64, u64), words: &mut [Word]) {
        if !self.hides {
            return;
        }
        let Some(writes) = self.writes_of(table) else { return };
        for row in writes.hidden_within(base..base + words.len() as u64, seen) {
            words[(row - base) as usize] = Word::EMPTY;
        }
    }

    /// Takes the present position: later writes are of a later step.
    pub(crate) fn position(&mut self) -> Position {
        if std::mem::take(&mut self.in_step) {
            for writes in &mut self.tables {
                writes.note_rows(self.step);
            }
        }
        // A missing mark is the beginning of a bulk insert.
        let mut bulk = SmallVec::new();
        if self.tables.iter().any(TableWrites::has_bulk) {
            bulk.extend(self.tables.iter().map(TableWrites::mark));
        }
        Position { step: self.step, bulk }
    }

    /// Notes that nobody goes back to before `position`.
    pub(crate) fn forget_before(&mut self, position: &Position) {
        self.floor = position.step;
        for writes in &mut self.tables {
            writes.forget_below(position.step);
        }
    }

    /// Undoes the writes since `position`, and frees what they wrote. Spilled words that come back
    /// for that are spilled again where they take more than a quarter of `most` bytes of DRAM, as
    /// long as the device has room.
    pub(crate) fn undo_to(&mut self, position: &Position, most: usize) {
        let _noted = self.position();
        let share = most / 4 / self.tables.len().max(1);
        for (index, writes) in self.tables.iter_mut().enumerate() {
            writes.undo_to(position.bulk.get(index).copied().unwrap_or_default(), position.step, share);
        }
    }

    /// Takes the transaction off all pages and frees what it wrote. What it has flushed must be
    /// fenced.
    pub(crate) fn abandon(&mut self) {
        self.tables.iter_mut().for_each(TableWrites::abandon);
        if let Some(writer) = self.writer.as_ref().filter(|_| !self.tables.is_empty()) {
            writer.end();
        }
        self.tables.clear();
        self.hides = false;
    }

    /// Flushes what is written and not flushed yet. Returns whether anything was written since the
    /// last call; if so, the caller fences.
    pub(crate) fn flush_rest(&mut self) -> bool {
        self.tables.iter_mut().fold(false, |flushed, writes| writes.flush_rest() | flushed)
    }

    /// Whether what is written takes at most `most` bytes of the log by value, and nothing has to
    /// go by reference.
    pub(crate) fn is_small(&self, most: u64) -> bool {
        // Planted: whatever the transaction wrote, its record is taken to carry it.
        if perdura_pmem::planted(Mutant::LargeTakenForSmall) {
            return true;
        }
        let mut bytes = self.tables.iter().map(TableWrites::value_bytes);
        bytes.try_fold(0, |sum, bytes| Some(sum + bytes?)).is_some_and(|bytes| bytes <= most)
    }

    /// Flushes versions and entries that wait for the record, since it does not carry them. The
    /// caller fences.
    pub(crate) fn flush_waiting(&mut self) {
        self.tables.iter_mut().for_each(TableWrites::flush_waiting);
    }

    /// Brings the writes to their final state before the commit. The caller flushes the rest and
    /// fences.
    pub(crate) fn settle(&mut self) {
        self.tables.iter_mut().for_each(TableWrites::settle);
    }

    /// Encodes the redo records into `records`, in the form `form`: of what is left, so they name
    /// no place that the transaction has given up (I8). Whenever `chunk_bytes` are full, they go
    /// to the log as a chunk. Called after [`WriteSet::settle`], and by reference after a fence.
    pub(crate) fn log(
        &self,
        records: &mut Vec<u8>,
        log: &mut LogTxn,
        (chunk_bytes, form): (usize, RedoForm),
    ) -> Result<()> {
        records.clear();
        let mut add = |record: Record<'_>| -> Result<()> {
            if records.len() + record.bytes() > chunk_bytes {
                log.append_chunk(records)?;
                records.clear();
            }
            record.encode(records);
            Ok(())
        };
        self.tables.iter().try_for_each(|writes| writes.log((chunk_bytes, form), &mut add))
    }

    /// Makes the transaction visible at `csn`, however much it wrote. durable_csn covers it (I4).
    pub(crate) fn commit(&mut self, csn: Csn) {
        self.tables.iter_mut().for_each(TableWrites::collect_holes);
        if let Some(writer) = &self.writer {
            writer.commit(csn);
        }
    }

    /// The same. Returns whether the caller is to report it: another thread may have made it
    /// visible before.
    pub(crate) fn commit_first(&mut self, csn: Csn) -> bool {
        self.commit(csn);
        self.writer.as_ref().is_none_or(|writer| writer.is_reported_first())
    }

    /// By which another thread may make the transaction visible: not one whose pages are looked
    /// through before.
    pub(crate) fn publication(&self) -> Option<Arc<Writer>> {
        let has_bulk = self.tables.iter().any(TableWrites::has_bulk);
        self.writer.as_ref().filter(|_| !has_bulk).cloned()
    }

    /// Stores directory words and page states of the committed transaction; `deferred` has the
    /// words flushed before a checkpoint goes past them.
    pub(crate) fn publish(&mut self, csn: Csn, deferred: &DeferredFlush) {
        self.tables.iter_mut().for_each(|writes| writes.publish(csn, deferred));
    }

    /// Retires the write set once all that [`WriteSet::publish`] does is reported as stored: hands
    /// replaced versions to purge and counts rows. `now` is the time for reports, in seconds since
    /// 1970.
    pub(crate) fn retire(&mut self, now: u64) {
        self.tables.iter_mut().for_each(|writes| writes.retire(now));
        self.tables.clear();
        self.hides = false;
    }

    /// Enters a row that a prepared transaction wrote before the restart. Returns whether nobody
    /// else holds it.
    pub(crate) fn restore(&mut self, table: &Arc<Table>, owner: u64, rid: Rid, word: Word) -> bool {
        self.written = true;
        self.table(table, owner).restore(rid, word)
    }

    /// Enters rows whose words a prepared transaction spilled before the restart. Returns whether
    /// nobody else holds them.
    pub(crate) fn restore_spilled(
        &mut self,
        table: &Arc<Table>,
        owner: u64,
        page: u64,
        place: Word,
        rows: RowSet,
    ) -> Result<bool> {
        self.written = true;
        self.table(table, owner).restore_spilled(page, place, rows)
    }

    /// Gives a prepared transaction the changes of a leaf back that it made before the restart.
    pub(crate) fn restore_leaf(&mut self, table: &Arc<Table>, owner: u64, record: &LeafRecord) -> Result<()> {
        self.written = true;
        self.table(table, owner).restore_leaf(record)
    }

    /// Enters a page that a prepared transaction filled before the restart.
    pub(crate) fn restore_page(&mut self, table: &Arc<Table>, owner: u64, page: u64, rows: u32, folded: u64) {
        self.written = true;
        self.table(table, owner).begin_bulk().adopt_page(page, rows, folded);
    }

    /// Number of rows written singly.
    pub(crate) fn locks(&self) -> usize {
        self.tables.iter().map(TableWrites::locks).sum()
    }

    /// Takes the transaction off all pages and keeps what it wrote: the next start decides it.
    pub(crate) fn forget(&mut self) {
        self.tables.iter_mut().for_each(TableWrites::forget);
        self.tables.clear();
        self.hides = false;
    }

    /// Begins the next transaction, once this one is off all pages.
    pub(crate) fn clear(&mut self) {
        debug_assert!(self.tables.is_empty());
        self.writer = None;
        (self.in_step, self.written) = (false, false);
        self.floor = self.step;
    }
}
