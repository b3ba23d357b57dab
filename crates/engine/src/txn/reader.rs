//! Reads in safe code: rows are slices of persistent memory, borrowed from what holds their
//! versions.
//!
//! The bytes of a row never change while a snapshot, a lock or the write set holds its version. A
//! [`Reader`] borrows its session mutably, so while one of its rows is in use the session can
//! neither end the statement nor write nor roll back.

use super::scan::Scan;
use super::session::Session;
use crate::error::Result;
use crate::format::Rid;
use crate::table::Table;
use crate::table::visibility::RowRef;
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

impl<'s> Reader<'s> {
    /// A statement of `session`, which has begun, at a snapshot that the session holds open.
    pub(super) fn new(session: &'s mut Session, snapshot: Csn) -> Reader<'s> {
        Reader { session, snapshot }
    }

    /// Returns the row `rid`; `None` if the reader sees none.
    ///
    /// # Errors
    /// DefinitionChanged if the table is newer than the snapshot; Configuration if the table
    /// belongs to another pool; Damaged.
    pub fn get<'r>(&'r self, table: &'r Arc<Table>, rid: Rid) -> Result<Option<&'r [u8]>> {
        self.session.check_readable(table, None)?;
        let row = self.session.read_at(table, rid, (self.snapshot, u64::MAX))?;
        // SAFETY: the slice borrows the handle.
        Ok(row.map(|row| unsafe { self.bytes(row) }))
    }

    /// Scans a table in the order of row numbers. Errors as for [`Reader::get`]; the first one ends
    /// the scan.
    pub fn scan<'r>(&'r self, table: &'r Arc<Table>) -> Result<Rows<'r>> {
        self.session.check_readable(table, None)?;
        Ok(Rows { reader: self, scan: Some(Scan::new(table, self.snapshot, u64::MAX)) })
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
