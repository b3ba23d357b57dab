//! Scans of an index: a cursor over its entries, in both directions.

use super::direction::Direction;
use super::keys::{check_row, known_rid, no_index};
use super::moved_rows::MovedRows;
use super::session::Session;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Rid, VERSION_HEADER, Word, entry_key, entry_row};
use crate::index::estimate::beyond;
use crate::index::leaf_shadow::View;
use crate::index::page::Page;
use crate::index::table_index::Index;
use crate::table::Table;
use crate::table::visibility::RowRef;
use perdura_log::Csn;
use perdura_pmem::LINE_BYTES;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The memory of a scan that has ended, for the next one.
#[derive(Default)]
pub struct ScanBuffers(Page);

/// A cursor over the entries of an index, as one snapshot sees them.
pub struct IndexScan {
    table: Arc<Table>,
    index: usize,
    seen: Seen,
    page: Page,
    /// Entries of the page before the next one.
    before_next: usize,
    /// Entries of the page up to the previous one.
    up_to_previous: usize,
    /// The entry returned last.
    at: Option<usize>,
    ahead: Ahead,
    /// Bytes of the version read last: the next ones are mostly as long.
    version_bytes: u64,
    begun: bool,
    /// Rows that have moved since the snapshot, once a locking scan has met one.
    moved: Option<Box<MovedRows>>,
}

/// How many entries ahead a forward scan asks for the words of their rows, and for the versions
/// that those name.
const WORDS_AHEAD: usize = 8;
const ROWS_AHEAD: usize = 4;

/// Prefetches of a scan ahead of its reads. It asks for more with each row, so that a scan of a few
/// rows brings none for nothing.
#[derive(Default)]
struct Ahead {
    /// The entry whose row is read next, if the scan goes on forward.
    next: usize,
    /// Rows read since it began to.
    read: usize,
    /// Entries of the page for whose words it has asked.
    words: usize,
    /// Entries of the page for whose versions it has asked.
    rows: usize,
}

impl Ahead {
    /// Begins with another page, at `next`.
    fn start_page(&mut self, next: usize) {
        *self = Self { next, read: self.read, words: 0, rows: 0 };
    }

    /// The row of entry `at` is read now. Returns the entries for whose words, and for whose
    /// versions, it is time to ask.
    fn pass(&mut self, at: usize, entries: usize) -> [Range<usize>; 2] {
        if at != self.next {
            *self = Self::default();
        }
        (self.next, self.read) = (at + 1, self.read + 1);
        let end = |most: usize| (at + 1 + most).min(entries);
        let words = self.words.max(at + 1)..end(WORDS_AHEAD.min(self.read - 1));
        let rows = self.rows.max(at + 1)..end(ROWS_AHEAD.min((self.read - 1) / 2));
        (self.words, self.rows) = (self.words.max(words.end), self.rows.max(rows.end));
        [words, rows]
    }
}

/// Snapshot of a scan, the last step of the own transaction that it sees, and whether it is checked
/// against the table's definition.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub snapshot: Csn,
    pub step: u64,
    pub is_consistent: bool,
}

/// The index at position `index` of a table.
pub(super) fn index_of(table: &Table, index: usize) -> Result<&Index> {
    table.index_list().index(index).ok_or_else(|| no_index(table, index))
}

/// Fails unless a snapshot keeps purge off the leaves: the statement that began the scan has ended.
fn check_snapshot(session: &Session) -> Result<()> {
    if session.has_open_snapshot() {
        return Ok(());
    }
    let what = "the statement that began the scan of an index has ended; begin another scan";
    Err(Error::new(ErrorKind::Configuration, what))
}

impl IndexScan {
    /// A scan of the index at position `index` of `table`, in the memory of an earlier scan.
    pub(super) fn new(table: &Arc<Table>, index: usize, seen: Seen, ScanBuffers(page): ScanBuffers) -> IndexScan {
        IndexScan {
            table: table.clone(),
            index,
            seen,
            page,
            before_next: 0,
            up_to_previous: 0,
            at: None,
            ahead: Ahead::default(),
            version_bytes: LINE_BYTES,
            begun: false,
            moved: None,
        }
    }

