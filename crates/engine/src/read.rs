//! Reading in a transaction: snapshots, single rows, scans.

use crate::error::Result;
use crate::format::{PageState, Rid, Word};
use crate::table::Table;
use crate::txn::Txn;
use crate::visibility::{OwnVersion, ReadView, RowRef};
use perdura_log::Csn;
use std::ops::Range;
use std::sync::Arc;

impl Txn {
    /// The snapshot in force, taken now if there is none.
    pub(crate) fn open_snapshot(&mut self) -> Csn {
        if let Some(csn) = self.snapshot {
            if std::mem::take(&mut self.snapshot_unseen) {
                self.engine.log.wait_visible(csn);
            }
            return csn;
        }
        let log = &self.engine.log;
        let csn = self.engine.snapshots.open(self.slot, || log.visible_csn());
        self.snapshot = Some(csn);
        csn
    }

    /// Takes the transaction's snapshot now, at the last CSN given out, so that it agrees with the binary log's
    /// position; the first read waits until all of it is visible.
    pub fn take_snapshot(&mut self) {
        if self.snapshot.is_none() {
            let log = &self.engine.log;
            self.snapshot = Some(self.engine.snapshots.open(self.slot, || log.last_csn()));
            self.snapshot_unseen = true;
        }
    }

    pub(crate) fn close_snapshot(&mut self) {
        if self.snapshot.take().is_some() {
            self.engine.snapshots.close(self.slot);
        }
    }

    /// Reads a row, own writes included.
    pub fn read(&mut self, table: &Arc<Table>, rid: Rid, view: ReadView) -> Result<Option<RowRef>> {
        let snapshot = self.open_snapshot();
        let limit = if view == ReadView::Newest { Csn::MAX } else { snapshot };
        match self.own_version(table, rid, u64::MAX)? {
            Some(OwnVersion::Seen(row)) => Ok(row),
            _ => table.committed(rid, limit),
        }
    }

    /// The transaction's own version of a row as of write sequence `sequence`; `None` if it never wrote the row.
    fn own_version(&self, table: &Table, rid: Rid, sequence: u64) -> Result<Option<OwnVersion>> {
        if let Some(bulk) = self.bulk.iter().find(|bulk| bulk.table().id() == table.id() && bulk.owns_row(rid.row())) {
            return table.own(rid, bulk.word(rid.row()), Word::EMPTY, sequence).map(Some);
        }
        match self.writes.get(table.id(), rid) {
            Some(write) => table.own(rid, write.head, write.base, sequence).map(Some),
            None => Ok(None),
        }
    }

    /// Begins a scan of the table along its row directory. It sees the snapshot and what this transaction wrote before.
    pub fn scan(&mut self, table: &Arc<Table>) -> Scan {
        let snapshot = self.open_snapshot();
        Scan {
            pages: table.directory.page_count(),
            table: table.clone(),
            snapshot,
            sequence: self.sequence,
            own: self.writes.touches(table.id()) || self.bulk.iter().any(|bulk| bulk.table().id() == table.id()),
            page: 0,
            state: PageState::UNPUBLISHED,
            rows: 0..0,
        }
    }
}

/// A scan of a table. Rows come in the order of their RIDs.
pub struct Scan {
    table: Arc<Table>,
    snapshot: Csn,
    sequence: u64,
    own: bool,
    pages: u64,
    page: u64,
    state: PageState,
    rows: Range<u64>,
}

impl Scan {
    /// The next row the scan sees, or `None` at the end. The row is valid until the statement ends.
    #[inline]
    pub fn next(&mut self, txn: &mut Txn) -> Result<Option<(Rid, RowRef)>> {
        loop {
            let Some(row) = self.rows.next() else {
                if !self.next_page(txn) {
                    return Ok(None);
                }
                continue;
            };
            let word = self.table.directory.raw_word(row);
            if !self.own {
                if word.is_empty() {
                    continue;
                }
                let rid = Rid::new(row, word.incarnation());
                if let Some(seen) = self.committed(rid, word)? {
                    return Ok(Some((rid, seen)));
                }
                continue;
            }
            let rid = Rid::new(row, word.incarnation());
            let seen = match txn.own_version(&self.table, rid, self.sequence)? {
                Some(OwnVersion::Seen(row)) => row,
                _ if self.state.is_published() => self.committed(rid, word)?,
                _ => None,
            };
            if let Some(seen) = seen {
                return Ok(Some((rid, seen)));
            }
        }
    }

    #[inline]
    fn committed(&self, rid: Rid, word: Word) -> Result<Option<RowRef>> {
        if word.is_tombstone() {
            // A tombstone may be purged while it is read: this way checks for that.
            return self.table.committed(rid, self.snapshot);
        }
        self.table.visible(rid, word, self.state, self.snapshot)
    }

    /// Goes to the next page that can hold a row the scan sees.
    fn next_page(&mut self, txn: &Txn) -> bool {
        while self.page < self.pages {
            let page = self.page;
            self.page += 1;
            self.state = self.table.directory.state(page);
            if self.own
                && let Some(rows) = txn
                    .bulk
                    .iter()
                    .filter(|bulk| bulk.table().id() == self.table.id())
                    .find_map(|bulk| bulk.page_rows(page))
            {
                self.rows = rows;
                return true;
            }
            // A page published by a later commit may have room left that own rows took.
            if self.state.is_published() && (self.own || self.state.csn() <= self.snapshot) {
                self.rows = self.table.directory.page_rows(page);
                return true;
            }
        }
        false
    }

    /// The table scanned.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
}
