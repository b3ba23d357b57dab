//! Scans of a table along its row directory.

use super::session::Session;
use crate::error::Result;
use crate::format::{Rid, Word};
use crate::table::Table;
use crate::table::visibility::{RowReader, RowRef};
use perdura_log::Csn;
use std::sync::Arc;

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
    /// Rows may have to be read from a disk, so each page's are asked for ahead.
    reads_ahead: bool,
}

impl Scan {
    /// A scan of `table` at `snapshot`, which sees own writes up to step `seen`.
    pub(super) fn new(table: &Arc<Table>, snapshot: Csn, seen: u64) -> Scan {
        Scan {
            reads_ahead: table.chain().context().is_paged,
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
            session.check_readable(table, Some(self.snapshot))?;
        }
        let own = session.writes().view(table.id(), self.seen);
        self.from = self.place();
        while self.page < self.pages {
            let page = self.page;
            self.page += 1;
            // Each page that cannot be read takes a mapping of the process.
            table.chain().context().health.check()?;
            if table.words_at(page, self.snapshot, own, &mut self.words) {
                self.base = table.directory().page_base(page);
                session.writes().hide_words(table.id(), (self.base, self.seen), &mut self.words);
                self.next = self.from.saturating_sub(self.base) as usize;
                self.rows.start_page();
                if self.reads_ahead {
                    self.rows.table().chain().read_ahead(&self.words[self.next.min(self.words.len())..]);
                }
                self.words.iter().skip(self.next).take(AHEAD).for_each(|word| self.rows.prefetch(*word));
                return Ok(true);
            }
        }
        // Rows that come later behind the last one are met by a scan that goes on from there.
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
