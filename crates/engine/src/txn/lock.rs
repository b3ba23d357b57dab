//! Row locks of a session.

use super::snapshots::Snapshots;
use crate::changes::row_request::{Contention, InPlaceLock};
use crate::changes::table_writes::TableWrites;
use crate::changes::write_set::WriteSet;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Rid, Word};
use crate::pool::Pool;
use crate::pool::held_locks::HeldLocks;
use crate::pool::locks::{LockMode, LockOutcome, LockRefused};
use crate::pool::owner::{LockKey, Owner};
use crate::shadow::change::Own;
use crate::shadow::page::Holders;
use crate::table::Table;
use crate::table::visibility::RowRef;
use perdura_log::Csn;
use std::sync::Arc;
use std::time::Duration;

/// A row's newest version and an upper bound of its CSN, if its lock is new.
type Newest = Option<(Word, Csn)>;

/// How a request for a row lock ends that waits for nobody.
enum RowLock<'t> {
    /// The transaction holds the row.
    Granted(LockOutcome, Newest),
    /// The lock table decides.
    Contended(Contention<'t>),
    /// The table must be locked first.
    Barred,
}

/// Locks rows and tables for a session ([`Session::locks`](crate::Session::locks)).
pub struct Locker<'s> {
    pub(super) pool: &'s Pool,
    pub(super) owner: &'s Arc<Owner>,
    pub(super) snapshots: &'s mut Snapshots,
    pub(super) writes: &'s mut WriteSet,
    pub(super) held: &'s mut HeldLocks,
    /// How long the session waits for a lock.
    pub(super) timeout: Duration,
}

