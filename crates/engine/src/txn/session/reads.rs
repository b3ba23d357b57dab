//! Reads in a transaction: single rows, scans, and checks of tables.

use super::Session;
use crate::changes::write_set::WriteSet;
use crate::error::Result;
use crate::format::Rid;
use crate::pool::locks::LockMode;
use crate::shadow::change::Own;
use crate::table::Table;
use crate::table::visibility::{ReadView, RowRef};
use crate::txn::check::{Check, CheckClient, CheckDepth, CheckSummary};
use crate::txn::check_index::check_indexes;
use crate::txn::index_reader::IndexReader;
use crate::txn::index_scan::Seen;
use crate::txn::reader::Reader;
use crate::txn::scan::Scan;
use crate::txn::table_lock::check_locked;
use perdura_log::Csn;
use perdura_pmem::Mutant;
use std::sync::Arc;

impl Session {
    /// Takes the transaction's snapshot now, at the last CSN given out, so that it agrees with the
    /// present position of the binary log. The first read waits until that CSN is visible. Under
    /// READ COMMITTED and SERIALIZABLE, which keep no snapshot, this does nothing.
    pub fn take_snapshot(&mut self) {
        self.snapshots.take_ahead(&self.pool);
    }

    /// Whether the transaction is bound to its snapshot: it is REPEATABLE READ and has taken one.
    /// From then on a row with a newer version is a conflict; before, statements lock rows and work
    /// on the newest versions.
    pub fn has_snapshot(&self) -> bool {
        self.snapshots.bound_to().is_some()
    }

    /// Reads a row, own writes included. The row is valid until the statement ends.
    ///
    /// # Errors
    /// DefinitionChanged if the table is newer than the snapshot; Configuration for a snapshot
    /// under SERIALIZABLE if the table is not locked; Damaged.
    pub fn read(&mut self, table: &Arc<Table>, rid: Rid, view: ReadView) -> Result<Option<RowRef>> {
        match view {
            ReadView::Snapshot => self.read_up_to(table, rid, u64::MAX),
            ReadView::Newest => {
                self.pool.check_own(table)?;
                self.locks().read_newest(table, rid)
            }
        }
    }

    /// Whether somebody has changed a row since the transaction's snapshot. The transaction has
    /// locked the row and not written it. To be moved is not to be changed, though the row is then
    /// read from another place.
    pub fn is_changed(&self, table: &Table, rid: Rid) -> bool {
        self.snapshots.transaction().is_some_and(|snapshot| table.newest(rid.row()).1 > snapshot)
    }

    /// Estimated number of rows of a table: those that are committed
    /// ([`Table::row_count_estimate`]) and those that the transaction has inserted, undone ones
    /// included.
    pub fn row_count_estimate(&self, table: &Table) -> u64 {
        self.writes.row_count_estimate(table)
    }

    /// Reads a row at the snapshot, own writes up to step `seen` included.
    pub(in crate::txn) fn read_up_to(&mut self, table: &Arc<Table>, rid: Rid, seen: u64) -> Result<Option<RowRef>> {
        self.pool.check_own(table)?;
        let snapshot = self.snapshots.consistent(&self.pool);
        self.read_at(table, rid, (snapshot, seen))
    }

    /// Reads a row at `snapshot`, which the session must hold open, own writes up to step `seen`
    /// included.
    pub(in crate::txn) fn read_at(
        &self,
        table: &Arc<Table>,
        rid: Rid,
        (snapshot, seen): (Csn, u64),
    ) -> Result<Option<RowRef>> {
        match self.writes.own_at(table.id(), rid, seen) {
            Some(Own::Row(word)) => table.row(rid, word),
            Some(Own::Deleted) => Ok(None),
            None => {
                check_locked(self.isolation(), &self.held, table)?;
                table.check_defined(snapshot)?;
                table.read_at(rid, snapshot)
            }
        }
    }

    /// Whether consistent reads of a table are at the snapshot of a scan, and of what others have
    /// committed alone.
    #[inline]
    pub(in crate::txn) fn reads_committed_at(&mut self, table: &Arc<Table>, seen: Seen) -> bool {
        // Planted: a row is read that the transaction itself has changed.
        let is_own = self.writes.has_table(table.id()) && !perdura_pmem::planted(Mutant::OwnRowReadAhead);
        seen.is_consistent
            && !is_own
            && self.snapshots.consistent(&self.pool) == seen.snapshot
            && self.check_readable(table, Some(seen.snapshot)).is_ok()
    }

    /// Begins a scan of a table along its row directory. The scan sees the snapshot and what the
    /// transaction wrote before it. The first call of [`Scan::next`] fails with DefinitionChanged
    /// if the table is newer than the snapshot, and with Configuration if the transaction is
    /// SERIALIZABLE and has not locked the table.
    pub fn scan(&mut self, table: &Arc<Table>) -> Scan {
        let snapshot = self.snapshots.consistent(&self.pool);
        self.scan_at(table, snapshot)
    }

