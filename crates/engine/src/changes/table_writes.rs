//! Writes of a transaction to one table.
//!
//! Each row is in the shadow of its page, in the change that bears the transaction's name; here are
//! the numbers of those pages, and in which step each was first written, so that undo finds what it
//! looks for.

use super::behind::Behind;
use super::bulk::{BULK_AFTER, BulkInsert, BulkMark};
use super::claim::{Claim, Contention, RowWrite, Step, Written};
use super::hidden::HiddenRows;
use super::memory::Memory;
use super::own_segments::OwnSegments;
use super::touched::Touched;
use crate::error::{Error, Result};
use crate::format::{Rid, VERSION_HEADER, VersionHeader, Word};
use crate::index::touched::TouchedLeaves;
use crate::shadow::change::Own;
use crate::shadow::row_set::RowSet;
use crate::shadow::slots::Slot;
use crate::shadow::words::Spilled;
use crate::shadow::writer::{LockKey, Writer};
use crate::space::purge::Retired;
use crate::space::segments::LastSwept;
use crate::table::Table;
use crate::table::visibility::{newest_met_in, newest_up_to};
use perdura_log::Csn;
use perdura_pmem::Mutant;
use std::sync::Arc;

/// Versions that a transaction writes between two looks at what waits for purge.
const VERSIONS_PER_LOOK: u64 = 256;
/// Row changes that may wait for purge: so many, or one of so many rows of the table.
const LAG_MIN: u64 = 1024;
const LAG_SHARE: u64 = 128;

/// Writes of a transaction to one table.
pub struct TableWrites {
    pub(super) table: Arc<Table>,
    pub(super) writer: Arc<Writer>,
    pub(super) touched: Touched,
    pub(super) bulk: Option<BulkInsert>,
    pub(super) segments: OwnSegments,
    /// Single inserts, undone ones included, refused ones not.
    inserts: u64,
    /// Versions written, those of bulk inserts apart.
    versions: u64,
    /// The version written last, with its length, until it is flushed.
    unflushed: Option<(Word, u64)>,
    /// Some row was written twice, or inserted and deleted.
    rewritten: bool,
    swept: LastSwept,
    /// Versions for purge once the commit is reported as stored.
    retired: Retired,
    /// RIDs of undone inserts that others wait for, because of keys: they are locked until the
    /// transaction ends.
    waited_for: Vec<Rid>,
    /// The leaves of indexes that it has touched.
    pub(super) leaves: TouchedLeaves,
    /// Rows of the snapshot that its own rows hide.
    pub(super) hidden: HiddenRows,
    /// The entry at hand.
    pub(super) entry: Vec<u8>,
}

impl TableWrites {
    /// Nothing written to `table` so far.
    pub fn new(table: Arc<Table>, writer: Arc<Writer>) -> TableWrites {
        let mut touched = Touched::default();
        if writer.moves() {
            touched.set_admitted();
        }
        TableWrites {
            table,
            writer,
            touched,
            bulk: None,
            segments: OwnSegments::default(),
            inserts: 0,
            versions: 0,
            unflushed: None,
            rewritten: false,
            swept: LastSwept::default(),
            retired: Retired::default(),
            waited_for: Vec::new(),
            leaves: TouchedLeaves::default(),
            hidden: HiddenRows::default(),
            entry: Vec::new(),
        }
    }

    /// The table.
    #[inline]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The bulk insert, if it is running.
    #[inline]
    pub fn bulk_insert(&mut self, row: &[u8]) -> Option<Result<Rid>> {
        Some(self.bulk.as_mut()?.insert(&mut self.segments, row))
    }

    /// Whether the next insert begins a bulk insert: the transaction has made enough single
    /// inserts, and the table has no large stock of free RIDs to use up first.
    pub fn is_bulk_due(&self) -> bool {
        self.bulk.is_none() && self.inserts >= BULK_AFTER && !self.table.space().has_many_free_rids()
    }

    /// The bulk insert, begun now if there is none.
    pub fn begin_bulk(&mut self) -> &mut BulkInsert {
        self.bulk.get_or_insert_with(|| BulkInsert::new(self.table.clone(), self.writer.clone()))
    }

