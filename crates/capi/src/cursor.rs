//! An open table: packs records into rows and back, walks the table, locks what is read.
//!
//! A cursor belongs to one server table handler and is used by the thread of the session given with each call. It stands
//! on the row read last; update, delete and unlock mean that row.

use crate::code::{Failure, Outcome, PerduraCode};
use crate::layout::Layout;
use crate::row::{PackError, Packer, Unpacker};
use crate::session::Session;
use perdura_engine::format::ROW_BYTES_MAX;
use perdura_engine::{Csn, Engine, LockMode, LockOutcome, ReadView, Rid, RowRef, Scan, Table};
use std::sync::Arc;

/// How rows are locked when they are read.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerduraLock {
    /// Not at all.
    None = 0,
    /// Against writers.
    Shared,
    /// Against everybody who locks.
    Exclusive,
    /// As Exclusive, for a statement that changes rows: once the transaction has a snapshot, rows are read from it and locked when
    /// they are changed.
    Write,
}

/// How a statement reads the rows it is going to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Unlocked, from the snapshot.
    Plain,
    /// Unlocked; the caller claims those it is going to use.
    ToClaim(LockMode),
    /// Each locked before the caller gets it.
    Locked(LockMode),
}

impl Reading {
    /// Of rows that are locked or claimed.
    fn of_locked(lock: PerduraLock, claims: bool) -> Reading {
        let mode = if lock == PerduraLock::Shared { LockMode::Shared } else { LockMode::Exclusive };
        if claims { Reading::ToClaim(mode) } else { Reading::Locked(mode) }
    }
}

/// An open table.
pub struct PerduraCursor {
    engine: Engine,
    table: Arc<Table>,
    layout: Layout,
    packer: Packer,
    whole: Unpacker,
    chosen: Option<Unpacker>,
    buffer: Vec<u8>,
    scan: Option<Scan>,
    rid: Option<Rid>,
    lock: PerduraLock,
    skip_locked: bool,
    claims: bool,
    /// The last commit a search has seen.
    searched: Csn,
    /// How the present walk reads. Settled when it begins as far as its snapshot decides it, else at its first row.
    walk: Option<Reading>,
    /// How the current row was read.
    reading: Option<Reading>,
    /// The current row as it was given out unlocked, for the caller to claim.
    offered: Option<RowRef>,
    /// The current row was claimed and has changed: the next read gives it again, locked.
    again: bool,
    newly_locked: bool,
}

/// Buffers up to so many bytes are kept from statement to statement.
const BUFFER_KEPT: usize = 1 << 20;

