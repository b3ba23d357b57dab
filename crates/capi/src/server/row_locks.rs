//! How a cursor locks the rows that a statement uses, and the table under SERIALIZABLE.
//!
//! A semi-consistent lock is of a row that the caller saw unlocked: the newest version under the
//! lock is compared with the one that the caller saw.

use super::code::{Failure, Outcome, PerduraCode};
use super::cursor::{PerduraCursor, PerduraLock, Reading};
use super::session::Session;
use perdura_engine::{Isolation, LockMode, LockOutcome, ReadView, Rid, RowRef};

impl PerduraCursor {
    /// Locks the table as a whole if the transaction is SERIALIZABLE. False if others keep it and
    /// the statement skips what they have locked.
    pub(super) fn lock_table(&mut self, session: &mut Session) -> Outcome<bool> {
        if session.txn.isolation() != Isolation::Serializable {
            return Ok(true);
        }
        let mode = match self.lock {
            PerduraLock::None | PerduraLock::Shared => LockMode::Shared,
            PerduraLock::Exclusive | PerduraLock::Write => LockMode::Exclusive,
        };
        if session.txn.locks().try_lock_table(&self.table, mode)? {
            return Ok(true);
        }
        if !self.skip_locked {
            session.waiting(|txn| txn.locks().lock_table(&self.table, mode))?;
        }
        Ok(!self.skip_locked)
    }

    /// Whether the statement reads from the snapshot, and locks a row, if at all, when it changes
    /// it. A transaction that has locked the table needs no shared row locks, and finds no row
    /// changed.
    pub(super) fn reads_plainly(&self, session: &Session) -> bool {
        let has_table = session.txn.isolation() == Isolation::Serializable;
        match self.lock {
            PerduraLock::None => true,
            PerduraLock::Shared => has_table,
            PerduraLock::Write => has_table || session.txn.has_snapshot(),
            PerduraLock::Exclusive => false,
        }
    }

    /// Locks the current row, which the caller is going to use. False if the caller must not use
    /// what it saw: the row has changed, and the next read gives it out once more; or somebody else
    /// has locked it and the statement skips it.
    pub(super) fn lock_semi_consistent(&mut self, session: &mut Session) -> Outcome<bool> {
        let (Some(Reading::SemiConsistent(mode)), Some(offered), Some(rid)) =
            (self.reading, self.offered.take(), self.rid)
        else {
            return Ok(true);
        };
        let Some((outcome, newest)) = self.lock_for_read(session, rid, mode)? else { return Ok(false) };
        self.newly_locked = outcome == LockOutcome::New;
        self.again = !same_version(newest, Some(offered));
        Ok(!self.again)
    }

