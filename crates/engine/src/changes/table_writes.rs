//! What a transaction has written to one table.
//!
//! Each row is in the shadow of its page, in the change that bears the transaction's name; here are the numbers of
//! those pages, and in which step each was first written, so that undo finds what it looks for.

use super::bulk::{BULK_AFTER, BulkInsert, BulkMark};
use super::own_segments::OwnSegments;
use crate::error::Result;
use crate::format::{Record, Rid, VERSION_HEADER, VersionHeader, Word};
use crate::shadow::change::{Change, Own};
use crate::shadow::page::Tally;
use crate::shadow::slots::{LockedPage, Slot};
use crate::shadow::writer::Writer;
use crate::space::purge::Retired;
use crate::table::Table;
use crate::table::visibility::newest_in;
use perdura_log::Csn;
use std::sync::Arc;

/// A page's first write in a step.
struct Touch {
    step: u64,
    page: u64,
}

/// How a request for an exclusive lock ends.
pub enum Claim<'t> {
    /// The transaction holds the row; it is told whether it did before, and of the newest committed version.
    Taken {
        /// The transaction did not hold the row before.
        new: bool,
        /// Word and CSN of the newest committed version; the CSN is 0 if no snapshot is older.
        newest: (Word, Csn),
    },
    /// The lock table decides. The page stays locked until the request is there.
    Contended {
        /// The page of the row.
        page: LockedPage<'t>,
        /// The transaction that holds the row in place.
        holder: Option<Arc<Writer>>,
    },
}

/// What a transaction has written to one table.
pub struct TableWrites {
    table: Arc<Table>,
    writer: Arc<Writer>,
    /// Pages with a change of the transaction, those of the bulk insert apart.
    pages: Vec<u64>,
    /// In the order of time; forgotten up to the oldest position that is left.
    journal: Vec<Touch>,
    bulk: Option<BulkInsert>,
    segments: OwnSegments,
    /// Single inserts, undone ones included.
    inserts: u64,
    /// Versions written singly.
    versions: u64,
    /// Some row was written twice, or inserted and deleted.
    rewritten: bool,
}