    /// The transaction's own version of a row; `None` if it never wrote the row. A RID that was
    /// reused names another row.
    pub fn own(&self, rid: Rid) -> Option<Own> {
        let own = self.own_in_place(rid.row())?;
        match own {
            Own::Row(word) if word.incarnation() != rid.incarnation() => None,
            own => Some(own),
        }
    }

    fn own_in_place(&self, row: u64) -> Option<Own> {
        if let Some(bulk) = self.bulk.as_ref().filter(|bulk| bulk.owns_row(row)) {
            let word = bulk.word(row);
            return Some(if word.is_empty() { Own::Deleted } else { Own::Row(word) });
        }
        let directory = self.table.directory();
        let shadow = self.table.shadows().existing(directory.page_of(row))?.lock_existing()?;
        shadow.change(&self.writer)?.own(directory.position_of(row), || directory.raw_word(row))
    }

    /// Whether a row of the snapshot is hidden from a read that sees the steps up to `seen`. One
    /// that the transaction has written since is not.
    pub(super) fn hides(&self, row: u64, seen: u64) -> bool {
        self.hidden.has(row, seen) && self.own_in_place(row).is_none()
    }

    /// Whether the row belongs to the bulk insert.
    pub fn is_in_bulk(&self, rid: Rid) -> bool {
        self.bulk.as_ref().is_some_and(|bulk| bulk.owns_row(rid.row()))
    }

    /// Whether the transaction is known as a writer of the table.
    #[inline]
    pub fn is_admitted(&self) -> bool {
        self.touched.is_admitted()
    }

    /// Notes that the transaction has locked the table for its writes.
    pub fn set_admitted(&mut self) {
        self.touched.set_admitted();
    }