    /// Gives the row that was locked after it was seen out as it is now. `None` if it is gone.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    pub(super) unsafe fn read_again(&mut self, session: &mut Session, record: *mut u8) -> Outcome<Option<PerduraCode>> {
        let rid = self.current()?;
        let newest = session.txn.read(&self.table, rid, ReadView::Newest)?;
        if let Some(row) = newest {
            // SAFETY: as the caller vouches for; the row is locked.
            unsafe { self.unpack(rid, row, record)? };
        }
        if self.is_conflict(session, rid, newest)? {
            // The record shows the newest version, or else the deleted one, so that the caller can
            // tell whether it would use the row.
            return Err(self.changed(rid));
        }
        if newest.is_none() {
            self.unlock(session);
        }
        Ok(newest.map(|_| PerduraCode::Ok))
    }

    #[cold]
    pub(super) fn changed(&self, rid: Rid) -> Failure {
        let (row, table) = (rid.to_u64(), self.table.name());
        let message =
            format!("row {row:#x} of table {table} was changed after this transaction's snapshot; try it again");
        Failure::new(PerduraCode::RecordChanged, message)
    }

    /// Locks the row to be written, unless the read has locked it.
    pub(super) fn lock_for_write(&mut self, session: &mut Session, rid: Rid) -> Outcome<()> {
        match self.reading {
            Some(Reading::Locked(LockMode::Exclusive)) => Ok(()),
            Some(Reading::SemiConsistent(_)) => match self.lock_semi_consistent(session)? {
                true => Ok(()),
                false => Err(self.changed(rid)),
            },
            _ => self.lock_row(session, rid, LockMode::Exclusive).map(|_| ()),
        }
    }

    /// Locks the current row, which the caller uses and leaves as it is, as a write would.
    pub(super) fn keep(&mut self, session: &mut Session) -> Outcome<()> {
        let rid = self.current()?;
        let has_table = session.txn.isolation() == Isolation::Serializable;
        if self.reading != Some(Reading::Plain) || has_table {
            return self.lock_for_write(session, rid);
        }
        self.lock_row(session, rid, LockMode::Exclusive)?;
        let newest = session.txn.read(&self.table, rid, ReadView::Newest)?;
        if newest.is_none() || self.is_conflict(session, rid, newest)? { Err(self.changed(rid)) } else { Ok(()) }
    }

    /// Locks a row and reads its newest version. `None` if somebody else has locked it and the
    /// statement skips it.
    pub(super) fn lock_for_read(
        &self,
        session: &mut Session,
        rid: Rid,
        mode: LockMode,
    ) -> Outcome<Option<(LockOutcome, Option<RowRef>)>> {
        if mode == LockMode::Exclusive
            && let Some(locked) = session.txn.locks().lock_and_read_free_row(&self.table, rid)?
        {
            return Ok(Some(locked));
        }
        let outcome = match (self.skip_locked, mode) {
            (true, _) => session.txn.locks().try_lock_row(&self.table, rid, mode)?,
            // It is contended, as the attempt above has found.
            (false, LockMode::Exclusive) => Some(session.waiting(|txn| txn.locks().lock_row(&self.table, rid, mode))?),
            (false, _) => Some(self.lock_row(session, rid, mode)?),
        };
        let Some(outcome) = outcome else { return Ok(None) };
        Ok(Some((outcome, session.txn.read(&self.table, rid, ReadView::Newest)?)))
    }

    /// Whether a locked row, whose newest version is `newest`, has changed since the transaction's
    /// snapshot.
    pub(super) fn is_conflict(&self, session: &mut Session, rid: Rid, newest: Option<RowRef>) -> Outcome<bool> {
        if !session.txn.has_snapshot() {
            return Ok(false);
        }
        let seen = session.txn.read(&self.table, rid, ReadView::Snapshot)?;
        Ok(!same_version(newest, seen) && session.txn.is_changed(&self.table, rid))
    }

    /// Locks a row and reads it. `None` if it is gone or skipped.
    pub(super) fn lock_and_read(&mut self, session: &mut Session, rid: Rid, mode: LockMode) -> Outcome<Option<RowRef>> {
        self.newly_locked = false;
        let Some((outcome, row)) = self.lock_for_read(session, rid, mode)? else { return Ok(None) };
        self.newly_locked = outcome == LockOutcome::New;
        if self.is_conflict(session, rid, row)? {
            return Err(self.changed(rid));
        }
        if row.is_none() {
            self.unlock(session);
        }
        Ok(row)
    }

    /// Releases the row's lock if the last read or semi-consistent lock took it.
    pub(super) fn unlock(&mut self, session: &mut Session) {
        if std::mem::take(&mut self.newly_locked)
            && let Some(rid) = self.rid
        {
            session.txn.locks().unlock_row(&self.table, rid);
        }
        self.leave_row();
    }

    /// Forgets what a semi-consistent lock of the current row would need.
    pub(super) fn leave_row(&mut self) {
        self.offered = None;
        self.again = false;
        self.newly_locked = false;
    }

    /// Locks a row. If it must wait, the session's hooks are called around the wait.
    pub(super) fn lock_row(&self, session: &mut Session, rid: Rid, mode: LockMode) -> Outcome<LockOutcome> {
        let locked = match mode {
            LockMode::Exclusive => session.txn.locks().lock_free_row(&self.table, rid),
            _ => session.txn.locks().try_lock_row(&self.table, rid, mode),
        };
        match locked? {
            Some(outcome) => Ok(outcome),
            None => session.waiting(|txn| txn.locks().lock_row(&self.table, rid, mode)).map_err(Failure::from),
        }
    }
}

fn same_version(left: Option<RowRef>, right: Option<RowRef>) -> bool {
    let place = |row: RowRef| {
        // SAFETY: both were read in the statement that is running.
        let bytes = unsafe { row.bytes() };
        (bytes.as_ptr(), bytes.len())
    };
    left.map(place) == right.map(place)
}