impl TableWrites {
    /// Nothing written to `table` so far.
    pub fn new(table: Arc<Table>, writer: Arc<Writer>) -> TableWrites {
        TableWrites {
            table,
            writer,
            pages: Vec::new(),
            journal: Vec::new(),
            bulk: None,
            segments: OwnSegments::default(),
            inserts: 0,
            versions: 0,
            rewritten: false,
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

    /// Whether the next insert begins a bulk insert: the transaction has made enough single inserts, and the table has no
    /// large stock of free RIDs to use up first.
    pub fn is_bulk_due(&self) -> bool {
        self.bulk.is_none() && self.inserts >= BULK_AFTER && !self.table.space().has_many_free_rids()
    }

    /// The bulk insert, begun now if there is none.
    pub fn begin_bulk(&mut self) -> &mut BulkInsert {
        self.bulk.get_or_insert_with(|| BulkInsert::new(self.table.clone(), self.writer.clone()))
    }

    /// What the transaction made of a row; `None` if it never wrote the row. A RID that was reused names another row.
    pub fn own(&self, rid: Rid) -> Option<Own> {
        let own = self.own_in_place(rid.row())?;
        match own {
            // Planted: a RID that was reused is taken for the row it named before.
            Own::Row(word) if word.incarnation() != rid.incarnation() && !perdura_pmem::planted(81) => None,
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
        shadow.change(&self.writer)?.own(directory.position_of(row), directory.raw_word(row))
    }

    /// Whether the row belongs to the bulk insert.
    pub fn is_in_bulk(&self, rid: Rid) -> bool {
        self.bulk.as_ref().is_some_and(|bulk| bulk.owns_row(rid.row()))
    }

    /// Locks a row exclusively in place, if `in_place` allows it and nobody else holds it.
    pub fn claim<'t>(&mut self, table: &'t Table, rid: Rid, in_place: impl FnOnce() -> bool) -> Claim<'t> {
        let directory = table.directory();
        let (page, position) = (directory.page_of(rid.row()), directory.position_of(rid.row()));
        let mut shadow = table.shadows().slot(page).lock();
        let held = shadow.change(&self.writer).is_some_and(|change| change.holds(position));
        if !held {
            let holder = shadow.holder(&self.writer, position).cloned();
            if holder.is_some() || !in_place() {
                return Claim::Contended { page: shadow, holder };
            }
            let (change, new_page) = shadow.change_or_new(&self.writer, false);
            change.lock(position);
            if new_page {
                self.pages.push(page);
            }
        }
        Claim::Taken { new: !held, newest: newest_in(&mut shadow, table, rid.row()) }
    }

    /// Unlocks a row, unless it is written. Returns whether it was locked in place.
    pub fn unlock(&mut self, rid: Rid) -> bool {
        let directory = self.table.directory();
        let position = directory.position_of(rid.row());
        let slot = self.table.shadows().existing(directory.page_of(rid.row()));
        let Some(mut shadow) = slot.and_then(Slot::lock_existing) else { return false };
        shadow.change_mut(&self.writer).is_some_and(|change| change.unlock(position))
    }

    /// Writes a version for `rid`, into a segment of the transaction's own once it has written many.
    #[inline]
    pub fn write_version(&mut self, session: u64, rid: Rid, row: &[u8]) -> Result<Word> {
        let header = VersionHeader::new(rid, row);
        if self.versions >= BULK_AFTER {
            return self.segments.write(&self.table, &header, row);
        }
        let bytes = VERSION_HEADER + row.len() as u64;
        let place = self.table.space().allocate(session, bytes)?;
        let word = Word::new(place.file(), place.offset(), rid.incarnation());
        let (region, at) = self.table.chain().write_version(word, &header, row);
        region.flush(at, bytes);
        self.segments.note_written();
        self.versions += 1;
        Ok(word)
    }

    /// Enters an insert.
    pub fn insert(&mut self, rid: Rid, word: Word, step: u64, floor: u64) {
        self.inserts += 1;
        self.with_change(rid, step, floor, |change, position, stored| change.write(position, word, stored, step));
    }

    /// Enters an update.
    pub fn update(&mut self, rid: Rid, word: Word, step: u64, floor: u64) {
        let write = |change: &mut Change, position, stored| change.write(position, word, stored, step);
        self.rewritten |= !self.with_change(rid, step, floor, write);
    }

    /// Enters a deletion.
    pub fn delete(&mut self, rid: Rid, step: u64, floor: u64) {
        self.rewritten |= self.with_change(rid, step, floor, |change, position, stored| {
            let again = change.wrote(position);
            change.delete(position, stored, step);
            again
        });
    }

    #[inline]
    fn with_change<T>(&mut self, rid: Rid, step: u64, floor: u64, body: impl FnOnce(&mut Change, u16, Word) -> T) -> T {
        let directory = self.table.directory();
        let (page, position) = (directory.page_of(rid.row()), directory.position_of(rid.row()));
        let mut shadow = self.table.shadows().slot(page).lock();
        let (change, new_page) = shadow.change_or_new(&self.writer, false);
        if new_page {
            self.pages.push(page);
        }
        let settled = change.settle_below(floor);
        if change.last_step() != Some(step) {
            self.journal.push(Touch { step, page });
        }
        let result = body(change, position, directory.raw_word(rid.row()));
        drop(shadow);
        self.table.space().free_all(settled);
        result
    }

    /// Replaces the version of a row of the bulk insert; `None` deletes the row.
    pub fn edit_bulk(&mut self, rid: Rid, row: Option<&[u8]>, step: u64) -> Result<()> {
        self.note_rows(step);
        let page = self.table.directory().page_of(rid.row());
        if self.journal.last().is_none_or(|last| (last.step, last.page) != (step, page)) {
            self.journal.push(Touch { step, page });
        }
        self.bulk.as_mut().expect("the row is one of a bulk insert").edit(&mut self.segments, rid, row, step)
    }

    /// Notes the rows of the bulk insert as written in step `step`; called before anybody takes a position.
    pub fn note_rows(&mut self, step: u64) {
        let pages = self.bulk.as_mut().map(|bulk| bulk.note_rows(step)).unwrap_or_default();
        self.journal.extend(pages.into_iter().map(|page| Touch { step, page }));
    }

    /// Forgets what nobody can go back to, up to step `floor`.
    pub fn forget_below(&mut self, floor: u64) {
        if self.journal.last().is_some_and(|last| last.step <= floor) {
            self.journal.clear();
        }
    }

    /// The present position in the bulk insert.
    pub fn mark(&self) -> BulkMark {
        self.bulk.as_ref().map(BulkInsert::mark).unwrap_or_default()
    }

    /// Undoes the writes of the steps after `seen`, and frees what they wrote. All rows of the bulk insert are noted.
    pub fn undo_to(&mut self, mark: BulkMark, seen: u64) {
        // Lines to be undone are flushed too, so that none of them stays dirty.
        if self.flush_rest() {
            self.segments.note_written();
        }
        let mut touched = Vec::new();
        while let Some(last) = self.journal.pop_if(|last| last.step > seen) {
            touched.push(last.page);
        }
        touched.sort_unstable();
        touched.dedup();
        for page in &touched {
            self.undo_in_page(*page, seen);
        }
        if let Some(bulk) = &mut self.bulk {
            bulk.rollback_to(mark, seen, &touched);
            self.segments.note_written();
        }
    }

    fn undo_in_page(&mut self, page: u64, seen: u64) {
        let (mut versions, mut rids) = (Vec::new(), Vec::new());
        {
            let directory = self.table.directory();
            let Some(mut shadow) = self.table.shadows().slot(page).lock_existing() else { return };
            let Some(change) = shadow.change_mut(&self.writer).filter(|change| !change.is_whole_page()) else { return };
            for write in change.undo(seen) {
                versions.extend(write.version);
                let row = directory.page_base(page) + u64::from(write.position);
                let stored = directory.raw_word(row);
                if write.restored.is_none() && stored.is_empty() {
                    change.unlock(write.position);
                    rids.push(Rid::new(row, stored.incarnation()));
                }
            }
        }
        self.free(versions, rids);
    }

    fn free(&self, versions: Vec<Word>, rids: Vec<Rid>) {
        self.table.space().free_all(versions);
        // Planted: the RID of an undone insert is lost.
        self.table.space().free_rids(rids.into_iter().filter(|_| !perdura_pmem::planted(62)));
    }

    /// Takes the transaction's changes off all pages and keeps what they name: the next start decides the transaction.
    pub fn forget(&mut self) {
        let bulk = self.bulk.iter().flat_map(BulkInsert::pages);
        for page in self.pages.iter().copied().chain(bulk) {
            self.table.shadows().slot(page).lock().remove(&self.writer);
        }
    }

    /// Takes the transaction's changes off all pages: its locks in place are gone, and what it wrote is free. All that it
    /// has flushed is fenced.
    pub fn abandon(&mut self) {
        for page in std::mem::take(&mut self.pages) {
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
                versions.extend(change.take_replaced());
            }
            self.free(versions, rids);
        }
        if let Some(bulk) = self.bulk.take() {
            bulk.abandon();
        }
        self.segments.release(&self.table);
    }

