//! A session locks and unlocks rows.

use super::session::Session;
use crate::changes::claim::{Claim, Contention};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Rid, Word};
use crate::pool::locks::{LockMode, LockOutcome, LockRefused};
use crate::pool::owner::LockKey;
use crate::table::Table;
use crate::table::visibility::{ReadView, RowRef};
use perdura_log::Csn;
use std::sync::Arc;
use std::time::Duration;

/// A row's newest version and an upper bound of its CSN, if its lock is new.
type Newest = Option<(Word, Csn)>;

/// How a request for a row lock ends that waits for nobody.
enum Claimed<'t> {
    /// The transaction holds the row.
    Granted(LockOutcome, Newest),
    /// The lock table decides.
    Contended(Contention<'t>),
    /// The table must be locked first.
    Barred,
}

impl Session {
    /// Locks a row, waiting up to the lock wait timeout. A row that the transaction inserted itself
    /// counts as held, without a lock.
    ///
    /// # Errors
    /// LockWaitTimeout, Deadlock, Killed.
    pub fn lock_row(&mut self, table: &Arc<Table>, rid: Rid, mode: LockMode) -> Result<LockOutcome> {
        let timeout = self.lock_wait_timeout();
        self.lock_within(table, rid, mode, Some(timeout))
    }

    /// Locks a row exclusively, if nobody else has locked it or waits for it. `None` says that
    /// [`Session::lock_row`] is to be called.
    ///
    /// # Errors
    /// Configuration if the table belongs to another pool.
    pub fn lock_free_row(&mut self, table: &Arc<Table>, rid: Rid) -> Result<Option<LockOutcome>> {
        Ok(self.claim_free(table, rid)?.map(|(outcome, _)| outcome))
    }

    /// As [`Session::lock_free_row`]; also what [`Claimed::Granted`] says of the row.
    fn claim_free(&mut self, table: &Arc<Table>, rid: Rid) -> Result<Option<(LockOutcome, Newest)>> {
        self.check_own(table)?;
        self.owner.begin(self.pool.locks.clock());
        match self.claim(table, rid, LockMode::Exclusive) {
            Claimed::Granted(outcome, newest) => Ok(Some((outcome, newest))),
            Claimed::Contended(_) | Claimed::Barred => Ok(None),
        }
    }

    /// Locks a row as [`Session::lock_free_row`] does and reads its newest version, under one lock
    /// of its page. The row is valid while it stays locked, at most until the statement ends.
    ///
    /// # Errors
    /// Configuration if the table belongs to another pool; Damaged.
    pub fn lock_and_read_free_row(
        &mut self,
        table: &Arc<Table>,
        rid: Rid,
    ) -> Result<Option<(LockOutcome, Option<RowRef>)>> {
        let Some((outcome, newest)) = self.claim_free(table, rid)? else { return Ok(None) };
        let Some((word, csn)) = newest else {
            return Ok(Some((outcome, self.read(table, rid, ReadView::Newest)?)));
        };
        // The transaction has not written the row, and the lock keeps it as it is.
        self.snapshots.statement(&self.pool);
        let row = table.row(rid, word)?;
        if row.is_some() {
            self.snapshots.note_met(csn);
        }
        Ok(Some((outcome, row)))
    }

    /// How long the session waits for a lock.
    pub(super) fn lock_wait_timeout(&self) -> Duration {
        self.lock_wait_timeout.unwrap_or_else(|| self.pool.lock_wait_timeout())
    }

    /// Locks a contended row exclusively through the lock table, waiting up to the lock wait
    /// timeout.
    pub(super) fn lock_contended(
        &mut self,
        table: &Table,
        key: LockKey,
        contention: Contention<'_>,
    ) -> Result<LockOutcome> {
        let timeout = self.lock_wait_timeout();
        self.lock_in_table(table, key, LockMode::Exclusive, Some(timeout), contention)
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
        self.check_own(table)?;
        let key = LockKey::row(table.id(), rid);
        self.owner.begin(self.pool.locks.clock());
        loop {
            match self.claim(table, rid, mode) {
                Claimed::Granted(outcome, _) => return Ok(outcome),
                Claimed::Contended(contention) => return self.lock_in_table(table, key, mode, timeout, contention),
                Claimed::Barred => self.lock_to_write(table, timeout)?,
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
        let Contention { page, holder } = contention;
        let refused = match self.pool.locks.lock(&self.owner, key, mode, timeout, holder.as_deref(), page) {
            Ok(LockOutcome::New) => {
                self.locks.push(key);
                self.count_locks();
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

    /// Locks a row in place, if the mode is exclusive and nobody is in the way. Otherwise returns
    /// what the lock table needs to know.
    fn claim<'t>(&mut self, table: &'t Arc<Table>, rid: Rid, mode: LockMode) -> Claimed<'t> {
        if table.directory().place(rid.row()).is_none() {
            return Claimed::Contended(Contention { page: None, holder: None });
        }
        let writes = self.writes.table(table, self.owner.id);
        if writes.is_in_bulk(rid) {
            return Claimed::Granted(LockOutcome::Held, None);
        }
        let (locks, key) = (&self.pool.locks, LockKey::row(table.id(), rid));
        match writes.claim(table, rid, mode == LockMode::Exclusive, || !locks.may_have(key)) {
            Claim::Taken(newest) => {
                self.locks_in_place += usize::from(newest.is_some());
                self.count_locks();
                Claimed::Granted(if newest.is_some() { LockOutcome::New } else { LockOutcome::Held }, newest)
            }
            Claim::Contended(contention) => Claimed::Contended(contention),
            Claim::Barred => Claimed::Barred,
        }
    }

    /// Notes the number of locks for reports.
    #[inline]
    pub(super) fn count_locks(&self) {
        self.owner.count_locks(self.locks.len() + self.locks_in_place);
    }

    /// Releases a lock that [`Session::lock_row`] returned as [`LockOutcome::New`], unless the
    /// transaction has written the row since.
    pub fn unlock_row(&mut self, table: &Arc<Table>, rid: Rid) {
        let key = LockKey::row(table.id(), rid);
        if self.writes.own(table.id(), rid).is_some() {
            return;
        }
        let in_place = self.writes.touches(table.id()) && self.writes.table(table, self.owner.id).unlock(rid);
        match self.locks.iter().rposition(|held| *held == key) {
            // A write that was undone has left a mark in place as well.
            Some(position) => {
                self.locks.swap_remove(position);
            }
            None => self.locks_in_place -= usize::from(in_place),
        }
        self.count_locks();
        if self.pool.locks.may_have(key) {
            self.pool.locks.unlock(&self.owner, [key]);
        }
    }
}
