//! The locks that a session holds.

use super::locks::LockTable;
use super::owner::{LockKey, Owner};
use crate::table::Table;
use crate::table::whole_reader::WholeReader;

/// Number of locks that the list keeps room for between transactions, so that a large one leaves no
/// memory behind.
const LOCKS_KEPT: usize = 1024;

/// The locks that a session holds.
#[derive(Default)]
pub(crate) struct HeldLocks {
    /// Locks held through the lock table.
    tabled: Vec<LockKey>,
    /// Number of row locks held in place.
    in_place: usize,
    /// The tables that it has locked as a whole. A restart forgets them: it reads no more.
    reading: Vec<WholeReader>,
}

impl HeldLocks {
    /// Adds a lock held through the lock table.
    pub(crate) fn add(&mut self, key: LockKey) {
        self.tabled.push(key);
    }

    /// Adds a row lock held in place.
    #[inline]
    pub(crate) fn add_in_place(&mut self) {
        self.in_place += 1;
    }

    /// Adds a table that is locked as a whole.
    pub(crate) fn add_reader(&mut self, reader: WholeReader) {
        self.reading.push(reader);
    }

    /// Number of locks.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.tabled.len() + self.in_place
    }

    /// Whether a table is locked as a whole.
    pub(crate) fn reads(&self, table: &Table) -> bool {
        self.reading.iter().any(|reader| reader.reads(table))
    }

    /// Whether any table is locked as a whole.
    pub(crate) fn reads_any(&self) -> bool {
        !self.reading.is_empty()
    }

    /// Takes a row lock off, which was also held `in_place` if so.
    pub(crate) fn remove(&mut self, key: LockKey, in_place: bool) {
        match self.tabled.iter().rposition(|held| *held == key) {
            // A write that was undone has left a mark in place as well.
            Some(position) => {
                self.tabled.swap_remove(position);
            }
            None => self.in_place -= usize::from(in_place),
        }
    }

    /// Releases all locks, with those that others have put into the lock table in the owner's name,
    /// and most of the list's memory.
    pub(crate) fn release(&mut self, locks: &LockTable, owner: &Owner, by_others: Vec<LockKey>) {
        if !self.tabled.is_empty() || !by_others.is_empty() {
            locks.unlock(owner, self.tabled.drain(..).chain(by_others));
        }
        self.tabled.shrink_to(LOCKS_KEPT);
        self.in_place = 0;
        self.reading.clear();
    }
}
