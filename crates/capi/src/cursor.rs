//! An open table: packs records into rows and back, walks the table, locks what is read.
//!
//! A cursor belongs to one server table handler and is used by the thread of the session given with each call. It stands
//! on the row read last; update, delete and unlock mean that row.

use crate::code::{Failure, Outcome, PerduraCode};
use crate::layout::Layout;
use crate::row::{PackError, Packer, Unpacker};
use crate::session::Session;
use perdura_engine::format::ROW_BYTES_MAX;
use perdura_engine::{Engine, Isolation, LockMode, LockOutcome, ReadView, Rid, RowRef, Scan, Table};
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
}

/// What to do about a row that somebody else has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contended {
    Wait,
    /// Leave the row out.
    Skip,
    /// Give the caller the committed row unlocked, to see whether it matters at all.
    ReadCommitted,
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
    lock: Option<LockMode>,
    skip_locked: bool,
    semi_consistent: bool,
    read_unlocked: bool,
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
            lock: None,
            skip_locked: false,
            semi_consistent: false,
            read_unlocked: false,
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
        self.lock = match lock {
            PerduraLock::None => None,
            PerduraLock::Shared => Some(LockMode::Shared),
            PerduraLock::Exclusive => Some(LockMode::Exclusive),
        };
        self.skip_locked = skip_locked;
    }

    /// Sets whether a row locked by somebody else may be given out unlocked once, to see whether it matters.
    pub(crate) fn set_semi_consistent(&mut self, allowed: bool) {
        self.semi_consistent = allowed;
        self.read_unlocked = false;
    }

    /// Whether the row read last was given out unlocked. The next read gives it again, locked.
    pub(crate) fn was_read_unlocked(&self) -> bool {
        self.read_unlocked
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
        self.semi_consistent = false;
        self.read_unlocked = false;
        self.newly_locked = false;
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
        if self.lock == Some(LockMode::Exclusive) && !self.read_unlocked {
            return Ok(());
        }
        if session.txn.try_lock_row(&self.table, rid, LockMode::Exclusive)?.is_none() {
            session.waiting(|txn| txn.lock_row(&self.table, rid, LockMode::Exclusive))?;
        }
        Ok(())
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
        self.read_unlocked = false;
        self.scan = Some(session.txn.scan(&self.table));
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
        if let Some(mode) = self.lock {
            // SAFETY: as the caller vouches for.
            return unsafe { self.next_locked(session, record, mode) };
        }
        let Some(scan) = &mut self.scan else { return Ok(PerduraCode::End) };
        match scan.next(&mut session.txn)? {
            Some((rid, row)) => {
                self.rid = Some(rid);
                // SAFETY: as the caller vouches for; the row is valid until the statement ends.
                unsafe { self.unpack(rid, row, record) }
            }
            None => Ok(PerduraCode::End),
        }
    }

    /// # Safety
    /// As for [`PerduraCursor::next`].
    unsafe fn next_locked(&mut self, session: &mut Session, record: *mut u8, mode: LockMode) -> Outcome {
        let mut again = self.rid.filter(|_| std::mem::take(&mut self.read_unlocked));
        loop {
            let (rid, contended) = match again.take() {
                Some(rid) => (rid, Contended::Wait),
                None => {
                    let Some(scan) = &mut self.scan else { return Ok(PerduraCode::End) };
                    let Some((rid, _)) = scan.next(&mut session.txn)? else { return Ok(PerduraCode::End) };
                    (rid, self.when_contended(session))
                }
            };
            self.rid = Some(rid);
            if let Some(row) = self.lock_and_read(session, rid, mode, contended)? {
                // SAFETY: as the caller vouches for; the row is valid until the statement ends.
                return unsafe { self.unpack(rid, row, record) };
            }
        }
    }

    fn when_contended(&self, session: &Session) -> Contended {
        if self.skip_locked {
            Contended::Skip
        } else if self.semi_consistent && session.txn.isolation() == Isolation::ReadCommitted {
            Contended::ReadCommitted
        } else {
            Contended::Wait
        }
    }

    /// Locks a row and reads it; `None` if it is gone or to be left out.
    fn lock_and_read(
        &mut self,
        session: &mut Session,
        rid: Rid,
        mode: LockMode,
        contended: Contended,
    ) -> Outcome<Option<RowRef>> {
        let table = &self.table;
        self.newly_locked = false;
        let outcome = match (session.txn.try_lock_row(table, rid, mode)?, contended) {
            (Some(outcome), _) => outcome,
            (None, Contended::Skip) => return Ok(None),
            (None, Contended::ReadCommitted) => {
                let row = session.txn.read(table, rid, ReadView::Snapshot)?;
                self.read_unlocked = row.is_some();
                return Ok(row);
            }
            (None, Contended::Wait) => session.waiting(|txn| txn.lock_row(table, rid, mode))?,
        };
        self.newly_locked = outcome == LockOutcome::New;
        let row = session.txn.read(table, rid, ReadView::Newest)?;
        if session.txn.isolation() == Isolation::RepeatableRead {
            let seen = session.txn.read(table, rid, ReadView::Snapshot)?;
            if !same_version(row, seen) {
                let message = format!(
                    "row {:#x} of table {} was changed after this transaction's snapshot",
                    rid.to_u64(),
                    table.name()
                );
                return Err(Failure::new(PerduraCode::RecordChanged, message));
            }
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
        self.read_unlocked = false;
        self.rid = Some(rid);
        let row = match self.lock {
            None => session.txn.read(&self.table, rid, ReadView::Snapshot)?,
            Some(mode) => {
                let contended = if self.skip_locked { Contended::Skip } else { Contended::Wait };
                self.lock_and_read(session, rid, mode, contended)?
            }
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
        self.read_unlocked = false;
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
