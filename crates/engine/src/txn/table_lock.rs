//! Locks of whole tables: SERIALIZABLE.
//!
//! A reader of the table locks it shared, a transaction that is going to write as well exclusively.
//! Writers of all levels count as holders of an intention to write, which shuts readers out and
//! other writers in. As long as there are no readers, nobody writes that down: a writer is known by
//! its changes in the pages. A reader comes in four steps. It announces itself, which bars
//! transactions that are not known as writers yet; it locks one page after the other and enters the
//! writers that it finds into the lock table; it locks the table there, like a row; and once it
//! holds the table it waits until every commit that has a CSN is visible, and reads from a snapshot
//! taken then. docs/ARCHITECTURE.md says why that is enough.

use super::isolation::Isolation;
use super::lock::Locker;
use crate::changes::row_request::Contention;
use crate::error::{Error, ErrorKind, Result};
use crate::pool::held_locks::HeldLocks;
use crate::pool::locks::LockMode;
use crate::pool::owner::LockKey;
use crate::shadow::page::Holders;
use crate::table::Table;
use crate::table::whole_reader::WholeReader;
use perdura_pmem::Mutant;
use std::sync::Arc;
use std::time::Duration;

impl Locker<'_> {
    /// Locks a table as a whole until the transaction ends, waiting up to the lock wait timeout. A
    /// SERIALIZABLE transaction does so before it reads the table: shared, or exclusively if it is
    /// going to change rows that it reads. Further reads of the statement see what is committed
    /// now; rows that it has read stay valid.
    ///
    /// # Errors
    /// LockWaitTimeout, Deadlock, Killed; Configuration if the table belongs to another pool;
    /// ReadOnlyPool if a commit will never become visible because the pool failed stop.
    pub fn lock_table(&mut self, table: &Arc<Table>, mode: LockMode) -> Result<()> {
        self.lock_table_within(table, mode, Some(self.timeout))
    }

    /// Locks a table if that takes no wait for a lock. Returns whether it did.
    pub fn try_lock_table(&mut self, table: &Arc<Table>, mode: LockMode) -> Result<bool> {
        match self.lock_table_within(table, mode, None) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::LockWaitTimeout => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn lock_table_within(&mut self, table: &Arc<Table>, mode: LockMode, timeout: Option<Duration>) -> Result<()> {
        self.pool.check_own(table)?;
        self.owner.begin(self.pool.locks.clock());
        match mode {
            LockMode::Intention => self.lock_to_write(table, timeout),
            LockMode::Shared | LockMode::Exclusive => self.lock_to_read(table, mode, timeout),
        }
    }

    /// Locks a table for writing rows, unless the transaction is known as a writer.
    pub(super) fn lock_to_write(&mut self, table: &Arc<Table>, timeout: Option<Duration>) -> Result<()> {
        if !self.writes.is_admitted(table.id()) {
            self.lock_whole(table, LockMode::Intention, timeout)?;
            self.writes_to(table).set_admitted();
        }
        Ok(())
    }

    fn lock_to_read(&mut self, table: &Arc<Table>, mode: LockMode, timeout: Option<Duration>) -> Result<()> {
        // Whoever writes the table and reads it has it alone.
        let is_writer = self.writes.is_admitted(table.id());
        if self.held.reads(table) {
            return match mode {
                LockMode::Exclusive => self.lock_to_write(table, timeout),
                _ => Ok(()),
            };
        }
        let announced = WholeReader::announce(table.clone());
        self.enter_writers(table);
        // Planted: a writer that reads shares the table.
        let mode =
            if is_writer && !perdura_pmem::planted(Mutant::ReadingWriterShares) { LockMode::Exclusive } else { mode };
        self.lock_whole(table, mode, timeout)?;
        self.held.add_reader(announced);
        if mode == LockMode::Exclusive {
            self.writes_to(table).set_admitted();
        }
        // Commits of writers before may not be visible yet.
        // Planted: a reader does not wait for them.
        if !perdura_pmem::planted(Mutant::TableReaderSkipsVisible)
            && !self.pool.log.wait_visible(self.pool.log.last_csn())
        {
            self.pool.check_writable()?;
        }
        // Planted: a statement goes on reading at the snapshot from before it locked the table.
        if !perdura_pmem::planted(Mutant::TableLockKeepsOldSnapshot) {
            self.snapshots.renew_statement(self.pool);
            self.owner.set_slots(Some(self.snapshots.slots()));
        }
        Ok(())
    }

    /// Enters those who have written the table, or locked rows of it exclusively in place, into the
    /// lock table.
    fn enter_writers(&self, table: &Table) {
        let key = LockKey::whole(table.id());
        table.shadows().each(|page| {
            for writer in page.active().filter(|change| !change.only_shares()).map(|change| change.writer()) {
                // Planted: a reader does not look for the writers that are there.
                let counts = !perdura_pmem::planted(Mutant::ReaderSkipsWriters)
                    && writer.csn().is_none()
                    && !writer.moves()
                    && writer.owner() != self.owner.id;
                if counts {
                    self.pool.locks.enter_writer(key, writer);
                }
            }
        });
    }

    fn lock_whole(&mut self, table: &Table, mode: LockMode, timeout: Option<Duration>) -> Result<()> {
        let nobody = Contention { page: None, holders: Holders::new() };
        self.lock_in_table(table, LockKey::whole(table.id()), mode, timeout, nobody).map(|_| ())
    }
}

/// Refuses to read a table that a SERIALIZABLE transaction has not locked.
#[inline]
pub(super) fn check_locked(isolation: Isolation, held: &HeldLocks, table: &Table) -> Result<()> {
    if isolation != Isolation::Serializable || held.reads(table) {
        return Ok(());
    }
    let what = "is not locked; a SERIALIZABLE transaction locks a table (Locker::lock_table) before it reads it";
    Err(Error::new(ErrorKind::Configuration, format!("table {} {what}", table.name())))
}