    /// Begins a scan for rows to be locked. It takes no snapshot for the transaction: without one
    /// the scan reads at the statement's snapshot. The caller locks each row it finds, and reads it
    /// again with [`ReadView::Newest`] before using it.
    pub fn scan_to_lock(&mut self, table: &Arc<Table>) -> Scan {
        let snapshot = self.snapshots.for_locking(&self.pool);
        self.scan_at(table, snapshot)
    }

    fn scan_at(&mut self, table: &Arc<Table>, snapshot: Csn) -> Scan {
        Scan::new(table, snapshot, self.writes.position().step())
    }

    /// Whether the transaction has written a row itself.
    pub fn has_written(&self, table: &Table, rid: Rid) -> bool {
        self.writes.own(table.id(), rid).is_some()
    }

    /// The index at a position of a table.
    #[inline]
    pub fn index<'s>(&'s mut self, table: &'s Arc<Table>, index: usize) -> IndexReader<'s> {
        IndexReader {
            pool: &self.pool,
            snapshots: &mut self.snapshots,
            writes: &mut self.writes,
            held: &self.held,
            table,
            index,
        }
    }

    /// The writes of the transaction, for those who read what it has written.
    #[inline]
    pub(in crate::txn) fn writes(&self) -> &WriteSet {
        &self.writes
    }

    /// Whether a snapshot keeps purge off what the statement looks at.
    #[inline]
    pub(in crate::txn) fn has_open_snapshot(&self) -> bool {
        self.snapshots.is_any_open()
    }

    /// Takes the statement's snapshot, if it has none: it keeps purge off what the statement looks
    /// at.
    pub(in crate::txn) fn open_statement_snapshot(&mut self) {
        self.snapshots.statement(&self.pool);
    }

    /// Fails if the session may not read a table, or not at a snapshot.
    pub(in crate::txn) fn check_readable(&self, table: &Arc<Table>, snapshot: Option<Csn>) -> Result<()> {
        self.pool.check_own(table)?;
        if let Some(snapshot) = snapshot {
            check_locked(self.isolation(), &self.held, table)?;
            table.check_defined(snapshot)?;
        }
        Ok(())
    }

    /// Begins a statement that only reads; it ends when the reader is dropped.
    pub fn reader(&mut self) -> Reader<'_> {
        self.start_statement();
        let snapshot = self.snapshots.consistent(&self.pool);
        Reader::new(self, snapshot)
    }

    /// Locks a row exclusively, waiting if need be, and returns its newest committed or own
    /// version, whatever the transaction's snapshot sees; `None` if the row is deleted. The
    /// transaction holds the lock until it ends.
    ///
    /// # Errors
    /// LockWaitTimeout, Deadlock, Killed; Configuration if the table belongs to another pool;
    /// Damaged.
    pub fn get_for_update<'r>(&'r mut self, table: &'r Arc<Table>, rid: Rid) -> Result<Option<&'r [u8]>> {
        let row = match self.locks().lock_and_read_free_row(table, rid)? {
            Some((_, row)) => row,
            None => {
                self.locks().lock_row(table, rid, LockMode::Exclusive)?;
                self.read(table, rid, ReadView::Newest)?
            }
        };
        // SAFETY: the statement's snapshot, the lock or the write set holds the version, and the
        // table's handle the mapping. The slice borrows session and handle, so none of them ends
        // before it does.
        Ok(row.map(|row| unsafe { row.bytes() }))
    }

    /// Waits until every commit that has a CSN is visible, and closes the statement's snapshot: its
    /// next read sees them. The server wakes a worker of parallel replication as soon as the
    /// transaction before it has its place in the commit order; that transaction becomes visible a
    /// moment later, and the worker must find its rows as that transaction left them.
    ///
    /// Rows that the statement has read are no longer valid. A transaction that has a snapshot of
    /// its own keeps reading at it. Returns the last CSN waited for.
    ///
    /// # Errors
    /// ReadOnlyPool if a commit will never become visible because the pool failed stop.
    pub fn catch_up(&mut self) -> Result<Csn> {
        let csn = self.pool.log.last_csn();
        if !self.pool.log.wait_visible(csn) {
            self.pool.check_writable()?;
        }
        self.snapshots.close_statement(&self.pool);
        Ok(csn)
    }

    /// Whether a CSN above `seen` has been given out.
    pub fn is_behind(&self, seen: Csn) -> bool {
        self.pool.log.last_csn() > seen
    }

    /// Checks a table as it is committed now, and tells `client` what is wrong with it. It is a
    /// statement of its own, which [`Session::end_statement`] ends.
    ///
    /// # Errors
    /// Configuration if the table belongs to another pool. What is wrong with the table is no
    /// error.
    pub fn check_table(
        &mut self,
        table: &Arc<Table>,
        depth: CheckDepth,
        client: &mut dyn CheckClient,
    ) -> Result<CheckSummary> {
        self.pool.check_own(table)?;
        let mut check = Check::new(table.clone(), depth, client);
        if check.pages(&self.pool, &mut self.snapshots) {
            check_indexes(&mut check, &self.pool, &mut self.snapshots);
        }
        Ok(check.summary())
    }
}
