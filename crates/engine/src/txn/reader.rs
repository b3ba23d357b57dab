//! Reading in safe code: rows are slices of persistent memory, borrowed from what keeps them there.
//!
//! A row's bytes never change while a snapshot, a lock or the write set holds its version. A [`Reader`] holds its session for
//! as long as it lives, so the borrow checker sees to it that no statement ends, and nothing is written or taken back, while one
//! of its rows is in use.

use super::read::Scan;
use super::session::Session;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Rid;
use crate::pool::locks::LockMode;
use crate::table::Table;
use crate::table::visibility::{ReadView, RowRef};
use perdura_log::Csn;
use std::sync::Arc;

/// A statement that only reads. It sees its session's own writes, and what was committed when it began or, under REPEATABLE READ, at
/// the transaction's first read.
///
/// Rows are slices of the persistent memory itself, without a copy. They borrow from the reader:
///
/// ```compile_fail
/// # use perdura_engine::*;
/// # fn f(session: &mut Session, table: &std::sync::Arc<Table>, rid: Rid) {
/// let reader = session.reader();
/// let row = reader.get(table, rid).unwrap();
/// session.rollback().unwrap(); // would free the row
/// println!("{row:?}");
/// # }
/// ```
pub struct Reader<'s> {
    session: &'s mut Session,
    snapshot: Csn,
}

impl Session {
    /// Begins a statement that only reads.
    pub fn reader(&mut self) -> Reader<'_> {
        self.start_statement();
        let snapshot = self.consistent_snapshot();
        Reader { session: self, snapshot }
    }

    /// Locks a row exclusively, waiting if need be, and returns what is committed now, whatever the transaction's snapshot sees; `None`
    /// if the row is gone. The lock stays until the transaction ends.
    ///
    /// # Errors
    /// LockWaitTimeout, Deadlock, Killed; Configuration if the table is another pool's; Damaged.
    pub fn get_for_update(&mut self, table: &Arc<Table>, rid: Rid) -> Result<Option<&[u8]>> {
        self.check_own(table)?;
        self.lock_row(table, rid, LockMode::Exclusive)?;
        let row = self.read(table, rid, ReadView::Newest)?;
        // SAFETY: the lock and the statement's snapshot hold the version, and the slice borrows the session: neither ends before it.
        Ok(row.map(|row| unsafe { row.bytes() }))
    }

    /// Fails if the table is one of another pool: this session's snapshots and locks would not hold its rows.
    pub(super) fn check_own(&self, table: &Table) -> Result<()> {
        if Arc::ptr_eq(table.chain().context(), &self.pool.context) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Configuration,
            format!("table {} belongs to another pool; use a session of its engine", table.name()),
        ))
    }
}

impl Reader<'_> {
    /// A row; `None` if the reader sees none under this RID.
    ///
    /// # Errors
    /// DefinitionChanged if the table is newer than the snapshot; Configuration if it is another pool's; Damaged.
    pub fn get(&self, table: &Arc<Table>, rid: Rid) -> Result<Option<&[u8]>> {
        self.session.check_own(table)?;
        let row = self.session.read_at(table, rid, self.snapshot)?;
        Ok(row.map(|row| self.bytes(row)))
    }

    /// All rows of a table, in the order of their RIDs. Errors as of [`Reader::get`]; the first one ends the scan.
    pub fn scan(&self, table: &Arc<Table>) -> Result<Rows<'_>> {
        self.session.check_own(table)?;
        Ok(Rows { reader: self, scan: Some(self.session.scan_at(table, self.snapshot)) })
    }

    fn bytes(&self, row: RowRef) -> &[u8] {
        // SAFETY: the snapshot or the write set holds the version; the statement ends when the reader is dropped, and the reader
        // keeps everybody else from using the session until then.
        unsafe { row.bytes() }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.session.end_statement();
    }
}

/// The rows of a table as a reader sees them.
pub struct Rows<'r> {
    reader: &'r Reader<'r>,
    scan: Option<Scan>,
}

impl<'r> Iterator for Rows<'r> {
    type Item = Result<(Rid, &'r [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.scan.as_mut()?.next(self.reader.session);
        match found {
            Ok(Some((rid, row))) => Some(Ok((rid, self.reader.bytes(row)))),
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
