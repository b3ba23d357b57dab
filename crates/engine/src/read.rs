//! Reading in a transaction: snapshots, single rows, scans.

use crate::error::Result;
use crate::format::{PageState, Rid, Word};
use crate::snapshot::{SlotId, Snapshots};
use crate::table::Table;
use crate::txn::{Isolation, Txn};
use crate::visibility::{OwnVersion, ReadView, RowRef};
use perdura_log::Csn;
use std::ops::Range;
use std::sync::Arc;

/// One snapshot a transaction may hold: its slot in the engine's registry, and what it reads at while it is open.
struct OpenSnapshot {
    slot: SlotId,
    csn: Option<Csn>,
}

impl OpenSnapshot {
    fn new(registry: &Snapshots) -> OpenSnapshot {
        OpenSnapshot { slot: registry.acquire_slot(), csn: None }
    }

    fn close(&mut self, registry: &Snapshots) {
        if self.csn.take().is_some() {
            registry.close(self.slot);
        }
    }
}

/// The snapshots of a transaction. One of them is at or below whatever it reads, so purge does not free that.
pub(crate) struct OpenSnapshots {
    /// Of the statement: under READ COMMITTED what it reads; under REPEATABLE READ where it finds the rows that it locks.
    statement: OpenSnapshot,
    /// Of the transaction, under REPEATABLE READ, from its first consistent read on.
    transaction: OpenSnapshot,
    /// The transaction's is above what was visible when it was taken: the first read waits for it.
    unseen: bool,
    /// Newest commit whose rows the transaction has locked and seen. A snapshot taken later must not be older.
    met: Csn,
}

impl OpenSnapshots {
    pub(crate) fn new(registry: &Snapshots) -> OpenSnapshots {
        OpenSnapshots {
            statement: OpenSnapshot::new(registry),
            transaction: OpenSnapshot::new(registry),
            unseen: false,
            met: 0,
        }
    }

    /// Notes that the transaction has read a row of commit `csn` under its lock.
    pub(crate) fn has_met(&mut self, csn: Csn) {
        self.met = self.met.max(csn);
    }

    /// Gives the slots back.
    pub(crate) fn release(&self, registry: &Snapshots) {
        registry.release_slot(self.statement.slot);
        registry.release_slot(self.transaction.slot);
    }
}

impl Txn {
    /// The snapshot of this statement, taken now if there is none.
    pub(crate) fn statement_snapshot(&mut self) -> Csn {
        if let Some(csn) = self.snapshots.statement.csn {
            return csn;
        }
        self.wait_for_met();
        let (log, statement) = (&self.engine.log, &mut self.snapshots.statement);
        *statement.csn.insert(self.engine.snapshots.open(statement.slot, || log.visible_csn()))
    }

    /// Waits until a snapshot sees the rows that the transaction has locked: they may be of a commit that is durable and not visible
    /// yet. Whoever is to make that visible waits for nobody's locks.
    fn wait_for_met(&self) {
        self.engine.log.wait_visible(self.snapshots.met);
    }

    /// The snapshot of the transaction, if it has taken one.
    pub(crate) fn transaction_snapshot(&self) -> Option<Csn> {
        self.snapshots.transaction.csn
    }

    /// The snapshot consistent reads see, taken now if there is none.
    pub(crate) fn consistent_snapshot(&mut self) -> Csn {
        if self.isolation() == Isolation::ReadCommitted {
            return self.statement_snapshot();
        }
        if let Some(csn) = self.snapshots.transaction.csn {
            // Planted: a snapshot ahead of what is visible is read at once.
            if std::mem::take(&mut self.snapshots.unseen) && !perdura_pmem::planted(57) {
                self.engine.log.wait_visible(csn);
            }
            return csn;
        }
        self.wait_for_met();
        let (log, transaction) = (&self.engine.log, &mut self.snapshots.transaction);
        *transaction.csn.insert(self.engine.snapshots.open(transaction.slot, || log.visible_csn()))
    }

    /// Takes the transaction's snapshot now, at the last CSN given out, so that it agrees with the binary log's
    /// position; the first read waits until all of it is visible. Under READ COMMITTED there is none to take.
    pub fn take_snapshot(&mut self) {
        if self.isolation() == Isolation::RepeatableRead && self.snapshots.transaction.csn.is_none() {
            let (log, transaction) = (&self.engine.log, &mut self.snapshots.transaction);
            transaction.csn = Some(self.engine.snapshots.open(transaction.slot, || log.last_csn()));
            self.snapshots.unseen = true;
        }
    }

    /// Whether it has taken the transaction's snapshot: from then on a newer version of a row is a conflict. Before,
    /// its statements lock rows and work on the newest versions.
    pub fn has_snapshot(&self) -> bool {
        self.snapshots.transaction.csn.is_some()
    }

    pub(crate) fn close_statement_snapshot(&mut self) {
        self.snapshots.statement.close(&self.engine.snapshots);
    }

    pub(crate) fn close_snapshots(&mut self) {
        self.close_statement_snapshot();
        self.snapshots.transaction.close(&self.engine.snapshots);
        self.snapshots.unseen = false;
        self.snapshots.met = 0;
    }

    /// Reads a row, own writes included.
    ///
    /// # Errors
    /// DefinitionChanged if the table is newer than the snapshot; Damaged.
    pub fn read(&mut self, table: &Arc<Table>, rid: Rid, view: ReadView) -> Result<Option<RowRef>> {
        let snapshot = match view {
            ReadView::Snapshot => self.consistent_snapshot(),
            ReadView::Newest => self.statement_snapshot(),
        };
        if let Some(OwnVersion::Seen(row)) = self.own_version(table, rid, u64::MAX)? {
            return Ok(row);
        }
        if view == ReadView::Newest {
            let newest = table.newest(rid)?;
            self.snapshots.has_met(newest.map_or(0, |(_, csn)| csn));
            return Ok(newest.map(|(row, _)| row));
        }
        table.check_defined(snapshot)?;
        table.committed(rid, snapshot)
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
    /// If the table is newer than the snapshot its first row is the error DefinitionChanged.
    pub fn scan(&mut self, table: &Arc<Table>) -> Scan {
        let snapshot = self.consistent_snapshot();
        self.scan_at(table, snapshot)
    }

    /// Begins a scan for rows to be locked. A transaction without a snapshot takes none for it: the scan finds the rows
    /// of the moment the statement began, and the caller locks each and reads it again ([`ReadView::Newest`]) before it
    /// uses it.
    pub fn scan_to_lock(&mut self, table: &Arc<Table>) -> Scan {
        let snapshot = match self.has_snapshot() {
            true => self.consistent_snapshot(),
            false => self.statement_snapshot(),
        };
        self.scan_at(table, snapshot)
    }

    fn scan_at(&self, table: &Arc<Table>, snapshot: Csn) -> Scan {
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
                if !self.next_page(txn)? {
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
    fn next_page(&mut self, txn: &Txn) -> Result<bool> {
        if self.page == 0 {
            self.table.check_defined(self.snapshot)?;
        }
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
                return Ok(true);
            }
            // A page published by a later commit may have room left that own rows took.
            if self.state.is_published() && (self.own || self.state.csn() <= self.snapshot) {
                self.rows = self.table.directory.page_rows(page);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The table scanned.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
}