    /// Flushes what is not flushed yet. Returns whether anything was written since the last call; if so, the caller
    /// fences.
    pub fn flush_rest(&mut self) -> bool {
        let flushed = self.segments.flush_rest();
        if flushed && let Some(bulk) = &mut self.bulk {
            bulk.flush_rest();
        }
        flushed
    }

    /// Brings the writes to their final state before the commit: frees what only the transaction ever saw.
    pub fn settle(&mut self) {
        if let Some(bulk) = &mut self.bulk {
            bulk.settle();
        }
        if !std::mem::take(&mut self.rewritten) {
            return;
        }
        for page in &self.pages {
            let directory = self.table.directory();
            let row = |position| directory.page_base(*page) + u64::from(position);
            let (mut versions, mut rids) = (Vec::new(), Vec::new());
            if let Some(mut shadow) = self.table.shadows().slot(*page).lock_existing()
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

    /// Hands the redo records to `add`. Called after [`TableWrites::settle`] and a fence.
    pub fn log(&self, add: &mut dyn FnMut(Record) -> Result<()>) -> Result<()> {
        let (table, directory) = (self.table.id(), self.table.directory());
        for page in &self.pages {
            let mut rows = Vec::new();
            if let Some(shadow) = self.table.shadows().slot(*page).lock_existing()
                && let Some(change) = shadow.change(&self.writer)
            {
                rows.extend(change.after().iter());
                let deleted = |position| directory.raw_word(directory.page_base(*page) + u64::from(position));
                rows.extend(change.deleted().iter().map(|position| (position, deleted(position).tombstone())));
            }
            for (position, word) in rows {
                let rid = Rid::new(directory.page_base(*page) + u64::from(position), word.incarnation());
                let (_, _, header) = self.table.chain().header(word, rid)?;
                add(Record::Row { table, rid, word, crc: header.crc })?;
            }
        }
        self.bulk.iter().flat_map(BulkInsert::records).try_for_each(add)
    }

    /// Collects the RIDs that the bulk insert leaves free; called before the commit is visible (I8).
    pub fn collect_holes(&mut self) {
        if let Some(bulk) = &mut self.bulk {
            bulk.collect_holes();
        }
    }

    /// Stores and flushes the words of the committed transaction, page by page. The caller fences.
    pub fn publish(&mut self, csn: Csn) -> Retired {
        let mut total = Tally::default();
        let mut changed = smallvec::SmallVec::new();
        let bulk = self.bulk.iter().flat_map(BulkInsert::pages);
        for page in self.pages.iter().copied().chain(bulk) {
            let tally = self.table.shadows().slot(page).lock().publish(&self.writer, page, self.table.directory());
            total.changed += tally.changed;
            total.grown += tally.grown;
            if tally.changed > 0 {
                changed.push(page);
            }
        }
        self.table.count_rows(total.grown);
        Retired { csn, pages: changed, rows: total.changed }
    }

    /// Retires what is published: hands replaced versions to purge, and counts rows. `now` is the time for reports, in
    /// seconds since 1970.
    pub fn retire(mut self, retired: Retired, now: u64) {
        if retired.rows > 0 || self.bulk.is_some() {
            self.table.set_changed(now);
        }
        if let Some(bulk) = self.bulk.take() {
            self.table.count_rows(bulk.rows());
            bulk.finish();
        }
        self.segments.release(&self.table);
        if retired.rows > 0 {
            self.table.space().retire(retired);
        }
    }

    /// Number of rows written singly.
    pub(crate) fn locks(&self) -> usize {
        let rows = |page: &u64| {
            let shadow = self.table.shadows().existing(*page)?.lock_existing()?;
            Some(shadow.change(&self.writer)?.rows_written())
        };
        self.pages.iter().filter_map(rows).sum()
    }

    /// Enters a row that a prepared transaction wrote before the restart. Returns whether nobody else holds it.
    pub(crate) fn restore(&mut self, rid: Rid, word: Word) -> bool {
        let directory = self.table.directory();
        let position = directory.position_of(rid.row());
        let is_held =
            self.table.shadows().slot(directory.page_of(rid.row())).lock().holder(&self.writer, position).is_some();
        match word.is_tombstone() {
            true => self.delete(rid, 0, 0),
            false => self.update(rid, word, 0, 0),
        }
        !is_held
    }
}
