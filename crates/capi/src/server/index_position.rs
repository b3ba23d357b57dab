//! Where a cursor stands in an index.
//!
//! A lookup of a whole key in a unique index needs no scan; the scan is begun when something else
//! is asked for. After a lookup it goes on from the key that was found.

use super::code::Outcome;
use super::session::Session;
use perdura_engine::{Direction, IndexScan, ReadView, Rid, ScanBuffers, Table};
use std::ops::Bound;
use std::sync::Arc;

/// A step from one entry to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Towards greater or smaller keys.
    pub direction: Direction,
    /// Where the caller goes from one search to the next, mostly the same way.
    pub walk: Direction,
    /// Only to an entry whose key begins with what was searched for.
    pub within: bool,
}

/// On which side of a key or entry a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Before,
    At,
    Behind,
}

impl Side {
    /// The side on which a search that finds nothing leaves the bound.
    fn of(bound: Bound<&[u8]>, direction: Direction) -> Side {
        match (bound, direction) {
            (Bound::Excluded(_), Direction::Forward) | (Bound::Included(_), Direction::Backward) => Side::Behind,
            _ => Side::Before,
        }
    }
}

/// State of the scan since its last search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// Nothing: it is still there.
    Nothing,
    /// An entry.
    Entry,
    /// An entry whose key does not begin with what was searched for.
    Beyond,
    /// The end of the index, past some entry.
    End,
}

/// A place in an index.
pub(super) struct IndexPosition {
    index: usize,
    unique: bool,
    /// View of lookups, and of the scan unless it is for rows to be locked.
    view: ReadView,
    /// The scan finds rows to be locked at the statement's snapshot.
    to_lock: bool,
    scan: Option<IndexScan>,
    /// The memory of the scan before.
    spare: ScanBuffers,
    /// The last step, which [`IndexPosition::repeat`] takes again.
    last: Step,
    /// Key of the last search or lookup.
    sought: Vec<u8>,
    /// Where the place is that was searched for, beside those bytes.
    side: Side,
    /// Outcome of the search.
    reached: Reached,
    /// The place is the key that was looked up, and not where the scan is.
    looked_up: bool,
    /// The place is what an earlier statement has left in `sought` and `side`.
    left: bool,
    /// The row that the lookup found.
    found: Option<Rid>,
}

impl IndexPosition {
    pub(super) fn new() -> IndexPosition {
        IndexPosition {
            index: 0,
            unique: false,
            view: ReadView::Snapshot,
            to_lock: false,
            scan: None,
            spare: ScanBuffers::default(),
            last: Step { direction: Direction::Forward, walk: Direction::Forward, within: false },
            sought: Vec::new(),
            side: Side::At,
            reached: Reached::Nothing,
            looked_up: false,
            left: false,
            found: None,
        }
    }

    /// Number of the index.
    pub(super) fn number(&self) -> usize {
        self.index
    }

    /// Begins to read an index. With `to_lock` the scan finds its rows at the statement's snapshot,
    /// whatever `view` is.
    pub(super) fn start(&mut self, index: usize, unique: bool, view: ReadView, to_lock: bool) {
        self.end();
        self.index = index;
        self.unique = unique;
        self.view = view;
        self.to_lock = to_lock;
    }

    /// Forgets the scan, so that the next search sees what has happened since.
    pub(super) fn end(&mut self) {
        if let Some(scan) = self.scan.take() {
            self.spare = scan.into_buffers();
        }
        (self.looked_up, self.left) = (false, false);
    }

    /// Forgets the scan, but not where it has come to: [`IndexPosition::go_on`] takes up from
    /// there.
    pub(super) fn leave(&mut self) {
        let Some(scan) = self.scan.take().filter(|_| !self.looked_up) else { return };
        let is_forward = self.last.direction == Direction::Forward;
        let (place, side) = match (self.reached, scan.entry()) {
            (Reached::Nothing, _) => return,
            (Reached::Entry, entry) => (entry, Side::At),
            (Reached::Beyond, entry) => (entry, if is_forward { Side::Before } else { Side::Behind }),
            // Behind a leaf without entries the scan is at none.
            (Reached::End, []) if is_forward => (scan.leaf(), Side::Before),
            (Reached::End, last) if is_forward => (last, Side::Behind),
            (Reached::End, _) => (&[][..], Side::Before),
        };
        self.side = side;
        self.sought.clear();
        self.sought.extend_from_slice(place);
    }

    /// Goes on from where the index was left, after it was begun anew.
    pub(super) fn go_on(&mut self) {
        (self.left, self.found) = (true, None);
    }

    /// The scan, begun if there is none.
    fn scan(&mut self, session: &mut Session, table: &Arc<Table>) -> &mut IndexScan {
        let spare = &mut self.spare;
        self.scan.get_or_insert_with(|| match self.to_lock {
            true => session.txn.index(table, self.index).scan_to_lock(std::mem::take(spare)),
            false => session.txn.index(table, self.index).scan_with(self.view, std::mem::take(spare)),
        })
    }

    /// Looks for the first entry at `bound`, or behind it in the step's direction; false if there
    /// is none. `whole` says that the bound is a whole key.
    pub(super) fn seek(
        &mut self,
        session: &mut Session,
        table: &Arc<Table>,
        bound: Bound<&[u8]>,
        step: Step,
        whole: bool,
    ) -> Outcome<bool> {
        self.last = step;
        (self.looked_up, self.left, self.reached) = (false, false, Reached::Nothing);
        self.sought.clear();
        if let Bound::Included(bytes) | Bound::Excluded(bytes) = bound {
            self.sought.extend_from_slice(bytes);
        }
        self.side = Side::of(bound, step.direction);
        if whole && step.within && self.unique {
            (self.looked_up, self.side) = (true, Side::At);
            self.found = self.look_up(session, table)?;
            if self.found.is_some() || !self.descends() {
                return Ok(self.found.is_some());
            }
            // Nobody has the key now: whoever had it at the snapshot may have moved to one that the
            // walk has passed.
            self.looked_up = false;
        }
        self.scan(session, table).seek(&session.txn, bound, step.direction)?;
        self.advance(session)
    }

