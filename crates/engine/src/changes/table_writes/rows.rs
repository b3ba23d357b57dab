//! Rows of a table that a transaction locks and writes singly. The place that a moved row has left
//! is freed like that of an updated one (I8).

use super::TableWrites;
use crate::changes::row_request::{Contention, InPlaceLock, RowWrite, Step, Written};
use crate::error::{Error, Result};
use crate::files::chain;
use crate::format::{Rid, VERSION_HEADER, Word};
use crate::shadow::change::Own;
use crate::shadow::page::Holders;
use crate::shadow::row_set::RowSet;
use crate::shadow::slots::Slot;
use crate::shadow::words::Spilled;
use crate::table::Table;
use crate::table::visibility::{newest_up_to, newest_with_bound_in};
use perdura_pmem::Mutant;
use std::sync::Arc;

impl TableWrites {
    /// The transaction's own version of a row; `None` if it never wrote the row. A RID that was
    /// reused names another row.
    pub(crate) fn own(&self, rid: Rid) -> Option<Own> {
        self.own_at(rid, u64::MAX)
    }

    /// The own state of a row as of the end of step `seen`; `None` if the committed row counts.
    pub(crate) fn own_at(&self, rid: Rid, seen: u64) -> Option<Own> {
        let own = self.own_in_place(rid.row(), seen)?;
        match own {
            Own::Row(word) if word.incarnation() != rid.incarnation() => None,
            own => Some(own),
        }
    }

    fn own_in_place(&self, row: u64, seen: u64) -> Option<Own> {
        // The bulk insert has the newest words alone; earlier steps are noted in the shadow.
        if let Some(bulk) = self.bulk.as_ref().filter(|bulk| seen == u64::MAX && bulk.owns_row(row)) {
            let word = bulk.word(row);
            return Some(if word.is_empty() { Own::Deleted } else { Own::Row(word) });
        }
        let directory = self.target.table.directory();
        let shadow = self.target.table.shadows().existing(directory.page_of(row))?.lock_existing()?;
        shadow.change(&self.target.writer)?.own_at(directory.position_of(row), directory.raw_word(row), seen)
    }

    /// Whether a row of the snapshot is hidden from a read that sees the steps up to `seen`. One
    /// that the transaction has written in one of these is not.
    pub(crate) fn hides(&self, row: u64, seen: u64) -> bool {
        self.hidden.has(row, seen) && self.own_in_place(row, seen).is_none()
    }

