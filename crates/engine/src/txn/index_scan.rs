//! Reads through an index: a cursor over its entries, in both directions, and single keys.

use super::direction::Direction;
use super::keys::{check_row, known_rid, no_index, rid_ahead};
use super::moved_rows::MovedRows;
use super::session::Session;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Rid, Word, entry_key, entry_row};
use crate::index::estimate::{beyond, estimate};
use crate::index::leaf_shadow::View;
use crate::index::measure::Measured;
use crate::index::outermost::{first_from, last_below};
use crate::index::page::Page;
use crate::index::table_index::Index;
use crate::table::Table;
use crate::table::visibility::ReadView;
use perdura_log::Csn;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The memory of a scan that has ended, for the next one.
#[derive(Default)]
pub struct ScanBuffers(Page);

/// A cursor over the entries of an index, as one snapshot sees them.
pub struct IndexScan {
    table: Arc<Table>,
    index: usize,
    snapshot: Csn,
    /// It is checked against the table's definition.
    is_consistent: bool,
    /// The last step of the own transaction that the scan sees.
    seen: u64,
    page: Page,
    /// Entries of the page before the next one.
    before_next: usize,
    /// Entries of the page up to the previous one.
    up_to_previous: usize,
    /// The entry returned last.
    at: Option<usize>,
    ahead: Ahead,
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
    fn turn_to(&mut self, next: usize) {
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

impl Session {
    fn index_of<'t>(&self, table: &'t Table, index: usize) -> Result<&'t Index> {
        table.index_list().index(index).ok_or_else(|| no_index(table, index))
    }

    /// Begins a scan of an index. With [`ReadView::Snapshot`] it sees what the snapshot sees, with
    /// [`ReadView::Newest`] the newest committed entries; and what the transaction changed before
    /// it.
    pub fn index_scan(&mut self, table: &Arc<Table>, index: usize, view: ReadView) -> IndexScan {
        self.index_scan_with(table, index, view, ScanBuffers::default())
    }

    /// As [`Session::index_scan`], in the memory of an earlier scan.
    pub fn index_scan_with(
        &mut self,
        table: &Arc<Table>,
        index: usize,
        view: ReadView,
        buffers: ScanBuffers,
    ) -> IndexScan {
        let (snapshot, is_consistent) = self.index_snapshot(view);
        self.index_scan_at(table, index, snapshot, is_consistent, buffers)
    }

    /// Begins a scan of an index for rows to be locked, as [`Session::scan_to_lock`] begins one of
    /// a table, in the memory of an earlier scan. The caller locks each row, reads it with
    /// [`ReadView::Newest`] and compares its key with that of the entry: if they differ,
    /// [`IndexScan::is_offered_moved`] says what to do.
    pub fn index_scan_to_lock(&mut self, table: &Arc<Table>, index: usize, buffers: ScanBuffers) -> IndexScan {
        // Planted: rows to be locked are found leaf by leaf, at no common moment.
        let (snapshot, is_consistent) = match perdura_pmem::planted(240) {
            true => self.index_snapshot(ReadView::Newest),
            false => (self.locking_snapshot(), true),
        };
        self.index_scan_at(table, index, snapshot, is_consistent, buffers)
    }

    fn index_scan_at(
        &mut self,
        table: &Arc<Table>,
        index: usize,
        snapshot: Csn,
        is_consistent: bool,
        ScanBuffers(page): ScanBuffers,
    ) -> IndexScan {
        let seen = self.writes.position().step();
        IndexScan {
            table: table.clone(),
            index,
            snapshot,
            is_consistent,
            seen,
            page,
            before_next: 0,
            up_to_previous: 0,
            at: None,
            ahead: Ahead::default(),
            begun: false,
            moved: None,
        }
    }

    /// Measures an index; `None` if there is none. It reads the heads of some leaves.
    pub(crate) fn measure_index(&mut self, table: &Table, index: usize) -> Option<Measured> {
        // The snapshot keeps purge off the leaves.
        self.snapshots.statement(&self.pool);
        let measured = table.index_list().index(index).map(Measured::of);
        self.snapshots.close_statement(&self.pool);
        measured
    }

    /// The snapshot of a read of an index, which keeps purge off its leaves.
    fn index_snapshot(&mut self, view: ReadView) -> (Csn, bool) {
        match view {
            ReadView::Snapshot => (self.consistent_snapshot(), true),
            ReadView::Newest => {
                self.snapshots.statement(&self.pool);
                (Csn::MAX, false)
            }
        }
    }

