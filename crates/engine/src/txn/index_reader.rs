//! Reads through an index: scans, single keys, estimates.

use super::direction::Direction;
use super::index_scan::{IndexScan, ScanBuffers, Seen, index_of};
use super::keys::rid_ahead;
use super::snapshots::Snapshots;
use super::table_lock::check_locked;
use crate::changes::write_set::WriteSet;
use crate::error::Result;
use crate::format::{Rid, entry_key};
use crate::index::bounds::beyond;
use crate::index::estimate::estimate;
use crate::index::leaf_shadow::View;
use crate::index::measure::Measured;
use crate::index::outermost::{first_from, last_below};
use crate::pool::Pool;
use crate::pool::held_locks::HeldLocks;
use crate::table::Table;
use crate::table::visibility::ReadView;
use perdura_log::Csn;
use perdura_pmem::Mutant;
use std::ops::Bound;
use std::sync::Arc;

/// Reads through an index of a table ([`Session::index`](crate::Session::index)).
pub struct IndexReader<'s> {
    pub(super) pool: &'s Pool,
    pub(super) snapshots: &'s mut Snapshots,
    pub(super) writes: &'s mut WriteSet,
    pub(super) held: &'s HeldLocks,
    pub(super) table: &'s Arc<Table>,
    /// Position of the index in the table's definition.
    pub(super) index: usize,
}

impl IndexReader<'_> {
    /// Begins a scan. With [`ReadView::Snapshot`] it sees what the snapshot sees, with
    /// [`ReadView::Newest`] the newest committed entries; and what the transaction changed before
    /// it.
    pub fn scan(self, view: ReadView) -> IndexScan {
        self.scan_with(view, ScanBuffers::default())
    }

    /// As [`IndexReader::scan`], in the memory of an earlier scan.
    pub fn scan_with(mut self, view: ReadView, buffers: ScanBuffers) -> IndexScan {
        let (snapshot, is_consistent) = self.snapshot(view);
        self.scan_at(snapshot, is_consistent, buffers)
    }

    /// Begins a scan for rows to be locked, as
    /// [`Session::scan_to_lock`](crate::Session::scan_to_lock) begins one of a table, in the memory
    /// of an earlier scan. The caller locks each row, reads it with [`ReadView::Newest`] and
    /// compares its key with that of the entry: if they differ, [`IndexScan::is_offered_moved`]
    /// says what to do.
    pub fn scan_to_lock(mut self, buffers: ScanBuffers) -> IndexScan {
        // Planted: rows to be locked are found leaf by leaf, at no common moment.
        let (snapshot, is_consistent) = match perdura_pmem::planted(Mutant::LockingReadByLeaf) {
            true => self.snapshot(ReadView::Newest),
            false => (self.snapshots.for_locking(self.pool), true),
        };
        self.scan_at(snapshot, is_consistent, buffers)
    }

    fn scan_at(self, snapshot: Csn, is_consistent: bool, buffers: ScanBuffers) -> IndexScan {
        let seen = Seen { snapshot, step: self.writes.position().step(), is_consistent };
        IndexScan::new(self.table, self.index, seen, buffers)
    }

    /// The snapshot of a read, which keeps purge off the leaves, and whether it is consistent.
    fn snapshot(&mut self, view: ReadView) -> (Csn, bool) {
        match view {
            ReadView::Snapshot => (self.snapshots.consistent(self.pool), true),
            ReadView::Newest => {
                self.snapshots.statement(self.pool);
                (Csn::MAX, false)
            }
        }
    }

    /// Measures the index; `None` if there is none. It reads the heads of some leaves.
    pub(crate) fn measure(self) -> Option<Measured> {
        // The snapshot keeps purge off the leaves.
        self.snapshots.statement(self.pool);
        let measured = self.table.index_list().index(self.index).map(Measured::of);
        self.snapshots.close_statement(self.pool);
        measured
    }

    /// The first row with exactly this key, of which a unique index has one at most.
    ///
    /// # Errors
    /// As for [`Session::read`](crate::Session::read); Configuration if there is no such index.
    pub fn find(mut self, key: &[u8], view: ReadView) -> Result<Option<Rid>> {
        let (snapshot, is_consistent) = self.snapshot(view);
        let (table, writes) = (self.table, &*self.writes);
        self.pool.check_own(table)?;
        if is_consistent {
            check_locked(self.snapshots.isolation(), self.held, table)?;
            table.check_defined(snapshot)?;
        }
        let own = writes.view(table.id(), u64::MAX);
        let is_hidden = |row| is_consistent && writes.is_hidden(table.id(), row, u64::MAX);
        let seen = View { snapshot, own, ahead: writes.ahead(table.id()).filter(|_| is_consistent) };
        let found = index_of(table, self.index)?.find(key, &seen, is_hidden);
        let row = found.map_err(|error| error.in_index(self.index))?;
        row.map(|row| rid_ahead(table, row, view)).transpose()
    }

    /// Number of rows whose keys lie between two bounds, which are beginnings of keys, without a
    /// look at each: exact for a few, otherwise by the number of leaves. Own changes may be left
    /// out.
    ///
    /// # Errors
    /// As for [`Session::read`](crate::Session::read); Configuration if there is no such index.
    pub fn estimate(self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<u64> {
        self.pool.check_own(self.table)?;
        self.snapshots.statement(self.pool);
        let own = self.writes.view(self.table.id(), u64::MAX);
        let view = View::newest(own);
        let rows = self.writes.row_count_estimate(self.table);
        estimate(index_of(self.table, self.index)?, (from, to), &view, rows)
    }

    /// The key that is nearest to the keys that begin with `key`, or one of these: going backward
    /// the greatest that is not above them, going forward the least that is not below. Keys of
    /// transactions that are not decided count, and those of rows that were deleted and are not
    /// purged. `None` if there is no such key.
    ///
    /// # Errors
    /// As for [`Session::read`](crate::Session::read); Configuration if there is no such index.
    pub fn outermost_key(self, key: &[u8], direction: Direction) -> Result<Option<Vec<u8>>> {
        self.pool.check_own(self.table)?;
        // The snapshot keeps purge off the leaves.
        self.snapshots.statement(self.pool);
        let searched = index_of(self.table, self.index)?;
        let found = match direction {
            Direction::Forward => first_from(searched, key),
            Direction::Backward => last_below(searched, &beyond(key)),
        };
        Ok(found.map_err(|error| error.in_index(self.index))?.map(|entry| entry_key(&entry).to_vec()))
    }
}
