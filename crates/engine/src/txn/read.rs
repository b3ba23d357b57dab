//! Reads in a transaction: single rows and scans.

use super::isolation::Isolation;
use super::session::Session;
use crate::error::Result;
use crate::format::{Rid, Word};
use crate::shadow::change::Own;
use crate::table::Table;
use crate::table::visibility::{ReadView, RowReader, RowRef};
use perdura_log::Csn;
use std::sync::Arc;

impl Session {
    /// Takes the transaction's snapshot now, at the last CSN given out, so that it agrees with the
    /// present position of the binary log. The first read waits until that CSN is visible. Under
    /// READ COMMITTED and SERIALIZABLE, which keep no snapshot, this does nothing.
    pub fn take_snapshot(&mut self) {
        if self.isolation().keeps_snapshot() {
            self.snapshots.take_ahead(&self.pool);
        }
    }

    /// Whether the transaction is bound to its snapshot: it is REPEATABLE READ and has taken one.
    /// From then on a row with a newer version is a conflict; before, statements lock rows and work
    /// on the newest versions.
    pub fn has_snapshot(&self) -> bool {
        self.bound_to().is_some()
    }

    /// The snapshot that the transaction is bound to.
    pub(super) fn bound_to(&self) -> Option<Csn> {
        self.snapshots.transaction().filter(|_| self.isolation() == Isolation::RepeatableRead)
    }

    /// The snapshot of consistent reads, taken now if there is none.
    pub(super) fn consistent_snapshot(&mut self) -> Csn {
        let isolation = self.isolation();
        self.snapshots.consistent(&self.pool, isolation)
    }

    /// Reads a row, own writes included. The row is valid until the statement ends.
    ///
    /// # Errors
    /// DefinitionChanged if the table is newer than the snapshot; Configuration for a snapshot
    /// under SERIALIZABLE if the table is not locked; Damaged.
    pub fn read(&mut self, table: &Arc<Table>, rid: Rid, view: ReadView) -> Result<Option<RowRef>> {
        self.check_own(table)?;
        if view == ReadView::Snapshot {
            let snapshot = self.consistent_snapshot();
            return self.read_at(table, rid, snapshot);
        }
        self.snapshots.statement(&self.pool);
        match self.writes.own(table.id(), rid) {
            Some(Own::Row(word)) => return table.row(rid, word),
            Some(Own::Deleted) => return Ok(None),
            None => {}
        }
        let (word, csn) = table.newest_met(rid.row());
        let row = table.row(rid, word)?;
        if row.is_some() {
            self.snapshots.note_met(csn);
        }
        Ok(row)
    }

    /// Whether somebody has changed a row since the transaction's snapshot. The transaction has
    /// locked the row and not written it. To be moved is not to be changed, though the row is then
    /// read from another place.
    pub fn is_changed(&self, table: &Table, rid: Rid) -> bool {
        self.snapshots.transaction().is_some_and(|snapshot| table.newest(rid.row()).1 > snapshot)
    }

    /// Reads a row at `snapshot`, which the session must hold open, own writes included.
    pub(super) fn read_at(&self, table: &Arc<Table>, rid: Rid, snapshot: Csn) -> Result<Option<RowRef>> {
        match self.writes.own(table.id(), rid) {
            Some(Own::Row(word)) => table.row(rid, word),
            Some(Own::Deleted) => Ok(None),
            None => {
                self.check_locked(table)?;
                table.check_defined(snapshot)?;
                table.read_at(rid, snapshot)
            }
        }
    }

    /// Begins a scan of a table along its row directory. The scan sees the snapshot and what the
    /// transaction wrote before it. The first call of [`Scan::next`] fails with DefinitionChanged
    /// if the table is newer than the snapshot, and with Configuration if the transaction is
    /// SERIALIZABLE and has not locked the table.
    pub fn scan(&mut self, table: &Arc<Table>) -> Scan {
        let snapshot = self.consistent_snapshot();
        self.scan_at(table, snapshot)
    }

    /// Begins a scan for rows to be locked. It takes no snapshot for the transaction: without one
    /// the scan reads at the statement's snapshot. The caller locks each row it finds, and reads it
    /// again with [`ReadView::Newest`] before using it.
    pub fn scan_to_lock(&mut self, table: &Arc<Table>) -> Scan {
        let snapshot = self.locking_snapshot();
        self.scan_at(table, snapshot)
    }

    /// The snapshot at which rows to be locked are found: the one that the transaction is bound to,
    /// or the statement's.
    pub(super) fn locking_snapshot(&mut self) -> Csn {
        match self.has_snapshot() {
            true => self.consistent_snapshot(),
            false => self.snapshots.statement(&self.pool),
        }
    }

    /// Whether the transaction has written a row itself.
    pub fn has_written(&self, table: &Table, rid: Rid) -> bool {
        self.writes.own(table.id(), rid).is_some()
    }