    /// Locks a row in place, if the lock is to be exclusive, `in_place` allows it, and nobody else
    /// holds the row.
    pub fn claim<'t>(
        &mut self,
        table: &'t Table,
        rid: Rid,
        exclusive: bool,
        in_place: impl FnOnce() -> bool,
    ) -> Claim<'t> {
        let directory = table.directory();
        let (page, position) = (directory.page_of(rid.row()), directory.position_of(rid.row()));
        let mut shadow = table.shadows().slot(page).lock();
        if exclusive && !self.touched.admit(table.shadows(), &mut shadow, page, &self.writer) {
            return Claim::Barred;
        }
        let held = shadow.change(&self.writer).is_some_and(|change| change.holds(position));
        if !held {
            let holder = shadow.holder(&self.writer, position).cloned();
            if holder.is_some() || !exclusive || !in_place() {
                return Claim::Contended(Contention { page: Some(shadow), holder });
            }
            self.touched.change(&mut shadow, page, &self.writer).lock(position);
        }
        Claim::Taken((!held).then(|| newest_met_in(&mut shadow, table, rid.row())))
    }

    /// Unlocks a row, unless it is written. Returns whether it was locked in place.
    pub fn unlock(&mut self, rid: Rid) -> bool {
        let directory = self.table.directory();
        let position = directory.position_of(rid.row());
        let slot = self.table.shadows().existing(directory.page_of(rid.row()));
        let Some(mut shadow) = slot.and_then(Slot::lock_existing) else { return false };
        shadow.change_mut(&self.writer).is_some_and(|change| change.unlock(position))
    }

    /// Writes a version for `rid`, into a segment of the transaction's own once it has written
    /// many. It is flushed as soon as it is entered or discarded: a locked instruction waits for
    /// the flushes before it, and the page is locked next.
    #[inline]
    pub fn write_version(&mut self, session: u64, rid: Rid, row: &[u8]) -> Result<Word> {
        let header = VersionHeader::new(rid, row);
        if self.versions >= BULK_AFTER {
            self.versions += 1;
            return self.segments.write(&self.table, &header, row);
        }
        let bytes = VERSION_HEADER + row.len() as u64;
        let place = self.table.space().allocate(session, bytes)?;
        let word = Word::new(place.file(), place.offset(), rid.incarnation());
        self.table.chain().write_version(word, &header, row);
        self.unflushed = Some((word, bytes));
        self.segments.note_written();
        self.versions += 1;
        Ok(word)
    }

    /// Whether the transaction writes so many versions that it is to look, before the next one,
    /// whether old ones wait for purge in its way: at the first in a segment of its own, and then
    /// now and then.
    #[inline]
    pub fn is_purge_due(&self) -> bool {
        self.versions % VERSIONS_PER_LOOK == BULK_AFTER
            && self.table.purge_lag() as u64 > LAG_MIN.max(self.table.row_count_estimate() / LAG_SHARE)
    }

    #[inline]
    fn flush_written(&mut self) {
        if let Some((word, bytes)) = self.unflushed.take() {
            let region = self.table.chain().file(word.file()).expect("allocated in a file of the chain").region();
            region.flush(word.offset(), bytes);
        }
    }

    /// Enters an insert. Returns false if the transaction must lock the table first.
    pub fn insert(&mut self, rid: Rid, word: Word, at: Step) -> bool {
        if !self.enter(rid, Some(word), at) {
            return false;
        }
        self.inserts += 1;
        self.flush_written();
        true
    }

    /// Updates or deletes a row, and locks it in place if need be and `in_place` allows it.
    pub fn write<'t>(
        &mut self,
        table: &'t Table,
        write: RowWrite,
        in_place: impl FnOnce() -> bool,
    ) -> Result<Written<'t>> {
        let RowWrite { rid, word, at, limit, holds } = write;
        let directory = table.directory();
        let (page, position) = (directory.page_of(rid.row()), directory.position_of(rid.row()));
        let mut shadow = table.shadows().slot(page).lock();
        if !self.touched.admit(table.shadows(), &mut shadow, page, &self.writer) {
            return Ok(Written::Barred);
        }
        let known = shadow.change(&self.writer);
        let own = known.and_then(|change| change.own(position, || directory.raw_word(rid.row())));
        let held = holds || known.is_some_and(|change| change.holds(position));
        let mut met = 0;
        match own {
            // Planted: a RID that was reused is taken for the row it named before.
            Some(Own::Row(own))
                if own.incarnation() == rid.incarnation() || perdura_pmem::planted(Mutant::ReusedRidTakenForOld) => {}
            Some(_) => return Ok(Written::Gone),
            None => {
                if !held {
                    let holder = shadow.holder(&self.writer, position).cloned();
                    if holder.is_some() || !in_place() {
                        return Ok(Written::Contended(Contention { page: Some(shadow), holder }));
                    }
                }
                let (newest, csn) = newest_up_to(&mut shadow, table, rid.row(), limit);
                if newest.is_empty() || newest.incarnation() != rid.incarnation() {
                    return Ok(Written::Gone);
                }
                // Planted: the first updater does not win.
                if csn > limit && !perdura_pmem::planted(Mutant::LostUpdate) {
                    return Ok(Written::Changed);
                }
                // Planted: a deleted row is changed.
                if newest.is_tombstone() && !perdura_pmem::planted(Mutant::DeletedRowChanged) {
                    return Ok(Written::Gone);
                }
                // Planted: a version in an unswept segment is replaced.
                if !perdura_pmem::planted(Mutant::VersionReplacedInUnsweptSegment) {
                    self.swept.ensure(table.space().segments(), newest)?;
                }
                met = csn;
            }
        }
        let words = word.is_some() || own.is_some();
        let (change, settled) = self.touched.open_change(&mut shadow, page, &self.writer, at, words);
        let stored = || directory.raw_word(rid.row());
        match word {
            Some(word) => {
                change.write(position, word, stored, at.step);
            }
            None => change.delete(position, stored, at.step),
        }
        let rows = change.after().len();
        drop(shadow);
        self.flush_written();
        self.rewritten |= own.is_some();
        if word.is_some() || own.is_some() {
            self.touched.memory.add_write(page, own.is_none(), rows);
        }
        if !settled.is_empty() {
            self.table.space().free_all(settled);
        }
        Ok(Written::Done { locked: !held, met })
    }

    /// Enters a write of a row that nobody else can write; without a word, its deletion. Returns
    /// false if the transaction must lock the table first.
    pub(super) fn enter(&mut self, rid: Rid, word: Option<Word>, at: Step) -> bool {
        let directory = self.table.directory();
        let (page, position) = (directory.page_of(rid.row()), directory.position_of(rid.row()));
        let mut shadow = self.table.shadows().slot(page).lock();
        if !self.touched.admit(self.table.shadows(), &mut shadow, page, &self.writer) {
            return false;
        }
        let (change, settled) = self.touched.open_change(&mut shadow, page, &self.writer, at, word.is_some());
        let stored = || directory.raw_word(rid.row());
        match word {
            Some(word) => {
                change.write(position, word, stored, at.step);
            }
            None => change.delete(position, stored, at.step),
        }
        let rows = change.after().len();
        drop(shadow);
        self.touched.memory.add_write(page, true, rows);
        if !settled.is_empty() {
            self.table.space().free_all(settled);
        }
        true
    }

    /// Its DRAM.
    #[inline]
    pub fn memory(&self) -> &Memory {
        &self.touched.memory
    }

    /// DRAM of what was done to indexes.
    #[inline]
    pub fn leaf_bytes(&self) -> usize {
        self.leaves.bytes() + self.hidden.bytes()
    }

    /// Bytes of the log that words in DRAM take at least.
    pub fn logged(&self) -> usize {
        self.touched.memory.logged()
    }

    /// Frees a version that was written and not entered.
    pub fn discard(&mut self, word: Option<Word>) {
        self.flush_written();
        self.table.space().free_all(word);
    }

    /// Replaces the version of a row of the bulk insert; `None` deletes the row.
    pub fn edit_bulk(&mut self, rid: Rid, row: Option<&[u8]>, at: Step) -> Result<()> {
        let step = at.step;
        self.note_rows(step);
        let page = self.table.directory().page_of(rid.row());
        self.touched.note(step, page);
        self.bulk.as_mut().expect("the row is one of a bulk insert").edit(&mut self.segments, rid, row, at)
    }

    /// Notes the rows of the bulk insert as written in step `step`; called before anybody takes a
    /// position.
    pub fn note_rows(&mut self, step: u64) {
        let pages = self.bulk.as_mut().map(|bulk| bulk.note_rows(step)).unwrap_or_default();
        pages.into_iter().for_each(|page| self.touched.note(step, page));
    }

    /// Forgets what nobody can go back to, up to step `floor`.
    pub fn forget_below(&mut self, floor: u64) {
        self.touched.forget_below(floor);
        self.leaves.forget_below(floor);
    }

    /// Whether a bulk insert is running.
    #[inline]
    pub fn has_bulk(&self) -> bool {
        self.bulk.is_some()
    }

    /// The present position in the bulk insert.
    pub fn mark(&self) -> BulkMark {
        self.bulk.as_ref().map(BulkInsert::mark).unwrap_or_default()
    }

    /// Undoes the writes of the steps after `seen`, and frees what they wrote. All rows of the bulk
    /// insert are noted. Words that come back to DRAM are spilled again beyond `most` bytes, down
    /// to half of them.
    pub fn undo_to(&mut self, mark: BulkMark, seen: u64, most: usize) {
        // Lines to be undone are flushed too, so that none of them stays dirty.
        if self.flush_rest() {
            self.segments.note_written();
        }
        if !self.leaves.is_empty() {
            self.undo_leaves(seen);
        }
        self.hidden.undo_to(seen);
        let touched = self.touched.take_since(seen);
        let mut has_room = true;
        for page in &touched {
            let is_held = self.undo_in_page(*page, seen);
            // Words that find no room on the medium stay in DRAM: an undo does not fail.
            if is_held && has_room && self.touched.memory.word_bytes() > most {
                has_room = self.spill(most / 2).is_ok();
            }
        }
        if let Some(bulk) = &mut self.bulk {
            bulk.rollback_to(mark, seen, &touched);
            self.segments.note_written();
        }
    }

    /// Undoes the writes to a page of the steps after `seen`. Returns whether its words came back
    /// to DRAM for that.
    fn undo_in_page(&mut self, page: u64, seen: u64) -> bool {
        let (mut versions, mut rids) = (Vec::new(), Vec::new());
        let is_held = {
            let directory = self.table.directory();
            let Some(mut shadow) = self.table.shadows().slot(page).lock_existing() else { return false };
            let change = shadow.change_mut(&self.writer).filter(|change| !change.is_whole_page());
            let Some(change) = change else { return false };
            let place = change.hold_words();
            let is_held = place.is_some();
            if is_held {
                self.touched.memory.add_held(page, change.after().len());
            }
            versions.extend(place);
            for write in change.undo(seen) {
                match write.restored {
                    Some(_) => self.touched.memory.take_replaced(1),
                    None => self.touched.memory.take_words(1),
                }
                versions.extend(write.version);
                let row = directory.page_base(page) + u64::from(write.position);
                let stored = directory.raw_word(row);
                if write.restored.is_none() && stored.is_empty() {
                    let rid = Rid::new(row, stored.incarnation());
                    // The lock table has it in the transaction's name: nobody else may get the RID
                    // before that ends.
                    if self.writer.has_tabled(LockKey::row(self.table.id(), rid)) {
                        self.waited_for.push(rid);
                    } else {
                        change.unlock(write.position);
                        rids.push(rid);
                    }
                }
            }
            is_held
        };
        self.free(versions, rids);
        is_held
    }

    /// Takes the last insert off the counts of writes.
    pub(super) fn take_back_counts(&mut self) {
        self.inserts -= 1;
        self.touched.memory.take_words(1);
    }

    /// Keeps the RID of an insert that was taken back until the transaction ends, since others wait
    /// for it.
    pub(super) fn keep_until_end(&mut self, rid: Rid) {
        self.waited_for.push(rid);
    }

    pub(super) fn free(&self, versions: impl IntoIterator<Item = Word>, rids: impl IntoIterator<Item = Rid>) {
        self.table.space().free_all(versions);
        // Planted: the RID of an undone insert is lost.
        self.table.space().free_rids(rids.into_iter().filter(|_| !perdura_pmem::planted(Mutant::RolledBackRidLost)));
    }

    /// Takes the transaction's changes off all pages and keeps what they name: the next start
    /// decides the transaction.
    pub fn forget(&mut self) {
        self.abandon_leaves();
        let bulk = self.bulk.iter().flat_map(BulkInsert::pages);
        for page in self.touched.pages().chain(bulk) {
            self.table.shadows().slot(page).lock().remove(&self.writer);
        }
    }

    /// Takes the transaction's changes off all pages: its locks in place are gone, and what it
    /// wrote is free. All that it has flushed is fenced.
    pub fn abandon(&mut self) {
        // Whoever waits for an entry waits for the lock of its row.
        if !self.leaves.is_empty() {
            self.abandon_leaves();
        }
        for page in self.touched.take_pages() {
            let (mut versions, mut rids) = (Vec::new(), Vec::new());
            if let Some(mut change) = self.table.shadows().slot(page).lock().remove(&self.writer) {
                let directory = self.table.directory();
                for position in change.positions() {
                    let row = directory.page_base(page) + u64::from(position);
                    let stored = directory.raw_word(row);
                    if stored.is_empty() {
                        rids.push(Rid::new(row, stored.incarnation()));
                    }
                }
                versions.extend(change.after().iter().map(|(_, word)| word));
                versions.extend(change.after().spilled());
                versions.extend(change.take_replaced());
            }
            self.free(versions, rids);
        }
        let waited_for = std::mem::take(&mut self.waited_for);
        self.free([], waited_for);
        if let Some(bulk) = self.bulk.take() {
            bulk.abandon();
        }
        self.segments.release(&self.table);
    }

    /// Flushes what is not flushed yet. Returns whether anything was written since the last call;
    /// if so, the caller fences.
    pub fn flush_rest(&mut self) -> bool {
        self.flush_written();
        let flushed = self.segments.flush_rest();
        if flushed && let Some(bulk) = &mut self.bulk {
            bulk.flush_rest();
        }
        self.leaves.flush_rest(self.table.index_list().leaves()) | flushed
    }

    /// Brings the writes to their final state before the commit: frees what only the transaction
    /// ever saw.
    pub fn settle(&mut self) {
        if let Some(bulk) = &mut self.bulk {
            bulk.settle();
        }
        if !std::mem::take(&mut self.rewritten) {
            return;
        }
        for page in self.touched.pages() {
            let directory = self.table.directory();
            let row = |position| directory.page_base(page) + u64::from(position);
            let (mut versions, mut rids) = (Vec::new(), Vec::new());
            if let Some(mut shadow) = self.table.shadows().slot(page).lock_existing()
                && let Some(change) = shadow.change_mut(&self.writer)
            {
                versions = change.take_replaced();
                let nothing = change.drop_nothing(|position| directory.raw_word(row(position)).is_empty());
                let rid = |position| Rid::new(row(position), directory.raw_word(row(position)).incarnation());
                rids = nothing.into_iter().map(rid).collect();
            }
            self.table.space().free_all(versions);
            self.table.space().free_rids(rids);
        }
    }

    /// Collects the RIDs that the bulk insert leaves free; called before the commit is visible
    /// (I8).
    pub fn collect_holes(&mut self) {
        if let Some(bulk) = &mut self.bulk {
            bulk.collect_holes();
        }
    }

    /// Stores the words of the committed transaction, page by page, notes in `behind` what is to be
    /// flushed, and gathers what [`TableWrites::retire`] hands over.
    pub fn publish(&mut self, csn: Csn, behind: &Behind) {
        if !self.leaves.is_empty() {
            self.publish_leaves(csn, behind);
        }
        let retired = &mut self.retired;
        retired.csn = csn;
        let mut grown = 0;
        let bulk = self.bulk.iter().flat_map(BulkInsert::pages);
        for page in self.touched.pages().chain(bulk) {
            let mut shadow = self.table.shadows().slot(page).lock();
            let tally = shadow.publish(&self.writer, page, self.table.directory());
            if tally.is_unflushed {
                behind.add(&self.table, page);
            }
            drop(shadow);
            retired.rows += tally.changed;
            grown += tally.grown;
            if tally.is_new {
                retired.pages.push(page);
            }
            if tally.is_crowded {
                retired.crowded.push(page);
            }
        }
        self.table.count_rows(grown);
        self.table.space().retired().count(retired.rows);
    }

    /// Retires what is published: hands replaced versions to purge, and counts rows. `now` is the
    /// time for reports, in seconds since 1970.
    pub fn retire(&mut self, now: u64) {
        let waited_for = std::mem::take(&mut self.waited_for);
        self.free([], waited_for);
        let retired = std::mem::take(&mut self.retired);
        if (retired.rows > 0 || self.bulk.is_some()) && !self.writer.moves() {
            self.table.set_changed(now);
        }
        if let Some(bulk) = self.bulk.take() {
            self.table.count_rows(bulk.rows());
            bulk.finish();
        }
        self.segments.release(&self.table);
        // Planted: the places that moved rows have left are never purged.
        if retired.rows > 0 && !(perdura_pmem::planted(Mutant::MovedRowPlaceNeverPurged) && self.writer.moves()) {
            self.table.space().retire(retired);
        }
    }

    /// Number of rows written singly.
    pub(crate) fn locks(&self) -> usize {
        let rows = |page| {
            let shadow = self.table.shadows().existing(page)?.lock_existing()?;
            Some(shadow.change(&self.writer)?.rows_written())
        };
        self.touched.pages().filter_map(rows).sum()
    }

    /// Enters rows whose words a prepared transaction spilled before the restart. Returns whether
    /// nobody else holds them.
    pub(crate) fn restore_spilled(&mut self, page: u64, place: Word, rows: RowSet) -> Result<bool> {
        let (region, at) = self.table.chain().locate(place)?;
        let mut shadow = self.table.shadows().slot(page).lock();
        let is_free = rows.iter().all(|position| shadow.holder(&self.writer, position).is_none());
        let change = self.touched.change(&mut shadow, page, &self.writer);
        if !change.after().is_empty() {
            let what = format_args!("a prepared transaction has two records of directory page {page}");
            return Err(Error::damaged("log", 0, what));
        }
        change.restore(Spilled::new(place, region.clone(), at + VERSION_HEADER, rows.clone()), rows.iter());
        Ok(is_free)
    }

    /// Enters a row that a prepared transaction wrote before the restart. Returns whether nobody
    /// else holds it.
    pub(crate) fn restore(&mut self, rid: Rid, word: Word) -> bool {
        let directory = self.table.directory();
        let position = directory.position_of(rid.row());
        let is_held =
            self.table.shadows().slot(directory.page_of(rid.row())).lock().holder(&self.writer, position).is_some();
        let at = Step { step: 0, floor: 0 };
        // Nobody reads yet.
        self.enter(rid, Some(word).filter(|word| !word.is_tombstone()), at) && !is_held
    }
}