    /// Locks a row in place, if `in_place` allows it and nobody holds the row in a way that shuts
    /// the lock out.
    pub(crate) fn lock<'t>(
        &mut self,
        table: &'t Table,
        rid: Rid,
        exclusive: bool,
        in_place: impl FnOnce() -> bool,
    ) -> InPlaceLock<'t> {
        let directory = table.directory();
        let (page, position) = (directory.page_of(rid.row()), directory.position_of(rid.row()));
        let mut shadow = table.shadows().slot(page).lock();
        if exclusive && !self.touched.admit(table.shadows(), &mut shadow, page, &self.target.writer) {
            return InPlaceLock::Barred;
        }
        let known = shadow.change(&self.target.writer);
        let shares = known.is_some_and(|change| change.shares(position));
        if known.is_some_and(|change| change.holds(position)) || shares && !exclusive {
            return InPlaceLock::Taken(None);
        }
        let holders = shadow.holders(&self.target.writer, position, exclusive);
        if self.is_held_by_others(&holders) || !in_place() {
            return InPlaceLock::Contended(Contention { page: Some(shadow), holders });
        }
        match exclusive {
            true => self.touched.change(&mut shadow, page, &self.target.writer).lock(position),
            false => self.touched.share(&mut shadow, page, &self.target.writer, position),
        }
        InPlaceLock::Taken((!shares).then(|| newest_with_bound_in(&mut shadow, table, rid.row())))
    }

    /// Whether any of those who hold a row is another transaction.
    fn is_held_by_others(&self, holders: &Holders) -> bool {
        holders.iter().any(|holder| !Arc::ptr_eq(&holder.writer, &self.target.writer))
    }

    /// Unlocks a row, unless it is written. Returns whether it was locked in place.
    pub(crate) fn unlock(&mut self, rid: Rid) -> bool {
        let directory = self.target.table.directory();
        let position = directory.position_of(rid.row());
        let slot = self.target.table.shadows().existing(directory.page_of(rid.row()));
        let Some(mut shadow) = slot.and_then(Slot::lock_existing) else { return false };
        shadow.change_mut(&self.target.writer).is_some_and(|change| change.unlock(position))
    }

    /// Enters an insert. Returns false if the transaction must lock the table first.
    pub(crate) fn insert(&mut self, rid: Rid, word: Word, at: Step) -> bool {
        if !self.enter(rid, Some(word), at) {
            return false;
        }
        self.inserts += 1;
        self.versions.flush_last(&self.target.table);
        true
    }

    /// Updates or deletes a row, and locks it in place if need be and `in_place` allows it.
    pub(crate) fn write<'t>(
        &mut self,
        table: &'t Table,
        write: RowWrite,
        in_place: impl FnOnce() -> bool,
    ) -> Result<Written<'t>> {
        let RowWrite { rid, word, at, limit, read_at, holds } = write;
        let directory = table.directory();
        let (page, position) = (directory.page_of(rid.row()), directory.position_of(rid.row()));
        let mut shadow = table.shadows().slot(page).lock();
        if !self.touched.admit(table.shadows(), &mut shadow, page, &self.target.writer) {
            return Ok(Written::Barred);
        }
        let known = shadow.change(&self.target.writer);
        let own = known.and_then(|change| change.own(position, || directory.raw_word(rid.row())));
        let held = holds || known.is_some_and(|change| change.holds(position));
        let shares = known.is_some_and(|change| change.shares(position));
        let mut replaced = 0;
        match own {
            // Planted: a RID that was reused is taken for the row it named before.
            Some(Own::Row(own))
                if own.incarnation() == rid.incarnation() || perdura_pmem::planted(Mutant::ReusedRidTakenForOld) => {}
            Some(_) => return Ok(Written::Gone),
            None => {
                if !held {
                    let holders = shadow.holders(&self.target.writer, position, true);
                    if self.is_held_by_others(&holders) || !in_place() {
                        return Ok(Written::Contended(Contention { page: Some(shadow), holders }));
                    }
                }
                let (newest, csn) = newest_up_to(&mut shadow, table, rid.row(), limit.min(read_at));
                if let Some(refused) = refusal(rid, newest, csn > limit) {
                    return Ok(refused);
                }
                // Planted: a version in an unswept segment is replaced.
                if !perdura_pmem::planted(Mutant::VersionReplacedInUnsweptSegment) {
                    self.swept.ensure(table.space().segments(), newest)?;
                }
                replaced = csn;
            }
        }
        let words = word.is_some() || own.is_some();
        let (change, settled) = self.touched.open_change(&mut shadow, page, &self.target.writer, at, words);
        let stored = || directory.raw_word(rid.row());
        match word {
            Some(word) => {
                change.write(position, word, stored, at.step);
            }
            None => change.delete(position, stored, at.step),
        }
        let rows = change.after().len();
        drop(shadow);
        self.versions.flush_last(&self.target.table);
        self.rewritten |= own.is_some();
        if replaced > read_at {
            self.ahead.add(rid.row(), at.step);
        }
        if word.is_some() || own.is_some() {
            self.touched.memory.add_write(page, own.is_none(), rows);
        }
        if !settled.is_empty() {
            self.target.table.space().free_all(settled);
        }
        Ok(Written::Done { locked: !held && !shares, replaced })
    }

    /// Enters a write of a row that nobody else can write; without a word, its deletion. Returns
    /// false if the transaction must lock the table first.
    fn enter(&mut self, rid: Rid, word: Option<Word>, at: Step) -> bool {
        let directory = self.target.table.directory();
        let (page, position) = (directory.page_of(rid.row()), directory.position_of(rid.row()));
        let mut shadow = self.target.table.shadows().slot(page).lock();
        if !self.touched.admit(self.target.table.shadows(), &mut shadow, page, &self.target.writer) {
            return false;
        }
        let (change, settled) = self.touched.open_change(&mut shadow, page, &self.target.writer, at, word.is_some());
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
            self.target.table.space().free_all(settled);
        }
        true
    }

    /// Moves row `rid` to a free cell of a segment of the transaction's own, unless somebody holds
    /// the row, its newest version is not the one that `from` names or is damaged, or there is no
    /// such cell. It waits for nobody. `in_place` tells whether the row may be locked in place.
    /// Returns the version's size in bytes; `None` if the row stays.
    pub(crate) fn move_row(&mut self, rid: Rid, from: Word, at: Step, in_place: impl FnOnce() -> bool) -> Option<u64> {
        let table = self.target.table.clone();
        let is_held = matches!(self.lock(&table, rid, true, in_place), InPlaceLock::Contended(_));
        // Planted: a row is moved while another transaction holds it.
        if is_held && !perdura_pmem::planted(Mutant::LockedRowMoved) {
            return None;
        }
        // Planted: a row is moved from where it was when it was looked for.
        let is_there = table.newest(rid.row()).0 == from || perdura_pmem::planted(Mutant::RowMovedFromStalePlace);
        let found = table.chain().header(from, rid).ok().filter(|_| is_there);
        // SAFETY: the row is locked, so nobody replaces its newest version, and purge frees none
        // that is not replaced.
        let found = found.map(|(region, at, header)| (header, unsafe { chain::row(region, at, &header) }));
        // A damaged version stays damaged.
        let sound = found.filter(|(header, row)| header.checksum(row) == header.crc);
        let moved = sound.and_then(|(header, row)| {
            let word = self.versions.segments().rewrite(&table, &header, row, from)?;
            Some((word, VERSION_HEADER + row.len() as u64))
        });
        let Some((word, bytes)) = moved else {
            self.unlock(rid);
            return None;
        };
        self.enter(rid, Some(word), at);
        Some(bytes)
    }

    /// Number of rows written singly.
    pub(crate) fn locks(&self) -> usize {
        let rows = |page| {
            let shadow = self.target.table.shadows().existing(page)?.lock_existing()?;
            Some(shadow.change(&self.target.writer)?.rows_written())
        };
        self.touched.pages().filter_map(rows).sum()
    }

    /// Enters rows whose words a prepared transaction spilled before the restart. Returns whether
    /// nobody else holds them.
    pub(crate) fn restore_spilled(&mut self, page: u64, place: Word, rows: RowSet) -> Result<bool> {
        let (region, at) = self.target.table.chain().locate(place)?;
        let mut shadow = self.target.table.shadows().slot(page).lock();
        let holders = |position| shadow.holders(&self.target.writer, position, false);
        let is_free = rows.iter().all(|position| !self.is_held_by_others(&holders(position)));
        let change = self.touched.change(&mut shadow, page, &self.target.writer);
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
        let directory = self.target.table.directory();
        let position = directory.position_of(rid.row());
        let slot = self.target.table.shadows().slot(directory.page_of(rid.row()));
        let is_held = self.is_held_by_others(&slot.lock().holders(&self.target.writer, position, false));
        let at = Step { step: 0, floor: 0 };
        // Nobody reads yet.
        self.enter(rid, Some(word).filter(|word| !word.is_tombstone()), at) && !is_held
    }
}

/// Why the newest committed version of a row must not be replaced, if it must not. `is_late` says
/// that it is above the limit.
#[inline]
fn refusal<'t>(rid: Rid, newest: Word, is_late: bool) -> Option<Written<'t>> {
    if newest.is_empty() || newest.incarnation() != rid.incarnation() {
        return Some(Written::Gone);
    }
    // Planted: the first updater does not win.
    if is_late && !perdura_pmem::planted(Mutant::LostUpdate) {
        return Some(Written::Changed);
    }
    // Planted: a deleted row is changed.
    (newest.is_tombstone() && !perdura_pmem::planted(Mutant::DeletedRowChanged)).then_some(Written::Gone)
}
