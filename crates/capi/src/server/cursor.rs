//! Cursors: a table opened by a handler of the server. A cursor packs and unpacks rows, scans the
//! table, and locks the rows that a statement uses.

use super::code::{Failure, Outcome, PerduraCode};
use super::counter::{Block, Counter};
use super::index_position::{IndexPosition, Side};
use super::key::{PerduraKey, PerduraKeyChange, with_changes, with_keys, with_old_keys};
use super::session::Session;
use crate::row::codec::{PackError, Packer, Unpacker};
use crate::row::layout::Layout;
use perdura_engine::format::ROW_BYTES_MAX;
use perdura_engine::{Csn, Engine, Error, ErrorKind, Key, LockMode, ReadView, Rid, RowRef, Scan, Table};
use std::sync::Arc;

/// How a statement locks the rows that it reads.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerduraLock {
    /// It locks none.
    None = 0,
    /// Shared: it keeps writers out.
    Shared,
    /// Exclusively: it keeps out everybody else who locks.
    Exclusive,
    /// Exclusively, for a statement that changes rows. Once the transaction is bound to a snapshot,
    /// or has locked the table, the statement reads unlocked and locks a row when it changes it.
    Write,
}

/// How a statement reads the rows it is going to lock.
///
/// A cursor stands on the row it read last: update, delete, lock and unlock act on that row. There
/// are three ways to read for a statement that locks. It reads from the snapshot and locks nothing
/// (`Reading::Plain`); it reads unlocked, and its caller locks the rows that it uses
/// (`Reading::SemiConsistent`); or it locks each row before the caller sees it (`Reading::Locked`).
/// A semi-consistent lock compares the newest version with the one that the caller saw: if they
/// differ, the scan gives the row out once more. Under SERIALIZABLE a cursor locks its table before
/// it reads.
///
/// Thread-safety: the thread of the session that comes with a call uses the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Unlocked, from the snapshot.
    Plain,
    /// Unlocked; the caller locks the rows that it uses.
    SemiConsistent(LockMode),
    /// Each row locked before the caller sees it.
    Locked(LockMode),
}

impl Reading {
    pub(super) fn of_locked(lock: PerduraLock, is_semi_consistent: bool) -> Reading {
        let mode = if lock == PerduraLock::Shared { LockMode::Shared } else { LockMode::Exclusive };
        if is_semi_consistent { Reading::SemiConsistent(mode) } else { Reading::Locked(mode) }
    }
}

/// Where a cursor stood when its statement ended, for a statement that goes on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// In a scan, before the row of this number.
    Scan(u64),
    /// In an index, on this side of the key that its position has kept.
    Index(Side),
}

/// A table opened by a handler of the server.
pub struct PerduraCursor {
    engine: Engine,
    pub(super) table: Arc<Table>,
    layout: Layout,
    packer: Packer,
    whole: Unpacker,
    /// The last two choices of columns, and how these are unpacked, the newer one first: the next
    /// statement mostly wants one of them.
    chosen: [Option<(Vec<u8>, Unpacker)>; 2],
    /// Reads unpack those columns, and not all.
    chooses: bool,
    buffer: Vec<u8>,
    scan: Option<Scan>,
    pub(super) rid: Option<Rid>,
    pub(super) lock: PerduraLock,
    pub(super) skip_locked: bool,
    is_semi_consistent: bool,
    /// The last commit that the search has seen.
    pub(super) searched: Csn,
    /// Where the cursor stands in an index that it reads.
    pub(super) index: IndexPosition,
    /// How rows are read through the index. None: no index is being read, or the statement skips
    /// the table.
    pub(super) index_reading: Option<Reading>,
    /// Reads through the index stop at the entry, whose key tells the caller enough. The cursor
    /// stands on its row, while `rid` names no other.
    pub(super) stops_at_entries: bool,
    /// The index that refused the last insert or update, and the row that has the key.
    duplicate: Option<(usize, Rid)>,
    /// The caller changes the row that has a key already: it is locked.
    locks_duplicates: bool,
    /// The counter of the table's AUTO_INCREMENT column, once it was used.
    counter: Option<Arc<Counter>>,
    /// The values over which it has gone for the statement.
    counted: Block,
    /// How the scan reads. Settled when it begins if its snapshot decides that, else at its first
    /// row.
    scan_reading: Option<Reading>,
    /// How the current row was read.
    pub(super) reading: Option<Reading>,
    /// The current row as the caller saw it unlocked, until it locks it.
    pub(super) offered: Option<RowRef>,
    /// The row has changed before it was locked: the next read gives it out once more.
    pub(super) again: bool,
    /// The last read or semi-consistent lock took the row's lock: it may be given back.
    pub(super) newly_locked: bool,
    /// An earlier statement has left the cursor's place, and the next read goes on from there.
    pub(super) left: Option<Left>,
}