    /// Ends the scan, and keeps its memory for another: that of one leaf.
    pub fn into_buffers(mut self) -> ScanBuffers {
        self.page.clear();
        ScanBuffers(self.page)
    }

    /// Goes to the place before or behind a bound, which is the beginning of keys. Forward, the
    /// next entry is the first at the bound (`Included`) or behind all that begin with it
    /// (`Excluded`). Backward, the previous entry is the last that begins with the bound or lies
    /// below it (`Included`), or the last below it (`Excluded`).
    ///
    /// # Errors
    /// As for [`Session::read`]; Configuration if there is no such index.
    pub fn seek(&mut self, session: &Session, from: Bound<&[u8]>, direction: Direction) -> Result<()> {
        if !self.begun {
            session.check_readable(&self.table, self.seen.is_consistent.then_some(self.seen.snapshot))?;
            self.begun = true;
        }
        let behind = matches!(
            (from, direction),
            (Bound::Excluded(_), Direction::Forward) | (Bound::Included(_), Direction::Backward)
        );
        let key = match from {
            Bound::Unbounded if direction == Direction::Forward => Vec::new(),
            Bound::Unbounded => beyond(b""),
            Bound::Included(key) | Bound::Excluded(key) if behind => beyond(key),
            Bound::Included(key) | Bound::Excluded(key) => key.to_vec(),
        };
        if from == Bound::Unbounded {
            self.forget_moved();
        }
        self.moved.iter_mut().for_each(|moved| moved.seek(&key));
        self.load(session, &key, direction == Direction::Forward)?;
        self.put_at(self.page.place_of(&key));
        (self.at, self.ahead) = (None, Ahead::default());
        Ok(())
    }

    /// Looks anew at the leaf of the entry that was returned last, and stays there: of the newest
    /// entries, those that have come meanwhile are met as well.
    ///
    /// # Errors
    /// Damaged.
    pub fn refresh(&mut self, session: &Session) -> Result<()> {
        let Some(at) = self.at else { return Ok(()) };
        let entry = self.page.entry(at).to_vec();
        self.load(session, &entry, false)?;
        let place = self.page.place_of(&entry);
        let is_there = place < self.page.len() && self.page.entry(place) == entry;
        (self.before_next, self.up_to_previous) = (place + usize::from(is_there), place);
        self.at = is_there.then_some(place);
        Ok(())
    }

    /// Says of a scan for rows to be locked what becomes of the row at which it stands, which has
    /// `key` now, another than that of its entry: true if the caller is to use the row at once.
    /// Otherwise the scan comes to the row at its new entry, and the caller goes on. In one walk
    /// through the index each row is offered once; [`IndexScan::forget_moved`], or a search from an
    /// end of the index, begins another. `walk` is the direction in which the caller goes from one
    /// search to the next, whichever way its steps go.
    pub fn is_offered_moved(&mut self, key: &[u8], walk: Direction) -> bool {
        let row = entry_row(self.entry());
        let mut moved = self.take_moved();
        let offered = moved.note(key, row, walk);
        self.moved = Some(moved);
        offered
    }

    /// Notes that the caller has found a row in another way: the scan passes by its entry.
    pub fn note_found(&mut self, rid: Rid) {
        let mut moved = self.take_moved();
        moved.note_found(rid.row());
        self.moved = Some(moved);
    }

    /// Takes back [`IndexScan::note_found`]: the row has lost the key before it was locked.
    pub fn forget_found(&mut self, rid: Rid) {
        self.moved.iter_mut().for_each(|moved| moved.forget(rid.row()));
    }

    /// The rows that have moved, none so far if the scan has met none.
    fn take_moved(&mut self) -> Box<MovedRows> {
        self.moved.take().unwrap_or_else(|| Box::new(MovedRows::new(self.entry())))
    }

    /// Begins another walk through the index: each row is offered again.
    pub fn forget_moved(&mut self) {
        self.moved = None;
    }