    /// Goes on among the entries of the snapshot from the key that nobody has any more; `lost` had
    /// it before it was locked.
    #[cold]
    fn seek_before(&mut self, session: &mut Session, table: &Arc<Table>, lost: Option<Rid>) -> Outcome<bool> {
        self.looked_up = false;
        let (key, direction) = (std::mem::take(&mut self.sought), self.last.direction);
        let scan = self.scan(session, table);
        lost.into_iter().for_each(|rid| scan.forget_found(rid));
        let sought = scan.seek(&session.txn, Bound::Included(&key[..]), direction);
        self.sought = key;
        sought?;
        self.advance(session)
    }

    /// Whether the caller looks for whole keys of rows to be locked in descending order.
    fn descends(&self) -> bool {
        self.to_lock && self.last.walk != self.last.direction
    }

    fn look_up(&mut self, session: &mut Session, table: &Arc<Table>) -> Outcome<Option<Rid>> {
        let found = session.txn.index(table, self.index).find(&self.sought, self.view)?;
        if let Some(rid) = found.filter(|_| self.descends()) {
            self.scan(session, table).note_found(rid);
        }
        Ok(found)
    }

    /// Takes a step; false if there is no entry.
    pub(super) fn step(&mut self, session: &mut Session, table: &Arc<Table>, step: Step) -> Outcome<bool> {
        self.last = step;
        if self.looked_up || self.left {
            if step.within {
                return Ok(false);
            }
            (self.looked_up, self.left, self.reached) = (false, false, Reached::Nothing);
            let key = std::mem::take(&mut self.sought);
            let bound = match (self.side, step.direction) {
                (Side::Before, Direction::Forward) | (Side::Behind, Direction::Backward) => Bound::Included(&key[..]),
                _ => Bound::Excluded(&key[..]),
            };
            self.side = Side::of(bound, step.direction);
            let sought = self.scan(session, table).seek(&session.txn, bound, step.direction);
            self.sought = key;
            sought?;
        }
        self.advance(session)
    }

    /// Takes the last step again, or repeats the lookup: what it found may have made room for
    /// another row. Of the newest entries those count that have come while its row was waited for,
    /// as the row may be behind one of them.
    pub(super) fn repeat(&mut self, session: &mut Session, table: &Arc<Table>) -> Outcome<bool> {
        if self.looked_up {
            let found = self.look_up(session, table)?;
            let before = std::mem::replace(&mut self.found, found);
            if found.is_none() && self.descends() {
                return self.seek_before(session, table, before);
            }
            let is_new = found != before;
            // The row that has lost the key is met at its entry, if that is yet to come.
            if let (Some(lost), Some(scan)) = (before.filter(|_| is_new), &mut self.scan) {
                scan.forget_found(lost);
            }
            return Ok(found.is_some() && is_new);
        }
        if let Some(scan) = self.scan.as_mut().filter(|_| self.view == ReadView::Newest && !self.to_lock) {
            scan.refresh(&session.txn)?;
        }
        self.step(session, table, self.last)
    }

    fn advance(&mut self, session: &Session) -> Outcome<bool> {
        let Some(scan) = &mut self.scan else { return Ok(false) };
        let is_there = match self.last.direction {
            Direction::Forward => scan.forward(&session.txn)?,
            Direction::Backward => scan.backward(&session.txn)?,
        };
        self.reached = match is_there {
            true if !self.last.within || scan.key().starts_with(&self.sought) => Reached::Entry,
            true => Reached::Beyond,
            // The scan has come to nothing yet, or has passed an entry.
            false if self.reached == Reached::Nothing => Reached::Nothing,
            false => Reached::End,
        };
        Ok(self.reached == Reached::Entry)
    }

    /// Whether the caller is to use the row found last at once, which has `key` now and not that of
    /// its entry.
    pub(super) fn is_offered_moved(&mut self, key: &[u8]) -> bool {
        let walk = self.last.walk;
        !self.looked_up && self.to_lock && self.scan.as_mut().is_some_and(|scan| scan.is_offered_moved(key, walk))
    }

    /// Begins another walk through the index: rows that have moved are offered again.
    pub(super) fn rewind(&mut self) {
        self.scan.iter_mut().for_each(IndexScan::forget_moved);
    }

    /// The row of the entry that was found last.
    pub(super) fn row(&self) -> Option<Rid> {
        if self.looked_up { self.found } else { self.scan.as_ref()?.rid() }
    }

    /// The row of the entry that was found last, which is read next.
    pub(super) fn row_to_read(&mut self) -> Option<Rid> {
        if self.looked_up { self.found } else { self.scan.as_mut()?.rid_to_read() }
    }

    /// The key of the entry that was found last.
    pub(super) fn key(&self) -> &[u8] {
        match &self.scan {
            Some(scan) if !self.looked_up => scan.key(),
            _ => &self.sought,
        }
    }

    /// Whether a key begins with what was searched for.
    pub(super) fn is_sought(&self, key: &[u8]) -> bool {
        key.starts_with(&self.sought)
    }
}