/// A cursor keeps a buffer of up to this many bytes from statement to statement.
const BUFFER_KEPT: usize = 1 << 20;

impl PerduraCursor {
    pub(super) fn new(engine: Engine, table: Arc<Table>, layout: Layout) -> PerduraCursor {
        PerduraCursor {
            engine,
            table,
            packer: Packer::new(&layout),
            whole: Unpacker::new(&layout),
            chosen: [None, None],
            chooses: false,
            layout,
            buffer: Vec::new(),
            scan: None,
            rid: None,
            lock: PerduraLock::None,
            skip_locked: false,
            is_semi_consistent: false,
            searched: 0,
            index: IndexPosition::new(),
            index_reading: None,
            stops_at_entries: false,
            duplicate: None,
            locks_duplicates: false,
            counter: None,
            counted: Block::default(),
            scan_reading: None,
            reading: None,
            offered: None,
            again: false,
            newly_locked: false,
            left: None,
        }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The row on which the cursor stands.
    pub(super) fn row(&self) -> Option<Rid> {
        self.rid.or_else(|| self.index.row())
    }

    /// The index that refused the last insert or update, and the row that has the key.
    pub(super) fn duplicate(&self) -> Option<(usize, Rid)> {
        self.duplicate
    }

    /// The table's counter, if it is known already, and the values over which it has gone for the
    /// statement.
    pub(super) fn counter(&mut self) -> Option<(&Counter, &mut Block)> {
        Some((self.counter.as_deref()?, &mut self.counted))
    }

    pub(super) fn has_counter(&self) -> bool {
        self.counter.is_some()
    }

    pub(super) fn set_counter(&mut self, counter: Arc<Counter>) {
        self.counter = Some(counter);
    }

    /// Sets whether the caller is going to use the row that has a key already, which is then
    /// locked.
    pub(super) fn set_locks_duplicates(&mut self, locks: bool) {
        self.locks_duplicates = locks;
    }

    /// The key by which the row read last was found.
    pub(super) fn index_key(&self) -> &[u8] {
        self.index.key()
    }

    /// Whether a key begins with what was searched for in the index.
    pub(super) fn is_sought(&self, key: &[u8]) -> bool {
        self.index.is_sought(key)
    }

    /// Sets how reads lock from here on.
    pub(super) fn set_lock(&mut self, lock: PerduraLock, skip_locked: bool) {
        self.lock = lock;
        self.skip_locked = skip_locked;
        self.scan_reading = None;
        self.reading = None;
    }

    /// Sets whether the caller locks the rows that it uses, so that others stay unlocked.
    pub(super) fn set_semi_consistent(&mut self, is_semi_consistent: bool) {
        self.is_semi_consistent = is_semi_consistent;
    }

    /// Bytes of a bitmap with a bit for each column.
    pub(super) fn column_bytes(&self) -> usize {
        self.layout.fields().len().div_ceil(8)
    }

    /// Sets the columns that reads unpack, as a bitmap; `None` is all.
    pub(super) fn set_columns(&mut self, columns: Option<&[u8]>) {
        self.chooses = columns.is_some();
        let Some(columns) = columns else { return };
        let is_known =
            |chosen: &Option<(Vec<u8>, Unpacker)>| chosen.as_ref().is_some_and(|(known, _)| known == columns);
        if is_known(&self.chosen[0]) {
            return;
        }
        self.chosen.swap(0, 1);
        if is_known(&self.chosen[0]) {
            return;
        }
        let wanted = |index: usize| columns[index / 8] & 1 << (index % 8) != 0;
        self.chosen[0] = Some((columns.to_vec(), Unpacker::for_columns(&self.layout, wanted)));
    }

    /// Goes on to the table that took the place of a truncated one.
    pub(super) fn refresh(&mut self) -> Outcome<()> {
        if self.table.is_dropped() || self.table.is_altered() {
            self.set_table(self.engine.table(&self.table.name())?);
        }
        Ok(())
    }

    pub(super) fn set_table(&mut self, table: Arc<Table>) {
        self.table = table;
        self.counter = None;
        self.counted = Block::default();
    }

    /// Goes on to the table after its indexes were altered; its counter stays.
    pub(super) fn set_altered(&mut self, table: Arc<Table>) {
        self.table = table;
    }

    /// How the table's rows are stored.
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Forgets all that belongs to a statement.
    pub(super) fn reset(&mut self) {
        self.scan = None;
        self.end_index();
        self.rid = None;
        self.duplicate = None;
        self.locks_duplicates = false;
        self.counted = Block::default();
        self.chooses = false;
        self.is_semi_consistent = false;
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

    /// A record's row as it is stored, and the table.
    ///
    /// # Safety
    /// `record` must be a record of this table.
    pub(super) unsafe fn packed(&mut self, record: *const u8) -> Outcome<(&Arc<Table>, &[u8])> {
        // SAFETY: as the caller vouches for.
        unsafe { self.pack(record)? };
        Ok((&self.table, &self.buffer))
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
    #[inline(always)]
    pub(super) unsafe fn unpack(&self, rid: Rid, row: RowRef, record: *mut u8) -> Outcome {
        // SAFETY: as the caller vouches for.
        unsafe { self.unpack_counted(rid, row, record) }.map(|_| PerduraCode::Ok)
    }

    /// As [`PerduraCursor::unpack`]; returns how many bytes of the row were looked at.
    ///
    /// # Safety
    /// As for [`PerduraCursor::unpack`].
    #[inline(always)]
    pub(super) unsafe fn unpack_counted(&self, rid: Rid, row: RowRef, record: *mut u8) -> Outcome<usize> {
        let chosen = self.chosen[0].as_ref().filter(|_| self.chooses);
        let unpacker = chosen.map_or(&self.whole, |(_, unpacker)| unpacker);
        // SAFETY: as the caller vouches for.
        unsafe { unpacker.unpack(row.bytes(), record) }.map_err(|_| self.damaged(rid))
    }

    /// Whether the bytes are a row of the table's definition. Unpacks them into `record`.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    pub(super) unsafe fn is_row(&self, row: &[u8], record: *mut u8) -> bool {
        // SAFETY: as the caller vouches for.
        unsafe { self.whole.unpack(row, record) }.is_ok()
    }

    #[cold]
    fn damaged(&self, rid: Rid) -> Failure {
        let (table, row) = (self.table.name(), rid.to_u64());
        let message =
            format!("row {row:#x} of table {table} is not one of its definition; run `perdura check` on the pool");
        Failure::new(PerduraCode::Damaged, message)
    }

    /// Inserts a row.
    ///
    /// # Safety
    /// `record` must be a record of this table, `keys` as many keys as it has indexes.
    #[inline]
    pub(super) unsafe fn insert(
        &mut self,
        session: &mut Session,
        record: *const u8,
        keys: *const PerduraKey,
    ) -> Outcome {
        // SAFETY: as the caller vouches for.
        unsafe { self.pack(record)? };
        if self.table.indexes() > 0 {
            // SAFETY: as the caller vouches for.
            self.rid = Some(unsafe { with_keys(keys, self.table.indexes(), |keys| self.insert_keyed(session, keys))? });
            return Ok(PerduraCode::Ok);
        }
        self.rid = match session.txn.try_insert(&self.table, &self.buffer)? {
            None => Some(self.insert_after_wait(session)?),
            inserted => inserted,
        };
        Ok(PerduraCode::Ok)
    }

    /// Inserts the packed row, with its keys.
    fn insert_keyed(&mut self, session: &mut Session, keys: &[Key<'_>]) -> Outcome<Rid> {
        loop {
            let error = match session.between_hooks(|txn| txn.insert_with(&self.table, &self.buffer, keys)) {
                Ok(rid) => return Ok(rid),
                Err(error) => error,
            };
            let is_duplicate = error.kind() == ErrorKind::DuplicateKey;
            let failure = self.refused(session, error);
            if !is_duplicate || !self.locks_duplicates || self.lock_duplicate(session, keys)? {
                return Err(failure);
            }
        }
    }

    /// Locks the row that has a key already, so that it stays where the caller is told to find it.
    /// False if it has the key no longer.
    #[cold]
    fn lock_duplicate(&self, session: &mut Session, keys: &[Key<'_>]) -> Outcome<bool> {
        let Some((index, rid)) = self.duplicate else { return Ok(true) };
        self.lock_row(session, rid, LockMode::Exclusive)?;
        Ok(session.txn.index(&self.table, index).find(keys[index].bytes, ReadView::Newest)? == Some(rid))
    }

    #[cold]
    fn insert_after_wait(&mut self, session: &mut Session) -> Outcome<Rid> {
        session.waiting(|txn| txn.insert(&self.table, &self.buffer)).map_err(Failure::from)
    }

    /// Notes which row has the key, if that is why a write was refused.
    #[cold]
    fn refused(&mut self, session: &Session, error: Error) -> Failure {
        if error.kind() == ErrorKind::DuplicateKey {
            self.duplicate = session.txn.duplicate();
        }
        error.into()
    }

    pub(super) fn current(&self) -> Outcome<Rid> {
        self.row().ok_or_else(PerduraCursor::no_row)
    }

    /// The failure of a call that is about a row before one was found.
    #[cold]
    pub(super) fn no_row() -> Failure {
        Failure::new(PerduraCode::NotFound, "no row was read")
    }

    /// Replaces the current row.
    ///
    /// # Safety
    /// `record` must be a record of this table, the keys of the changes readable.
    pub(super) unsafe fn update(
        &mut self,
        session: &mut Session,
        record: *const u8,
        changes: &[PerduraKeyChange],
    ) -> Outcome {
        let rid = self.current()?;
        // SAFETY: as the caller vouches for.
        unsafe { self.pack(record)? };
        self.lock_for_write(session, rid)?;
        let updated = match changes {
            [] => session.txn.update(&self.table, rid, &self.buffer),
            // SAFETY: as the caller vouches for.
            _ => unsafe {
                with_changes(changes, |changes| {
                    session.between_hooks(|txn| txn.update_with(&self.table, rid, &self.buffer, changes))
                })
            },
        };
        updated.map_err(|error| {
            let failure = self.refused(session, error);
            self.lost(rid, failure)
        })?;
        self.newly_locked = false;
        Ok(PerduraCode::Ok)
    }

    /// Deletes the current row.
    ///
    /// # Safety
    /// `keys` must be as many keys as the table has indexes.
    pub(super) unsafe fn delete(&mut self, session: &mut Session, keys: *const PerduraKey) -> Outcome {
        let rid = self.current()?;
        self.lock_for_write(session, rid)?;
        let deleted = match self.table.indexes() {
            0 => session.txn.delete(&self.table, rid),
            // SAFETY: as the caller vouches for.
            count => unsafe {
                with_old_keys(keys, count, |keys| session.between_hooks(|txn| txn.delete_with(&self.table, rid, keys)))
            },
        };
        deleted.map_err(|error| self.lost(rid, error.into()))?;
        self.newly_locked = false;
        Ok(PerduraCode::Ok)
    }

    /// A row that was read and cannot be found for the write was deleted by another transaction:
    /// that is a conflict.
    #[cold]
    fn lost(&self, rid: Rid, failure: Failure) -> Failure {
        if failure.code != PerduraCode::NotFound || self.table.is_dropped() {
            return failure;
        }
        let message =
            format!("row {:#x} of table {} was deleted by another transaction", rid.to_u64(), self.table.name());
        Failure::new(PerduraCode::RecordChanged, message)
    }

    /// Begins a scan of the table.
    pub(super) fn start_scan(&mut self, session: &mut Session) -> Outcome<()> {
        self.leave_row();
        self.scan = None;
        self.left = None;
        if !self.lock_table(session)? {
            return Ok(());
        }
        // Settled now: a snapshot taken between now and the first row could be newer than what the
        // scan sees.
        self.scan_reading = self.reads_plainly(session).then_some(Reading::Plain);
        self.scan = Some(match self.lock {
            PerduraLock::None => session.txn.scan(&self.table),
            _ => session.txn.scan_to_lock(&self.table),
        });
        Ok(())
    }

    /// Lets the next statement go on from where this one has come to in the table or in an index,
    /// with a snapshot of its own.
    pub(super) fn leave(&mut self) {
        if let Some(scan) = self.scan.take() {
            self.left = Some(Left::Scan(scan.place()));
        } else if self.index_reading.take().is_some() {
            self.left = Some(Left::Index(self.index.leave()));
        }
        self.leave_row();
    }

    /// Goes on from where an earlier statement has left, if it has.
    #[inline]
    pub(super) fn go_on(&mut self, session: &mut Session) -> Outcome<()> {
        if self.left.is_some() { self.go_on_from_left(session) } else { Ok(()) }
    }

    #[cold]
    fn go_on_from_left(&mut self, session: &mut Session) -> Outcome<()> {
        match self.left.take() {
            None => Ok(()),
            Some(Left::Scan(row)) => {
                self.start_scan(session)?;
                self.scan.iter_mut().for_each(|scan| scan.begin_at(row));
                Ok(())
            }
            Some(Left::Index(side)) => {
                self.start_index(session, self.index.number() as u32, false)?;
                self.index.go_on(side);
                Ok(())
            }
        }
    }

    /// Begins a replica's search, among the newest rows, for the row that the primary changed. The
    /// search locks none: changing the row locks it, and fails if it has changed since it was
    /// found; the replica then applies the transaction again.
    pub(super) fn start_search(&mut self, session: &mut Session) -> Outcome<()> {
        self.searched = session.txn.catch_up()?;
        self.is_semi_consistent = true;
        self.start_scan(session)
    }

    /// Begins the search again if there have been commits since it began.
    pub(super) fn search_again(&mut self, session: &mut Session) -> Outcome<bool> {
        let again = session.txn.is_behind(self.searched);
        if again {
            self.start_search(session)?;
        }
        Ok(again)
    }

    /// Ends the scan.
    pub(super) fn end_scan(&mut self) {
        self.scan = None;
        self.left = None;
    }

    /// Reads the scan's next row, if it is at hand and need not be locked: for most rows of a long
    /// scan that is all. `None` says nothing; [`PerduraCursor::next`] does.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    #[inline(always)]
    pub(super) unsafe fn next_near(&mut self, record: *mut u8) -> Option<Outcome> {
        if self.scan_reading != Some(Reading::Plain) {
            return None;
        }
        let (rid, row) = self.scan.as_mut()?.next_near()?;
        self.rid = Some(rid);
        self.reading = Some(Reading::Plain);
        // SAFETY: as the caller vouches for; the row is valid until the statement ends.
        Some(unsafe { self.unpack(rid, row, record) })
    }

    /// Reads the scan's next row. Not inlined, so that the short way before it stays short.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    #[inline(never)]
    pub(super) unsafe fn next(&mut self, session: &mut Session, record: *mut u8) -> Outcome {
        self.go_on(session)?;
        let reading = *self.scan_reading.get_or_insert_with(|| Reading::of_locked(self.lock, self.is_semi_consistent));
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
        match scan.next(&session.txn)? {
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

    /// # Safety
    /// As for [`PerduraCursor::next`].
    unsafe fn next_locked(&mut self, session: &mut Session, record: *mut u8, mode: LockMode) -> Outcome {
        loop {
            let Some(scan) = &mut self.scan else { return Ok(PerduraCode::End) };
            let Some((rid, _)) = scan.next(&session.txn)? else { return Ok(PerduraCode::End) };
            self.rid = Some(rid);
            if let Some(row) = self.lock_and_read(session, rid, mode)? {
                // SAFETY: as the caller vouches for; the row is valid until the statement ends.
                return unsafe { self.unpack(rid, row, record) };
            }
        }
    }

    /// Locks the row at `rid` exclusively, reads its newest version, and stands on it.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    pub(super) unsafe fn read_locked(&mut self, session: &mut Session, rid: Rid, record: *mut u8) -> Outcome {
        self.leave_row();
        self.rid = Some(rid);
        self.reading = Some(Reading::Locked(LockMode::Exclusive));
        match self.lock_and_read(session, rid, LockMode::Exclusive)? {
            // SAFETY: as the caller vouches for; the row is valid until the statement ends.
            Some(row) => unsafe { self.unpack(rid, row, record) },
            None => Ok(PerduraCode::End),
        }
    }

    /// Reads the row at `rid` and stands on it.
    ///
    /// # Safety
    /// `record` must be a record buffer of this table.
    pub(super) unsafe fn read(&mut self, session: &mut Session, rid: Rid, record: *mut u8) -> Outcome {
        self.leave_row();
        self.rid = Some(rid);
        if !self.lock_table(session)? {
            return Ok(PerduraCode::End);
        }
        // The server reads a row by its position only to use it: no lock follows. A row that is in
        // the way of another one is newer than the snapshot, maybe; locking it finds that out.
        let is_in_the_way = self.duplicate.is_some_and(|(_, row)| row == rid);
        let reading = match self.reads_plainly(session) && !is_in_the_way {
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
}
