//! Reads in safe code: rows are slices of persistent memory, borrowed from what holds their
//! versions.
//!
//! The bytes of a row never change while a snapshot, a lock or the write set holds its version. A
//! [`Reader`] borrows its session mutably, so while one of its rows is in use the session can
//! neither end the statement nor write nor roll back.

use super::read::Scan;
use super::session::Session;
use crate::error::Result;
use crate::format::Rid;
use crate::pool::locks::LockMode;
use crate::table::Table;
use crate::table::visibility::{ReadView, RowRef};
use perdura_log::Csn;
use std::sync::Arc;

/// A statement that only reads. It sees its session's own writes, and what was committed when it
/// began or, under REPEATABLE READ, at the transaction's first consistent read.
///
/// Rows are slices of the persistent memory itself, not copies. They borrow from the reader, which
/// keeps their versions, and from the table handle, which keeps their file mapped:
///
/// ```compile_fail,E0499
/// # use perdura_engine::*;
/// # fn f(session: &mut Session, table: &std::sync::Arc<Table>, rid: Rid) {
/// let reader = session.reader();
/// let row = reader.get(table, rid).unwrap();
/// session.rollback().unwrap(); // would free the row
/// println!("{row:?}");
/// # }
/// ```
///
/// ```compile_fail,E0505
/// # use perdura_engine::*;
/// # fn f(session: &mut Session, table: std::sync::Arc<Table>, rid: Rid) {
/// let reader = session.reader();
/// let row = reader.get(&table, rid).unwrap();
/// drop(table); // the last handle of a dropped table unmaps its files
/// println!("{row:?}");
/// # }
/// ```
pub struct Reader<'s> {
    session: &'s mut Session,
    snapshot: Csn,
}

impl Session {
    /// Begins a statement that only reads; it ends when the reader is dropped.
    pub fn reader(&mut self) -> Reader<'_> {
        self.start_statement();
        let snapshot = self.consistent_snapshot();
        Reader { session: self, snapshot }
    }

    /// Locks a row exclusively, waiting if need be, and returns its newest committed or own
    /// version, whatever the transaction's snapshot sees; `None` if the row is deleted. The
    /// transaction holds the lock until it ends.
    ///
    /// # Errors
    /// LockWaitTimeout, Deadlock, Killed; Configuration if the table belongs to another pool;
    /// Damaged.
    pub fn get_for_update<'r>(&'r mut self, table: &'r Arc<Table>, rid: Rid) -> Result<Option<&'r [u8]>> {
        self.lock_row(table, rid, LockMode::Exclusive)?;
        let row = self.read(table, rid, ReadView::Newest)?;
        // SAFETY: the statement's snapshot, the lock or the write set holds the version, and the
        // table's handle the mapping. The slice borrows session and handle, so none of them ends
        // before it does.
        Ok(row.map(|row| unsafe { row.bytes() }))
    }
}

impl Reader<'_> {
    /// Returns the row `rid`; `None` if the reader sees none.
    ///
    /// # Errors
    /// DefinitionChanged if the table is newer than the snapshot; Configuration if the table
    /// belongs to another pool; Damaged.
    pub fn get<'r>(&'r self, table: &'r Arc<Table>, rid: Rid) -> Result<Option<&'r [u8]>> {
        self.session.check_own(table)?;
        let row = self.session.read_at(table, rid, self.snapshot)?;
        // SAFETY: the slice borrows the handle.
        Ok(row.map(|row| unsafe { self.bytes(row) }))
    }

    /// Scans a table in the order of row numbers. Errors as for [`Reader::get`]; the first one ends
    /// the scan.
    pub fn scan<'r>(&'r self, table: &'r Arc<Table>) -> Result<Rows<'r>> {
        self.session.check_own(table)?;
        Ok(Rows { reader: self, scan: Some(self.session.scan_up_to(table, self.snapshot, u64::MAX)) })
    }

    /// The bytes of a row that this reader found.
    ///
    /// # Safety
    /// The caller holds a handle of the row's table for as long as the slice lives.
    unsafe fn bytes(&self, row: RowRef) -> &[u8] {
        // SAFETY: the snapshot or the write set holds the version until the statement ends. It ends
        // when the reader is dropped, and until then the reader is the only user of the session.
        // The caller keeps the files mapped.
        unsafe { row.bytes() }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.session.end_statement();
    }
}

/// An iterator over the rows of a table as a reader sees them.
pub struct Rows<'r> {
    reader: &'r Reader<'r>,
    scan: Option<Scan>,
}

impl<'r> Iterator for Rows<'r> {
    type Item = Result<(Rid, &'r [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.scan.as_mut()?.next(self.reader.session);
        match found {
            // SAFETY: the rows borrow the handle that `scan` was called with.
            Ok(Some((rid, row))) => Some(Ok((rid, unsafe { self.reader.bytes(row) }))),
            Ok(None) => {
                self.scan = None;
                None
            }
            Err(error) => {
                self.scan = None;
                Some(Err(error))
            }
        }
    }
}
