//! Scans of an index: a cursor over its entries, in both directions.

use super::direction::Direction;
use super::keys::{check_row, known_rid, no_index};
use super::moved_rows::MovedRows;
use super::rows_ahead::{CHUNK, RowsAhead, Use};
use super::session::Session;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Rid, Word, entry_key, entry_row};
use crate::index::bounds::{end_of, start_of};
use crate::index::leaf_shadow::View;
use crate::index::page::Page;
use crate::index::table_index::Index;
use crate::table::Table;
use crate::table::visibility::RowRef;
use perdura_log::Csn;
use std::ops::Bound;
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
    ahead: RowsAhead,
    begun: bool,
    /// Rows that have moved since the snapshot, once a locking scan has met one.
    moved: Option<Box<MovedRows>>,
}

/// Own writes that a read of a scan's rows sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnWrites {
    /// Those from before the scan began, as its entries do: the statement only reads.
    BeforeScan,
    /// All: the statement may change a row again that it has changed.
    All,
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
            ahead: RowsAhead::new(),
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
        self.page.set_end(None);
        self.seek_bound(session, from, direction)
    }

    /// Goes to the beginning of a range, as a forward [`IndexScan::seek`] does. Steps forward go
    /// to the entries that begin with the bound `to` or lie below it (`Included`), or to those
    /// below it (`Excluded`); those behind are neither sorted nor looked up. A range has an end
    /// that is not below its beginning. Not for a scan for rows to be locked.
    ///
    /// # Errors
    /// Those of [`IndexScan::seek`].
    pub fn seek_range(&mut self, session: &Session, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<()> {
        self.page.set_end((to != Bound::Unbounded).then(|| end_of(to)));
        self.seek_bound(session, from, Direction::Forward)
    }

    fn seek_bound(&mut self, session: &Session, from: Bound<&[u8]>, direction: Direction) -> Result<()> {
        if !self.begun {
            session.check_readable(&self.table, self.seen.is_consistent.then_some(self.seen.snapshot))?;
            self.begun = true;
        }
        let key = match direction {
            Direction::Forward => start_of(from),
            Direction::Backward => end_of(from),
        };
        if from == Bound::Unbounded {
            self.forget_moved();
        }
        self.moved.iter_mut().for_each(|moved| moved.seek(&key));
        self.load(session, &key, direction)?;
        self.ahead.stop();
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
        self.load(session, &entry, Direction::Backward)?;
        let place = self.up_to_previous;
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
        self.load(session, &bound, direction)?;
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

    /// Loads the leaf at `key`; forward, the next one if there is nothing to be seen. The scan then
    /// stands before the first entry at the key.
    fn load(&mut self, session: &Session, key: &[u8], direction: Direction) -> Result<()> {
        let found = self.fill(session, |index, view, page| match direction {
            Direction::Forward => index.page_from(key, view, page),
            Direction::Backward => index.page_at(key, view, page),
        })?;
        if !found {
            self.page.clear();
        }
        // Forward, the page has nothing below the key.
        self.put_at(if direction == Direction::Forward { 0 } else { self.page.place_of(key) });
        Ok(())
    }

    /// Fills the page by `read`; false if that finds no leaf.
    fn fill(
        &mut self,
        session: &Session,
        read: impl FnOnce(&Index, &View<'_>, &mut Page) -> Result<bool>,
    ) -> Result<bool> {
        self.at = None;
        self.ahead.leave_page();
        check_snapshot(session)?;
        let own = session.writes().view(self.table.id(), self.seen.step);
        let ahead = session.writes().ahead(self.table.id()).filter(|_| self.seen.is_consistent);
        let view = View { snapshot: self.seen.snapshot, own, ahead };
        let index = index_of(&self.table, self.index)?;
        read(index, &view, &mut self.page).map_err(|error| error.in_index(self.index))
    }

    /// The next entry's row; `None` at the end.
    ///
    /// # Errors
    /// Damaged.
    pub fn next(&mut self, session: &Session) -> Result<Option<Rid>> {
        Ok(if self.forward(session)? { self.rid() } else { None })
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
            let Some(high) = self.page.onward().map(<[u8]>::to_vec) else {
                self.put_at(self.page.len());
                return Ok(false);
            };
            self.load(session, &high, Direction::Forward)?;
            self.ahead.start_page();
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
            // Nothing lies below the empty key.
            if !self.fill(session, |index, view, page| index.page_before(&low, view, page))? {
                self.put_at(0);
                return Ok(false);
            }
            self.put_at(self.page.len());
        }
    }

    /// Whether the scan leaves an entry out: an own row has the primary key of its row.
    fn is_hidden(&self, session: &Session, entry: usize) -> bool {
        // Asked for each entry: mostly nothing is hidden, and the entry is not looked at.
        let row = || self.page.row(entry);
        let writes = session.writes();
        self.seen.is_consistent && writes.hides_rows() && writes.is_hidden(self.table.id(), row(), self.seen.step)
    }

    fn take(&mut self, entry: usize) -> Result<bool> {
        (self.before_next, self.up_to_previous, self.at) = (entry + 1, entry, Some(entry));
        check_row(&self.table, self.page.row(entry))?;
        Ok(true)
    }

    /// The row of the entry where the scan stands.
    pub fn rid(&self) -> Option<Rid> {
        let entry = self.entry();
        (!entry.is_empty()).then(|| known_rid(&self.table, entry_row(entry)))
    }

    /// Reads the row of the entry where the scan stands, as the session's snapshot sees it, and the
    /// `own` writes; `None` if it sees none. Asks for the rows behind it.
    ///
    /// # Errors
    /// As for [`Session::read`].
    pub fn read_row(&mut self, session: &mut Session, own: OwnWrites) -> Result<Option<(Rid, RowRef)>> {
        match self.at.filter(|_| self.moved.is_none() && session.reads_committed_at(&self.table, self.seen)) {
            Some(at) => self.read_committed(at),
            None => {
                let Some(rid) = self.rid() else { return Ok(None) };
                let last_step = if own == OwnWrites::All { u64::MAX } else { self.seen.step };
                let row = session.read_up_to(&self.table, rid, last_step)?;
                Ok(row.map(|row| (rid, row)))
            }
        }
    }

    /// Reads the row of entry `at` of the page as the scan's snapshot sees it, which the session
    /// holds and to which the transaction adds nothing.
    #[inline]
    fn read_committed(&mut self, at: usize) -> Result<Option<(Rid, RowRef)>> {
        if self.ahead.pass(at, Use::Scanned) {
            self.look_ahead(at, Use::Scanned);
        }
        let row = self.page.row(at);
        let word = self.ahead.word(at).unwrap_or_else(|| self.table.word_at(row, self.seen.snapshot));
        let rid = Rid::new(row, word.incarnation());
        Ok(self.table.row(rid, word)?.map(|row| (rid, row)))
    }

    /// Looks up the words of the rows behind entry `at` of the page, asks for the versions that
    /// they name, and for the words behind.
    fn look_ahead(&mut self, at: usize, use_of_rows: Use) {
        let (table, seen) = (&self.table, &self.seen);
        let turn = self.ahead.take_turn(at, self.page.len());
        let (mut rows, mut words) = ([0; CHUNK], [Word::EMPTY; CHUNK]);
        let (rows, words) = (&mut rows[..turn.rows.len()], &mut words[..turn.rows.len()]);
        rows.iter_mut().zip(turn.rows.clone()).for_each(|(row, entry)| *row = self.page.row(entry));
        match use_of_rows {
            Use::Scanned => table.words_of(rows, seen.snapshot, words),
            Use::Named => rows.iter().zip(&mut *words).for_each(|(row, word)| *word = table.directory().raw_word(*row)),
        }
        self.ahead.keep(turn.rows.start, words);
        let bytes = self.ahead.version_bytes();
        words.iter().for_each(|word| table.chain().prefetch(*word, bytes));
        for (region, at) in turn.words.filter_map(|entry| table.directory().place(self.page.row(entry))) {
            region.prefetch(at);
        }
    }

    /// The row of the entry where the scan stands, which the caller locks or reads next. Asks for
    /// the rows behind it.
    pub fn rid_to_read(&mut self) -> Option<Rid> {
        if let Some(at) = self.at.filter(|_| self.moved.is_none())
            && self.ahead.pass(at, Use::Named)
        {
            self.look_ahead(at, Use::Named);
        }
        self.rid()
    }

    /// Notes how many bytes of a row were read: the scan asks ahead for as much of the next ones.
    #[inline]
    pub fn note_bytes(&mut self, bytes: usize) {
        self.ahead.note_bytes(bytes);
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