    /// Fails unless a snapshot keeps purge off the leaves: the statement that began the scan has
    /// ended.
    fn check_snapshot(&self) -> Result<()> {
        if self.snapshots.is_any_open() {
            return Ok(());
        }
        let what = "the statement that began the scan of an index has ended; begin another scan";
        Err(Error::new(ErrorKind::Configuration, what))
    }

    fn check_index_read(&self, table: &Arc<Table>, snapshot: Csn, is_consistent: bool) -> Result<()> {
        self.check_own(table)?;
        if is_consistent {
            self.check_locked(table)?;
            table.check_defined(snapshot)?;
        }
        Ok(())
    }

    /// The first row with exactly this key in index `index`, of which a unique index has one at
    /// most.
    ///
    /// # Errors
    /// As for [`Session::read`]; Configuration if there is no such index.
    pub fn find(&mut self, table: &Arc<Table>, index: usize, key: &[u8], view: ReadView) -> Result<Option<Rid>> {
        let (snapshot, is_consistent) = self.index_snapshot(view);
        self.check_index_read(table, snapshot, is_consistent)?;
        let own = self.writes.view(table.id(), u64::MAX);
        let is_hidden = |row| is_consistent && self.writes.is_hidden(table.id(), row, u64::MAX);
        let found = self.index_of(table, index)?.find(key, &View { snapshot, own }, is_hidden);
        let row = found.map_err(|error| error.in_index(index))?;
        row.map(|row| rid_ahead(table, row, view)).transpose()
    }

    /// Number of rows whose keys in index `index` lie between two bounds, which are beginnings of
    /// keys, without a look at each: exact for a few, otherwise by the number of leaves. Own
    /// changes may be left out.
    ///
    /// # Errors
    /// As for [`Session::read`]; Configuration if there is no such index.
    pub fn index_estimate(
        &mut self,
        table: &Arc<Table>,
        index: usize,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<u64> {
        self.check_own(table)?;
        self.snapshots.statement(&self.pool);
        let own = self.writes.view(table.id(), u64::MAX);
        let view = View { snapshot: Csn::MAX, own };
        estimate(self.index_of(table, index)?, (from, to), &view, table.row_count_estimate())
    }

    /// The key in index `index` that is nearest to the keys that begin with `key`, or one of these:
    /// going backward the greatest that is not above them, going forward the least that is not
    /// below. Whoever has inserted it: also a transaction that is not decided, also of a row that
    /// was deleted and is not purged. `None` if there is no such key.
    ///
    /// # Errors
    /// As for [`Session::read`]; Configuration if there is no such index.
    pub fn outermost_key(
        &mut self,
        table: &Arc<Table>,
        index: usize,
        key: &[u8],
        direction: Direction,
    ) -> Result<Option<Vec<u8>>> {
        self.check_own(table)?;
        // The snapshot keeps purge off the leaves.
        self.snapshots.statement(&self.pool);
        let searched = self.index_of(table, index)?;
        let found = match direction {
            Direction::Forward => first_from(searched, key),
            Direction::Backward => last_below(searched, &beyond(key)),
        };
        Ok(found.map_err(|error| error.in_index(index))?.map(|entry| entry_key(&entry).to_vec()))
    }
}

impl IndexScan {
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
            session.check_index_read(&self.table, self.snapshot, self.is_consistent)?;
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
        session.check_snapshot()?;
        let own = session.writes.view(self.table.id(), self.seen);
        let view = View { snapshot: self.snapshot, own };
        let index = session.index_of(&self.table, self.index)?;
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
            self.ahead.turn_to(self.before_next);
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
            session.check_snapshot()?;
            let own = session.writes.view(self.table.id(), self.seen);
            let view = View { snapshot: self.snapshot, own };
            let index = session.index_of(&self.table, self.index)?;
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
        self.is_consistent && session.writes.hides_rows() && session.writes.is_hidden(self.table.id(), row(), self.seen)
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
        rows.filter_map(place).for_each(|(region, at)| self.table.chain().prefetch(Word(region.load(at))));
        self.rid()
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
        ahead.turn_to(0);
        let [words, _] = asked(&mut ahead, 0, 50, 50);
        assert_eq!(words, (1..50).collect::<Vec<_>>(), "the next page");
        assert_eq!(asked(&mut ahead, 7, 8, 50), [vec![], vec![]], "elsewhere it begins anew");
    }
}
