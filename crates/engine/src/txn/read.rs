//! Reads in a transaction: single rows and scans.

use super::isolation::Isolation;
use super::session::Session;
use crate::error::Result;
use crate::format::{PageState, Rid, Word};
use crate::table::Table;
use crate::table::visibility::{OwnVersion, ReadView, RowRef};
use perdura_log::Csn;
use std::ops::Range;
use std::sync::Arc;

impl Session {
    /// Takes the transaction's snapshot now, at the last CSN given out, so that it agrees with the present position of
    /// the binary log. The first read waits until that CSN is visible. Under READ COMMITTED this does nothing.
    pub fn take_snapshot(&mut self) {
        if self.isolation() == Isolation::RepeatableRead {
            self.snapshots.take_ahead(&self.pool);
        }
    }

    /// Whether the transaction has taken its snapshot. From then on a row with a newer version is a conflict; before,
    /// statements lock rows and work on the newest versions.
    pub fn has_snapshot(&self) -> bool {
        self.snapshots.transaction().is_some()
    }

    /// The snapshot of consistent reads, taken now if there is none.
    pub(super) fn consistent_snapshot(&mut self) -> Csn {
        let isolation = self.isolation();
        self.snapshots.consistent(&self.pool, isolation)
    }

    /// Reads a row, own writes included. The row is valid until the statement ends.
    ///
    /// # Errors
    /// DefinitionChanged if the table is newer than the snapshot; Damaged.
    pub fn read(&mut self, table: &Arc<Table>, rid: Rid, view: ReadView) -> Result<Option<RowRef>> {
        self.check_own(table)?;
        if view == ReadView::Snapshot {
            let snapshot = self.consistent_snapshot();
            return self.read_at(table, rid, snapshot);
        }
        self.snapshots.statement(&self.pool);
        if let Some(OwnVersion::Seen(row)) = self.own_version(table, rid, u64::MAX)? {
            return Ok(row);
        }
        let newest = table.newest(rid)?;
        self.snapshots.note_met(newest.map_or(0, |(_, csn)| csn));
        Ok(newest.map(|(row, _)| row))
    }

    /// Reads a row at `snapshot`, which the session must hold open, own writes included.
    pub(super) fn read_at(&self, table: &Arc<Table>, rid: Rid, snapshot: Csn) -> Result<Option<RowRef>> {
        if let Some(OwnVersion::Seen(row)) = self.own_version(table, rid, u64::MAX)? {
            return Ok(row);
        }
        table.check_defined(snapshot)?;
        table.committed(rid, snapshot)
    }

    /// The transaction's own version of a row as of write sequence `sequence`; `None` if the transaction never wrote
    /// the row.
    fn own_version(&self, table: &Table, rid: Rid, sequence: u64) -> Result<Option<OwnVersion>> {
        let Some(own) = self.writes.own(table.id(), rid) else { return Ok(None) };
        table.own(rid, own.head, own.base, sequence).map(Some)
    }

    /// Begins a scan of a table along its row directory. The scan sees the snapshot and what the transaction wrote
    /// before it. If the table is newer than the snapshot, the first call of [`Scan::next`] fails with
    /// DefinitionChanged.
    pub fn scan(&mut self, table: &Arc<Table>) -> Scan {
        let snapshot = self.consistent_snapshot();
        self.scan_at(table, snapshot)
    }

    /// Begins a scan for rows to be locked. It takes no snapshot for the transaction: without one the scan reads at the
    /// statement's snapshot. The caller locks each row it finds, and reads it again with [`ReadView::Newest`] before
    /// using it.
    pub fn scan_to_lock(&mut self, table: &Arc<Table>) -> Scan {
        let snapshot = match self.has_snapshot() {
            true => self.consistent_snapshot(),
            false => self.snapshots.statement(&self.pool),
        };
        self.scan_at(table, snapshot)
    }

    /// Begins a scan at `snapshot`, which the session must hold open.
    pub(super) fn scan_at(&self, table: &Arc<Table>, snapshot: Csn) -> Scan {
        Scan {
            pages: table.directory().page_count(),
            table: table.clone(),
            snapshot,
            sequence: self.sequence,
            own: self.writes.touches(table.id()),
            page: 0,
            state: PageState::UNPUBLISHED,
            rows: 0..0,
        }
    }
}

/// A scan of a table, in the order of row numbers.
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
    /// Returns the next row that the scan sees, or `None` at the end. `session` is the one that began the scan. The row
    /// is valid until the statement ends.
    #[inline]
    pub fn next(&mut self, session: &Session) -> Result<Option<(Rid, RowRef)>> {
        loop {
            let Some(row) = self.rows.next() else {
                if !self.next_page(session)? {
                    return Ok(None);
                }
                continue;
            };
            let word = self.table.directory().raw_word(row);
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
            let seen = match session.own_version(&self.table, rid, self.sequence)? {
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
            // Purge may reclaim a tombstone while it is read: `Table::committed` checks for that.
            return self.table.committed(rid, self.snapshot);
        }
        self.table.visible(rid, word, self.state, self.snapshot)
    }

    /// Moves to the next page that may hold a row the scan sees. Returns whether there is one.
    fn next_page(&mut self, session: &Session) -> Result<bool> {
        if self.page == 0 {
            session.check_own(&self.table)?;
            self.table.check_defined(self.snapshot)?;
        }
        while self.page < self.pages {
            let page = self.page;
            self.page += 1;
            self.state = self.table.directory().state(page);
            if self.own
                && let Some(rows) = session.writes.own_page(self.table.id(), page)
            {
                self.rows = rows;
                return Ok(true);
            }
            // A page that a later commit published may hold own rows: its free RIDs go to everybody.
            if self.state.is_published() && (self.own || self.state.csn() <= self.snapshot) {
                self.rows = self.table.directory().page_rows(page);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The table that is scanned.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
}
