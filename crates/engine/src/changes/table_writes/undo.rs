//! Undo of a transaction's writes to a table, and refused inserts.
//!
//! An insert that is refused once the row is written, because of its keys, leaves what it took free
//! at once. So however many inserts of a transaction are refused (INSERT IGNORE, upserts), it holds
//! no more room than without them. The one exception is a RID that somebody waits for, because of a
//! key that the row had before another one was refused: it stays locked until the transaction ends.
//! So there is at most one for each wait of another session.

use super::TableWrites;
use crate::changes::bulk::{BulkInsert, BulkMark};
use crate::format::Rid;
use crate::shadow::writer::LockKey;
use perdura_pmem::Mutant;

impl TableWrites {
    /// Takes back the insert of a row, the last write of the transaction; the row's keys are taken
    /// back. Nobody else can have come by the RID but for waiting for one of these keys.
    pub(crate) fn take_back_insert(&mut self, rid: Rid) {
        if let Some(bulk) = self.bulk.as_mut().filter(|bulk| bulk.owns_row(rid.row())) {
            let version = bulk.take_back_last(rid);
            self.versions.segments().note_written();
            return self.target.free([version], []);
        }
        let directory = self.target.table.directory();
        let position = directory.position_of(rid.row());
        let slot = self.target.table.shadows().slot(directory.page_of(rid.row()));
        let Some(mut shadow) = slot.lock_existing() else { return };
        let Some(change) = shadow.change_mut(&self.target.writer) else { return };
        // Planted: the version of a refused row is free while its word is still there.
        let version = if perdura_pmem::planted(Mutant::RefusedVersionFreedEarly) {
            change.after().get(position)
        } else {
            change.take_back_insert(position)
        };
        let is_waited_for = self.target.writer.has_tabled(LockKey::row(self.target.table.id(), rid));
        if is_waited_for {
            change.lock(position);
        }
        drop(shadow);
        self.inserts -= 1;
        self.touched.memory.take_words(1);
        if is_waited_for {
            self.waited_for.push(rid);
        }
        self.target.free(version, (!is_waited_for).then_some(rid));
    }

    /// Undoes the writes of the steps after `seen`, and frees what they wrote. All rows of the bulk
    /// insert are noted. Words that come back to DRAM are spilled again beyond `most` bytes, down
    /// to half of them.
    pub(crate) fn undo_to(&mut self, mark: BulkMark, seen: u64, most: usize) {
        // Lines to be undone are flushed too, so that none of them stays dirty.
        if self.flush_rest() {
            self.versions.segments().note_written();
        }
        if !self.keys.is_empty() {
            self.keys.undo(&self.target, seen);
        }
        self.hidden.undo_to(seen);
        self.ahead.undo_to(seen);
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
            self.versions.segments().note_written();
        }
    }

    /// Undoes the writes to a page of the steps after `seen`. Returns whether its words came back
    /// to DRAM for that.
    fn undo_in_page(&mut self, page: u64, seen: u64) -> bool {
        let (mut versions, mut rids) = (Vec::new(), Vec::new());
        let is_held = {
            let directory = self.target.table.directory();
            let Some(mut shadow) = self.target.table.shadows().slot(page).lock_existing() else { return false };
            let change = shadow.change_mut(&self.target.writer).filter(|change| !change.is_whole_page());
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
                    if self.target.writer.has_tabled(LockKey::row(self.target.table.id(), rid)) {
                        self.waited_for.push(rid);
                    } else {
                        change.unlock(write.position);
                        rids.push(rid);
                    }
                }
            }
            is_held
        };
        self.target.free(versions, rids);
        is_held
    }

    /// Takes the transaction's changes off all pages and keeps what they name: the next start
    /// decides the transaction.
    pub(crate) fn forget(&mut self) {
        self.keys.abandon(&self.target);
        let bulk = self.bulk.iter().flat_map(BulkInsert::pages);
        for page in self.touched.pages().chain(bulk) {
            self.target.table.shadows().slot(page).lock().remove(&self.target.writer);
        }
    }

    /// Takes the transaction's changes off all pages: its locks in place are gone, and what it
    /// wrote is free. All that it has flushed is fenced.
    pub(crate) fn abandon(&mut self) {
        // Whoever waits for an entry waits for the lock of its row.
        if !self.keys.is_empty() {
            self.keys.abandon(&self.target);
        }
        for page in self.touched.take_pages() {
            let (mut versions, mut rids) = (Vec::new(), Vec::new());
            if let Some(mut change) = self.target.table.shadows().slot(page).lock().remove(&self.target.writer) {
                let directory = self.target.table.directory();
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
            self.target.free(versions, rids);
        }
        let waited_for = std::mem::take(&mut self.waited_for);
        self.target.free([], waited_for);
        if let Some(bulk) = self.bulk.take() {
            bulk.abandon();
        }
        self.versions.segments().release(&self.target.table);
    }
}