impl Locker<'_> {
    /// Writes of the transaction to `table`.
    #[inline]
    pub(super) fn writes_to(&mut self, table: &Arc<Table>) -> &mut TableWrites {
        self.writes.table(table, self.owner.id)
    }

    /// Locks a row, waiting up to the lock wait timeout. A row that the transaction inserted itself
    /// counts as held, without a lock.
    ///
    /// # Errors
    /// LockWaitTimeout, Deadlock, Killed.
    pub fn lock_row(&mut self, table: &Arc<Table>, rid: Rid, mode: LockMode) -> Result<LockOutcome> {
        self.lock_within(table, rid, mode, Some(self.timeout))
    }

    /// Locks a row exclusively, if nobody else has locked it or waits for it. `None` says that
    /// [`Locker::lock_row`] is to be called.
    ///
    /// # Errors
    /// Configuration if the table belongs to another pool.
    pub fn lock_free_row(&mut self, table: &Arc<Table>, rid: Rid) -> Result<Option<LockOutcome>> {
        Ok(self.try_lock_in_place(table, rid)?.map(|(outcome, _)| outcome))
    }

    /// As [`Locker::lock_free_row`]; also what [`RowLock::Granted`] says of the row.
    fn try_lock_in_place(&mut self, table: &Arc<Table>, rid: Rid) -> Result<Option<(LockOutcome, Newest)>> {
        self.pool.check_own(table)?;
        self.owner.begin(self.pool.locks.clock());
        match self.lock_in_place(table, rid, LockMode::Exclusive) {
            RowLock::Granted(outcome, newest) => Ok(Some((outcome, newest))),
            RowLock::Contended(_) | RowLock::Barred => Ok(None),
        }
    }

    /// Locks a row as [`Locker::lock_free_row`] does and reads its newest version, under one lock
    /// of its page. The row is valid while it stays locked, at most until the statement ends.
    ///
    /// # Errors
    /// Configuration if the table belongs to another pool; Damaged.
    pub fn lock_and_read_free_row(
        &mut self,
        table: &Arc<Table>,
        rid: Rid,
    ) -> Result<Option<(LockOutcome, Option<RowRef>)>> {
        let Some((outcome, newest)) = self.try_lock_in_place(table, rid)? else { return Ok(None) };
        let Some((word, csn)) = newest else {
            return Ok(Some((outcome, self.read_newest(table, rid)?)));
        };
        // The transaction has not written the row, and the lock keeps it as it is.
        self.snapshots.statement(self.pool);
        let row = table.row(rid, word)?;
        if row.is_some() {
            self.snapshots.note_read(csn);
        }
        Ok(Some((outcome, row)))
    }

    /// Locks a contended row exclusively through the lock table, waiting up to the lock wait
    /// timeout.
    pub(super) fn lock_contended(
        &mut self,
        table: &Table,
        key: LockKey,
        contention: Contention<'_>,
    ) -> Result<LockOutcome> {
        self.lock_in_table(table, key, LockMode::Exclusive, Some(self.timeout), contention)
    }

    /// Locks a row if that takes no wait but for one that is being moved. Returns `None` if it
    /// would.
    pub fn try_lock_row(&mut self, table: &Arc<Table>, rid: Rid, mode: LockMode) -> Result<Option<LockOutcome>> {
        match self.lock_within(table, rid, mode, None) {
            Ok(outcome) => Ok(Some(outcome)),
            Err(error) if error.kind() == ErrorKind::LockWaitTimeout => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn lock_within(
        &mut self,
        table: &Arc<Table>,
        rid: Rid,
        mode: LockMode,
        timeout: Option<Duration>,
    ) -> Result<LockOutcome> {
        self.pool.check_own(table)?;
        let key = LockKey::row(table.id(), rid);
        self.owner.begin(self.pool.locks.clock());
        loop {
            match self.lock_in_place(table, rid, mode) {
                RowLock::Granted(outcome, _) => return Ok(outcome),
                RowLock::Contended(contention) => return self.lock_in_table(table, key, mode, timeout, contention),
                RowLock::Barred => self.lock_to_write(table, timeout)?,
            }
        }
    }

    /// Locks a row or table through the lock table.
    pub(super) fn lock_in_table(
        &mut self,
        table: &Table,
        key: LockKey,
        mode: LockMode,
        timeout: Option<Duration>,
        contention: Contention<'_>,
    ) -> Result<LockOutcome> {
        let Contention { page, holders } = contention;
        let refused = match self.pool.locks.lock(self.owner, key, mode, timeout, &holders, page) {
            Ok(LockOutcome::New) => {
                self.held.add(key);
                self.note_count();
                return Ok(LockOutcome::New);
            }
            Ok(LockOutcome::Held) => return Ok(LockOutcome::Held),
            Err(refused) => refused,
        };
        if refused == LockRefused::Deadlock {
            self.pool.locks.name_deadlock(|id| self.pool.name_of(id));
        }
        let (kind, what) = match refused {
            LockRefused::Timeout => (ErrorKind::LockWaitTimeout, "could not be locked within the lock wait timeout"),
            LockRefused::WouldWait => (ErrorKind::LockWaitTimeout, "is locked by another transaction"),
            LockRefused::Deadlock => {
                (ErrorKind::Deadlock, "could not be locked: the wait would have closed a cycle (deadlock)")
            }
            LockRefused::Killed => (ErrorKind::Killed, "could not be locked: the statement was killed while it waited"),
        };
        let target = match key.rid() {
            Some(rid) => format!("row {:#x} of table {}", rid.to_u64(), table.name()),
            None => format!("table {}", table.name()),
        };
        Err(Error::new(kind, format!("{target} {what}")))
    }

    /// Locks a row in place, if nobody is in the way. Otherwise returns what the lock table needs
    /// to know.
    fn lock_in_place<'t>(&mut self, table: &'t Arc<Table>, rid: Rid, mode: LockMode) -> RowLock<'t> {
        if !table.directory().has_row(rid.row()) {
            return RowLock::Contended(Contention { page: None, holders: Holders::new() });
        }
        let (pool, key) = (self.pool, LockKey::row(table.id(), rid));
        let writes = self.writes_to(table);
        if writes.is_in_bulk(rid) {
            return RowLock::Granted(LockOutcome::Held, None);
        }
        match writes.lock(table, rid, mode == LockMode::Exclusive, || !pool.locks.may_have(key)) {
            InPlaceLock::Taken(newest) => {
                if newest.is_some() {
                    self.held.add_in_place();
                }
                self.note_count();
                RowLock::Granted(if newest.is_some() { LockOutcome::New } else { LockOutcome::Held }, newest)
            }
            InPlaceLock::Contended(contention) => RowLock::Contended(contention),
            InPlaceLock::Barred => RowLock::Barred,
        }
    }

    /// Notes the number of locks for reports.
    #[inline]
    fn note_count(&self) {
        self.owner.count_locks(self.held.count());
    }

    /// Releases a lock that [`Locker::lock_row`] returned as [`LockOutcome::New`], unless the
    /// transaction has written the row since.
    pub fn unlock_row(&mut self, table: &Arc<Table>, rid: Rid) {
        let key = LockKey::row(table.id(), rid);
        if self.writes.own(table.id(), rid).is_some() {
            return;
        }
        let in_place = self.writes.touches(table.id()) && self.writes_to(table).unlock(rid);
        self.held.remove(key, in_place);
        self.note_count();
        if self.pool.locks.may_have(key) {
            self.pool.locks.unlock(self.owner, [key]);
        }
    }

    /// Reads the newest version of a row: an own one, or the newest committed one.
    pub(super) fn read_newest(&mut self, table: &Arc<Table>, rid: Rid) -> Result<Option<RowRef>> {
        self.snapshots.statement(self.pool);
        match self.writes.own(table.id(), rid) {
            Some(Own::Row(word)) => return table.row(rid, word),
            Some(Own::Deleted) => return Ok(None),
            None => {}
        }
        let (word, csn) = table.newest_with_bound(rid.row());
        let row = table.row(rid, word)?;
        if row.is_some() {
            self.snapshots.note_read(csn);
        }
        Ok(row)
    }
}