    /// Takes a step among the scan's own entries and those of rows that have moved.
    #[cold]
    fn step_among_moved(&mut self, session: &Session, mut moved: Box<MovedRows>, direction: Direction) -> Result<bool> {
        let bound = moved.bound(direction);
        self.load(session, &bound, direction == Direction::Forward)?;
        self.put_at(self.page.place_of(&bound));
        let own = loop {
            let is_there = match direction {
                Direction::Forward => self.own_forward(session)?,
                Direction::Backward => self.own_backward(session)?,
            };
            match self.at.filter(|_| is_there).map(|at| self.page.entry(at)) {
                Some(entry) if moved.has(entry_row(entry)) => {}
                own => break own,
            }
        };
        let is_there = moved.advance(own, &bound, direction);
        self.moved = Some(moved);
        Ok(is_there)
    }

    fn put_at(&mut self, place: usize) {
        (self.before_next, self.up_to_previous) = (place, place);
    }

    /// Loads the leaf at `key`; with `onward`, the next one if there is nothing to be seen.
    fn load(&mut self, session: &Session, key: &[u8], onward: bool) -> Result<()> {
        self.at = None;
        check_snapshot(session)?;
        let own = session.writes().view(self.table.id(), self.seen.step);
        let view = View { snapshot: self.seen.snapshot, own };
        let index = index_of(&self.table, self.index)?;
        let found = match onward {
            true => index.page_from(key, &view, &mut self.page),
            false => index.page_at(key, &view, &mut self.page),
        };
        if !found.map_err(|error| error.in_index(self.index))? {
            self.page = Page::default();
        }
        Ok(())
    }

    /// The next entry's row; `None` at the end.
    ///
    /// # Errors
    /// Damaged.
    pub fn next(&mut self, session: &Session) -> Result<Option<Rid>> {
        Ok(if self.forward(session)? { self.rid_to_read() } else { None })
    }

    /// The row of the entry before; `None` at the beginning.
    ///
    /// # Errors
    /// Damaged.
    pub fn previous(&mut self, session: &Session) -> Result<Option<Rid>> {
        Ok(if self.backward(session)? { self.rid() } else { None })
    }

    /// Goes to the next entry without a look at its row; false at the end.
    ///
    /// # Errors
    /// Damaged.
    pub fn forward(&mut self, session: &Session) -> Result<bool> {
        match self.moved.take() {
            Some(moved) => self.step_among_moved(session, moved, Direction::Forward),
            None => self.own_forward(session),
        }
    }

    fn own_forward(&mut self, session: &Session) -> Result<bool> {
        loop {
            if self.before_next < self.page.len() {
                if self.is_hidden(session, self.before_next) {
                    self.before_next += 1;
                    continue;
                }
                return self.take(self.before_next);
            }
            let Some(high) = self.page.high().map(<[u8]>::to_vec) else {
                self.put_at(self.page.len());
                return Ok(false);
            };
            self.load(session, &high, true)?;
            self.put_at(self.page.place_of(&high));
            self.ahead.start_page(self.before_next);
        }
    }

    /// Goes to the entry before without a look at its row; false at the beginning.
    ///
    /// # Errors
    /// Damaged.
    pub fn backward(&mut self, session: &Session) -> Result<bool> {
        match self.moved.take() {
            Some(moved) => self.step_among_moved(session, moved, Direction::Backward),
            None => self.own_backward(session),
        }
    }

    fn own_backward(&mut self, session: &Session) -> Result<bool> {
        loop {
            if let Some(entry) = self.up_to_previous.checked_sub(1) {
                if self.is_hidden(session, entry) {
                    self.up_to_previous = entry;
                    continue;
                }
                return self.take(entry);
            }
            let low = self.page.low().to_vec();
            self.at = None;
            check_snapshot(session)?;
            let own = session.writes().view(self.table.id(), self.seen.step);
            let view = View { snapshot: self.seen.snapshot, own };
            let index = index_of(&self.table, self.index)?;
            let mut found =
                || index.page_before(&low, &view, &mut self.page).map_err(|error| error.in_index(self.index));
            if low.is_empty() || !found()? {
                self.put_at(0);
                return Ok(false);
            }
            self.put_at(self.page.len());
        }
    }

