//! A session locks and unlocks rows.

use super::session::Session;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Rid;
use crate::pool::locks::{LockMode, LockOutcome, LockRefused};
use crate::pool::owner::RowKey;
use crate::table::Table;
use std::sync::Arc;
use std::time::Duration;

impl Session {
    /// Locks a row, waiting up to the lock wait timeout. A row that the transaction inserted itself counts as held,
    /// without a lock.
    ///
    /// # Errors
    /// LockWaitTimeout, Deadlock, Killed.
    pub fn lock_row(&mut self, table: &Arc<Table>, rid: Rid, mode: LockMode) -> Result<LockOutcome> {
        let timeout = self.lock_wait_timeout.unwrap_or_else(|| self.pool.lock_wait_timeout());
        self.lock_within(table, rid, mode, Some(timeout))
    }

    /// Locks a row if that takes no wait. Returns `None` if it would.
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
        if self.owns_insert(table, rid) {
            return Ok(LockOutcome::Held);
        }
        let key = RowKey { table: table.id(), rid };
        self.owner.begin(self.pool.locks.clock());
        let refused = match self.pool.locks.lock(&self.owner, key, mode, timeout) {
            Ok(LockOutcome::New) => {
                self.locks.push(key);
                self.owner.count_locks(self.locks.len());
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
        Err(Error::new(kind, format!("row {:#x} of table {} {what}", rid.to_u64(), table.name())))
    }

    fn owns_insert(&self, table: &Table, rid: Rid) -> bool {
        self.writes.own(table.id(), rid).is_some_and(|own| own.base.is_empty())
    }

    /// Releases a lock that [`Session::lock_row`] returned as [`LockOutcome::New`], unless the transaction has written
    /// the row since.
    pub fn unlock_row(&mut self, table: &Arc<Table>, rid: Rid) {
        let key = RowKey { table: table.id(), rid };
        if self.writes.own(table.id(), rid).is_some() {
            return;
        }
        if let Some(position) = self.locks.iter().rposition(|held| *held == key) {
            self.locks.swap_remove(position);
            self.owner.count_locks(self.locks.len());
            self.pool.locks.unlock(&self.owner, [key]);
        }
    }
}