    /// Begins a scan at `snapshot`, which the session must hold open.
    pub(super) fn scan_at(&mut self, table: &Arc<Table>, snapshot: Csn) -> Scan {
        let seen = self.writes.position().step();
        self.scan_up_to(table, snapshot, seen)
    }

    /// Begins a scan at `snapshot`, which sees own writes up to step `seen`.
    pub(super) fn scan_up_to(&self, table: &Arc<Table>, snapshot: Csn, seen: u64) -> Scan {
        Scan {
            pages: table.directory().page_count(),
            rows: RowReader::new(table.clone()),
            snapshot,
            seen,
            page: 0,
            begun: false,
            from: 0,
            words: Vec::new(),
            next: 0,
            base: 0,
        }
    }
}

/// How many rows ahead of its use a scan asks for a version: some 100 ns, the latency of memory, at
/// the least time a row.
const AHEAD: usize = 16;

/// A scan of a table, in the order of row numbers. It resolves the words of one page at a time.
pub struct Scan {
    rows: RowReader,
    snapshot: Csn,
    /// The last step of the own transaction that the scan sees.
    seen: u64,
    pages: u64,
    page: u64,
    begun: bool,
    /// The scan gives out no row of a smaller number.
    from: u64,
    /// Words of the present page, as the scan sees them, by position, as far as the page is in use.
    words: Vec<Word>,
    /// Position of the next row.
    next: usize,
    /// Row number of position 0.
    base: u64,
}

impl Scan {
    /// Returns the next row that the scan sees, or `None` at the end. `session` is the one that
    /// began the scan. The row is valid until the statement ends.
    #[inline]
    pub fn next(&mut self, session: &Session) -> Result<Option<(Rid, RowRef)>> {
        match self.next_near() {
            Some(found) => Ok(Some(found)),
            None => self.next_anywhere(session),
        }
    }

    /// The next row, if it is at hand in a page that the scan has resolved, in the file of the row
    /// before, as most are. `None` says nothing; [`Scan::next`] does.
    #[inline(always)]
    pub fn next_near(&mut self) -> Option<(Rid, RowRef)> {
        let word = *self.words.get(self.next)?;
        let rid = Rid::new(self.base + self.next as u64, word.incarnation());
        let row = self.rows.near_row(rid, word)?;
        if let Some(later) = self.words.get(self.next + AHEAD) {
            self.rows.prefetch(*later);
        }
        self.next += 1;
        Some((rid, row))
    }

    #[inline(never)]
    fn next_anywhere(&mut self, session: &Session) -> Result<Option<(Rid, RowRef)>> {
        loop {
            while let Some(word) = self.words.get(self.next) {
                let row = self.base + self.next as u64;
                if let Some(later) = self.words.get(self.next + AHEAD) {
                    self.rows.prefetch(*later);
                }
                self.next += 1;
                if word.is_empty() || word.is_tombstone() {
                    continue;
                }
                let rid = Rid::new(row, word.incarnation());
                return Ok(self.rows.row(rid, *word)?.map(|seen| (rid, seen)));
            }
            if !self.next_page(session)? {
                return Ok(None);
            }
        }
    }

    /// Moves to the next page that may hold a row the scan sees. Returns whether there is one.
    fn next_page(&mut self, session: &Session) -> Result<bool> {
        let table = self.rows.table();
        if !self.begun {
            self.begun = true;
            session.check_own(table)?;
            session.check_locked(table)?;
            table.check_defined(self.snapshot)?;
        }
        let own = session.writes.view(table.id(), self.seen);
        self.from = self.place();
        while self.page < self.pages {
            let page = self.page;
            self.page += 1;
            if table.words_at(page, self.snapshot, own, &mut self.words) {
                self.base = table.directory().page_base(page);
                session.writes.hide_words(table.id(), (self.base, self.seen), &mut self.words);
                self.next = self.from.saturating_sub(self.base) as usize;
                self.rows.start_page();
                self.words.iter().skip(self.next).take(AHEAD).for_each(|word| self.rows.prefetch(*word));
                return Ok(true);
            }
        }
        // Rows that come behind the last one later are met by a scan that goes on from there.
        self.words.clear();
        (self.base, self.next) = (0, 0);
        Ok(false)
    }

    /// Number of the row from which on the scan goes on: the one behind the row that it has given
    /// out last.
    pub fn place(&self) -> u64 {
        let passed = &self.words[..self.next.min(self.words.len())];
        let last = passed.iter().rposition(|word| !word.is_empty() && !word.is_tombstone());
        last.map_or(self.from, |last| self.from.max(self.base + last as u64 + 1))
    }

    /// Goes to row number `row`. Only for a scan that has given out none.
    pub fn begin_at(&mut self, row: u64) {
        self.page = self.rows.table().directory().page_of(row);
        self.from = row;
    }

    /// The table that is scanned.
    pub fn table(&self) -> &Arc<Table> {
        self.rows.table()
    }
}