    /// Whether the scan leaves an entry out: an own row has the primary key of its row.
    fn is_hidden(&self, session: &Session, entry: usize) -> bool {
        // Asked for each entry: mostly nothing is hidden, and the entry is not looked at.
        let row = || entry_row(self.page.entry(entry));
        let writes = session.writes();
        self.seen.is_consistent && writes.hides_rows() && writes.is_hidden(self.table.id(), row(), self.seen.step)
    }

    fn take(&mut self, entry: usize) -> Result<bool> {
        (self.before_next, self.up_to_previous, self.at) = (entry + 1, entry, Some(entry));
        check_row(&self.table, entry_row(self.page.entry(entry)))?;
        Ok(true)
    }

    /// The row of the entry where the scan stands.
    pub fn rid(&self) -> Option<Rid> {
        let entry = self.entry();
        (!entry.is_empty()).then(|| known_rid(&self.table, entry_row(entry)))
    }

    /// The row of the entry where the scan stands, which the caller reads next. Asks for the rows
    /// behind it.
    pub fn rid_to_read(&mut self) -> Option<Rid> {
        if self.moved.is_some() {
            return self.rid();
        }
        let at = self.at?;
        let [words, rows] = self.ahead.pass(at, self.page.len());
        let place = |entry| self.table.directory().place(entry_row(self.page.entry(entry)));
        words.filter_map(place).for_each(|(region, at)| region.prefetch(at));
        let (chain, bytes) = (self.table.chain(), self.version_bytes);
        rows.filter_map(place).for_each(|(region, at)| chain.prefetch(Word(region.load(at)), bytes));
        self.rid()
    }

    /// Notes the length of a row that was read: the scan asks ahead for as much of the next ones.
    #[inline]
    pub fn note_length(&mut self, row: RowRef) {
        self.version_bytes = VERSION_HEADER + row.len() as u64;
    }

    /// The key of the entry that was returned last; empty before the first.
    pub fn key(&self) -> &[u8] {
        entry_key(self.entry())
    }

    /// The entry that was returned last, as a bound for a later scan: its key and the number of its
    /// row. Empty before the first.
    pub fn entry(&self) -> &[u8] {
        match self.moved.as_ref().and_then(|moved| moved.entry()) {
            Some(entry) => entry,
            None => self.at.map_or(&[], |entry| self.page.entry(entry)),
        }
    }

    /// A bound at which the entries of the leaf begin that the scan has come to.
    pub fn leaf(&self) -> &[u8] {
        self.page.low()
    }

    /// The table that is scanned.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

#[cfg(test)]
mod tests {
    use super::Ahead;

    /// The entries for whose words, and for whose versions, a scan of `entries` from `from` on has
    /// asked when it came to each.
    fn asked(ahead: &mut Ahead, from: usize, to: usize, entries: usize) -> [Vec<usize>; 2] {
        let mut asked = [Vec::new(), Vec::new()];
        for at in from..to {
            for (asked, range) in asked.iter_mut().zip(ahead.pass(at, entries)) {
                asked.extend(range);
            }
        }
        asked
    }

    #[test]
    fn a_scan_asks_once_for_each_entry_and_a_short_one_for_few() {
        let mut ahead = Ahead::default();
        assert_eq!(asked(&mut ahead, 0, 1, 50), [vec![], vec![]], "one row");
        assert_eq!(asked(&mut ahead, 1, 2, 50), [vec![2], vec![]]);
        let [words, rows] = asked(&mut ahead, 2, 50, 50);
        assert_eq!(words, (3..50).collect::<Vec<_>>());
        assert!(rows.is_sorted() && rows.iter().all(|row| words.contains(row)), "{rows:?}");
        assert_eq!(*rows.last().expect("rows"), 49);
        ahead.start_page(0);
        let [words, _] = asked(&mut ahead, 0, 50, 50);
        assert_eq!(words, (1..50).collect::<Vec<_>>(), "the next page");
        assert_eq!(asked(&mut ahead, 7, 8, 50), [vec![], vec![]], "elsewhere it begins anew");
    }
}