impl PerduraCursor {
    pub(crate) fn new(engine: Engine, table: Arc<Table>, layout: Layout) -> PerduraCursor {
        PerduraCursor {
            engine,
            table,
            packer: Packer::new(&layout),
            whole: Unpacker::new(&layout),
            chosen: None,
            layout,
            buffer: Vec::new(),
            scan: None,
            rid: None,
            lock: PerduraLock::None,
            skip_locked: false,
            claims: false,
            searched: 0,
            walk: None,
            reading: None,
            offered: None,
            again: false,
            newly_locked: false,
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    pub(crate) fn row(&self) -> Option<Rid> {
        self.rid
    }

    /// Sets how rows are locked from now on.
    pub(crate) fn set_lock(&mut self, lock: PerduraLock, skip_locked: bool) {
        self.lock = lock;
        self.skip_locked = skip_locked;
        self.walk = None;
        self.reading = None;
    }

    /// Sets whether the caller claims the rows it is going to use, so that others need not be locked.
    pub(crate) fn set_claims(&mut self, claims: bool) {
        self.claims = claims;
    }

    /// Sets the columns to unpack; `None` for all.
    pub(crate) fn set_columns(&mut self, wanted: Option<&dyn Fn(usize) -> bool>) {
        self.chosen = wanted.map(|wanted| Unpacker::for_columns(&self.layout, wanted));
    }

    /// Replaces a table that was truncated by its successor.
    pub(crate) fn refresh(&mut self) -> Outcome<()> {
        if self.table.is_dropped() {
            self.table = self.engine.table(&self.table.name())?;
        }
        Ok(())
    }

    pub(crate) fn set_table(&mut self, table: Arc<Table>) {
        self.table = table;
    }

    /// Ends a statement's use.
    pub(crate) fn reset(&mut self) {
        self.scan = None;
        self.rid = None;
        self.chosen = None;
        self.claims = false;
        self.leave_row();
        if self.buffer.capacity() > BUFFER_KEPT {
            self.buffer = Vec::new();
        }
    }

    /// # Safety
    /// `record` must be a record of this table.
    #[inline]
    unsafe fn pack(&mut self, record: *const u8) -> Outcome<()> {
        // SAFETY: as the caller vouches for.
        unsafe { self.packer.pack(record, &mut self.buffer, ROW_BYTES_MAX) }.map_err(|error| self.pack_failure(error))
    }

    #[cold]
    fn pack_failure(&self, error: PackError) -> Failure {
        let (code, what) = match error {
            PackError::TooLarge(bytes) => {
                (PerduraCode::RowTooLarge, format!("a row of {bytes} bytes is longer than {ROW_BYTES_MAX} bytes"))
            }
            PackError::OutOfMemory => (PerduraCode::OutOfMemory, "no memory for the packed row".to_owned()),
            PackError::BadRecord => {
                (PerduraCode::Damaged, "the server's record has a varchar longer than its column".to_owned())
            }
        };
        Failure::new(code, format!("table {}: {what}", self.table.name()))
    }

    /// # Safety
    /// `record` must be a record buffer of this table, `row` alive.
    #[inline]
    unsafe fn unpack(&self, rid: Rid, row: RowRef, record: *mut u8) -> Outcome {
        let unpacker = self.chosen.as_ref().unwrap_or(&self.whole);
        // SAFETY: as the caller vouches for.
        match unsafe { unpacker.unpack(row.bytes(), record) } {
            Ok(()) => Ok(PerduraCode::Ok),
            Err(_) => Err(self.damaged(rid)),
        }
    }

    #[cold]
    fn damaged(&self, rid: Rid) -> Failure {
        let (table, row) = (self.table.name(), rid.to_u64());
        let message =
            format!("row {row:#x} of table {table} is not one of its definition; run `perdura check` on the pool");
        Failure::new(PerduraCode::Damaged, message)
    }

    /// Inserts a record.
    ///
    /// # Safety
    /// `record` must be a record of this table.
    #[inline]
    pub(crate) unsafe fn insert(&mut self, session: &mut Session, record: *const u8) -> Outcome {
        // SAFETY: as the caller vouches for.
        unsafe { self.pack(record)? };
        self.rid = Some(session.txn.insert(&self.table, &self.buffer)?);
        Ok(PerduraCode::Ok)
    }

    fn current(&self) -> Outcome<Rid> {
        self.rid.ok_or_else(|| Failure::new(PerduraCode::NotFound, "no row was read to be changed"))
    }

    /// Replaces the current row.
    ///
    /// # Safety
    /// `record` must be a record of this table.
    pub(crate) unsafe fn update(&mut self, session: &mut Session, record: *const u8) -> Outcome {
        let rid = self.current()?;
        // SAFETY: as the caller vouches for.
        unsafe { self.pack(record)? };
        self.lock_for_write(session, rid)?;
        session.txn.update(&self.table, rid, &self.buffer).map_err(|error| self.lost(rid, error.into()))?;
        self.newly_locked = false;
        Ok(PerduraCode::Ok)
    }

    /// Deletes the current row.
    pub(crate) fn delete(&mut self, session: &mut Session) -> Outcome {
        let rid = self.current()?;
        self.lock_for_write(session, rid)?;
        session.txn.delete(&self.table, rid).map_err(|error| self.lost(rid, error.into()))?;
        self.newly_locked = false;
        Ok(PerduraCode::Ok)
    }

    /// Locks the row to be written unless it was locked when read, with the session's hooks around a wait.
    fn lock_for_write(&mut self, session: &mut Session, rid: Rid) -> Outcome<()> {
        match self.reading {
            Some(Reading::Locked(LockMode::Exclusive)) => Ok(()),
            Some(Reading::ToClaim(_)) => match self.claim(session)? {
                true => Ok(()),
                false => Err(self.changed(rid)),
            },
            _ => lock(session, &self.table, rid, LockMode::Exclusive).map(|_| ()),
        }
    }

    /// A row that was read and is gone when it is to be written was deleted by somebody else.
    #[cold]
    fn lost(&self, rid: Rid, failure: Failure) -> Failure {
        if failure.code != PerduraCode::NotFound || self.table.is_dropped() {
            return failure;
        }
        let message =
            format!("row {:#x} of table {} was deleted by another transaction", rid.to_u64(), self.table.name());
        Failure::new(PerduraCode::RecordChanged, message)
    }

    /// Begins a walk over the table.
    pub(crate) fn start_scan(&mut self, session: &mut Session) {
        self.leave_row();
        // Were it settled later, a snapshot taken meanwhile could be newer than what the walk sees.
        self.walk = self.reads_plainly(session).then_some(Reading::Plain);
        self.scan = Some(match self.lock {
            PerduraLock::None => session.txn.scan(&self.table),
            _ => session.txn.scan_to_lock(&self.table),
        });
    }

    /// Begins a search for a row to change as the primary changed it, among the newest rows. None is locked by it: a row is claimed
    /// when it is changed, and if it is another by then that is a conflict, and the transaction is to be done again.
    pub(crate) fn start_search(&mut self, session: &mut Session) -> Outcome<()> {
        self.searched = session.txn.catch_up()?;
        self.claims = true;
        self.start_scan(session);
        Ok(())
    }

    /// Begins the search again if more was committed since it began.
    pub(crate) fn search_again(&mut self, session: &mut Session) -> Outcome<bool> {
        let again = session.txn.is_behind(self.searched);
        if again {
            self.start_search(session)?;
        }
        Ok(again)
    }

    /// Ends the walk.
    pub(crate) fn end_scan(&mut self) {
        self.scan = None;
    }

    /// The walk's next row.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    #[inline]
    pub(crate) unsafe fn next(&mut self, session: &mut Session, record: *mut u8) -> Outcome {
        let reading = *self.walk.get_or_insert_with(|| Reading::of_locked(self.lock, self.claims));
        self.reading = Some(reading);
        if let Reading::Locked(mode) = reading {
            // SAFETY: as the caller vouches for.
            return unsafe { self.next_locked(session, record, mode) };
        }
        if std::mem::take(&mut self.again)
            // SAFETY: as the caller vouches for.
            && let Some(code) = unsafe { self.read_again(session, record)? }
        {
            return Ok(code);
        }
        let Some(scan) = &mut self.scan else { return Ok(PerduraCode::End) };
        match scan.next(&mut session.txn)? {
            Some((rid, row)) => {
                self.rid = Some(rid);
                if reading != Reading::Plain {
                    self.offered = Some(row);
                    self.newly_locked = false;
                }
                // SAFETY: as the caller vouches for; the row is valid until the statement ends.
                unsafe { self.unpack(rid, row, record) }
            }
            None => Ok(PerduraCode::End),
        }
    }

    /// Whether rows are read from the snapshot and locked, if at all, when they are changed.
    fn reads_plainly(&self, session: &Session) -> bool {
        match self.lock {
            PerduraLock::None => true,
            PerduraLock::Write => session.txn.has_snapshot(),
            PerduraLock::Shared | PerduraLock::Exclusive => false,
        }
    }

    /// Locks the row that was given out last, which the caller is going to use. False if the caller must not use it as it was
    /// given out: it has changed, and the next read gives it again, locked; or somebody has locked it and it is left out.
    pub(crate) fn claim(&mut self, session: &mut Session) -> Outcome<bool> {
        let (Some(Reading::ToClaim(mode)), Some(offered), Some(rid)) = (self.reading, self.offered.take(), self.rid)
        else {
            return Ok(true);
        };
        let Some(outcome) = self.lock_unless_skipped(session, rid, mode)? else { return Ok(false) };
        self.newly_locked = outcome == LockOutcome::New;
        let newest = session.txn.read(&self.table, rid, ReadView::Newest)?;
        self.again = !same_version(newest, Some(offered));
        Ok(!self.again)
    }

    /// Gives the claimed row out as it is now, under its lock; nothing if it is gone.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    unsafe fn read_again(&mut self, session: &mut Session, record: *mut u8) -> Outcome<Option<PerduraCode>> {
        let rid = self.current()?;
        let newest = session.txn.read(&self.table, rid, ReadView::Newest)?;
        if let Some(row) = newest {
            // SAFETY: as the caller vouches for; the row is locked.
            unsafe { self.unpack(rid, row, record)? };
        }
        if self.is_conflict(session, rid, newest)? {
            // The record shows the newest version, or the one that is gone: whether it matters is the caller's to say.
            return Err(self.changed(rid));
        }
        if newest.is_none() {
            self.unlock(session);
        }
        Ok(newest.map(|_| PerduraCode::Ok))
    }

    #[cold]
    fn changed(&self, rid: Rid) -> Failure {
        let (row, table) = (rid.to_u64(), self.table.name());
        let message =
            format!("row {row:#x} of table {table} was changed after this transaction's snapshot; try it again");
        Failure::new(PerduraCode::RecordChanged, message)
    }

    /// # Safety
    /// As for [`PerduraCursor::next`].
    unsafe fn next_locked(&mut self, session: &mut Session, record: *mut u8, mode: LockMode) -> Outcome {
        loop {
            let Some(scan) = &mut self.scan else { return Ok(PerduraCode::End) };
            let Some((rid, _)) = scan.next(&mut session.txn)? else { return Ok(PerduraCode::End) };
            self.rid = Some(rid);
            if let Some(row) = self.lock_and_read(session, rid, mode)? {
                // SAFETY: as the caller vouches for; the row is valid until the statement ends.
                return unsafe { self.unpack(rid, row, record) };
            }
        }
    }

    /// Locks a row; `None` if it is locked by somebody else and to be left out.
    fn lock_unless_skipped(&self, session: &mut Session, rid: Rid, mode: LockMode) -> Outcome<Option<LockOutcome>> {
        if self.skip_locked {
            return Ok(session.txn.try_lock_row(&self.table, rid, mode)?);
        }
        lock(session, &self.table, rid, mode).map(Some)
    }

    /// Whether a locked row, whose newest version is this, has changed since the transaction's snapshot, if there is one.
    fn is_conflict(&self, session: &mut Session, rid: Rid, newest: Option<RowRef>) -> Outcome<bool> {
        if !session.txn.has_snapshot() {
            return Ok(false);
        }
        Ok(!same_version(newest, session.txn.read(&self.table, rid, ReadView::Snapshot)?))
    }

    /// Locks a row and reads it; `None` if it is gone or to be left out.
    fn lock_and_read(&mut self, session: &mut Session, rid: Rid, mode: LockMode) -> Outcome<Option<RowRef>> {
        self.newly_locked = false;
        let Some(outcome) = self.lock_unless_skipped(session, rid, mode)? else { return Ok(None) };
        self.newly_locked = outcome == LockOutcome::New;
        let row = session.txn.read(&self.table, rid, ReadView::Newest)?;
        if self.is_conflict(session, rid, row)? {
            return Err(self.changed(rid));
        }
        if row.is_none() {
            self.unlock(session);
        }
        Ok(row)
    }

    /// Reads the row at `rid` and stands on it.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    pub(crate) unsafe fn read(&mut self, session: &mut Session, rid: Rid, record: *mut u8) -> Outcome {
        self.leave_row();
        self.rid = Some(rid);
        // The server asks for a row by its position only when it uses it: no claim follows.
        let reading = match self.reads_plainly(session) {
            true => Reading::Plain,
            false => Reading::of_locked(self.lock, false),
        };
        self.reading = Some(reading);
        let row = match reading {
            Reading::Locked(mode) => self.lock_and_read(session, rid, mode)?,
            _ => session.txn.read(&self.table, rid, ReadView::Snapshot)?,
        };
        match row {
            // SAFETY: as the caller vouches for; the row is valid until the statement ends.
            Some(row) => unsafe { self.unpack(rid, row, record) },
            None => Ok(PerduraCode::End),
        }
    }

    /// Gives back the lock that the last read newly took.
    pub(crate) fn unlock(&mut self, session: &mut Session) {
        if std::mem::take(&mut self.newly_locked)
            && let Some(rid) = self.rid
        {
            session.txn.unlock_row(&self.table, rid);
        }
        self.leave_row();
    }

    /// Forgets how the current row was given out.
    fn leave_row(&mut self) {
        self.offered = None;
        self.again = false;
        self.newly_locked = false;
    }
}

/// Locks a row, with the session's hooks around a wait.
fn lock(session: &mut Session, table: &Arc<Table>, rid: Rid, mode: LockMode) -> Outcome<LockOutcome> {
    match session.txn.try_lock_row(table, rid, mode)? {
        Some(outcome) => Ok(outcome),
        None => session.waiting(|txn| txn.lock_row(table, rid, mode)).map_err(Failure::from),
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
