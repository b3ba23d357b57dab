//! Where a cursor stands in an index.
//!
//! A lookup of a whole key in a unique index needs no scan; the scan is begun when something else
//! is asked for. After a lookup it goes on from the key that was found.

use super::code::Outcome;
use super::session::Session;
use perdura_engine::{Direction, IndexScan, OwnWrites, ReadView, Rid, RowRef, ScanBuffers, Table};
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
pub(super) enum Side {
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

/// Where the place is.
#[derive(Clone, Copy, Debug)]
enum At {
    /// On this side of the bound that was searched for: the scan has come to no entry yet.
    Bound(Side),
    /// At an entry of the scan.
    Entry,
    /// At an entry of the scan whose key does not begin with what was searched for.
    Beyond,
    /// At the end of the index or the range, past some entry.
    End,
    /// At the key that was looked up, which has led to this row.
    Key(Option<Rid>),
    /// Where an earlier statement has left it: on this side of `sought`.
    Left(Side),
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
    at: At,
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
            at: At::Bound(Side::At),
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
        self.at = At::Bound(Side::At);
    }

    /// Forgets the scan, but not where it has come to. Returns on which side of `sought` that is,
    /// for [`IndexPosition::go_on`].
    pub(super) fn leave(&mut self) -> Side {
        let (scan, is_forward) = (self.scan.take(), self.last.direction == Direction::Forward);
        let entry = scan.as_ref().map_or(&[][..], IndexScan::entry);
        let (place, side) = match self.at {
            At::Bound(side) | At::Left(side) => return side,
            At::Key(_) => return Side::At,
            At::Entry => (entry, Side::At),
            At::Beyond => (entry, if is_forward { Side::Before } else { Side::Behind }),
            // Behind a leaf without entries the scan is at none.
            At::End if is_forward && entry.is_empty() => (scan.as_ref().map_or(&[][..], IndexScan::leaf), Side::Before),
            At::End if is_forward => (entry, Side::Behind),
            At::End => (&[][..], Side::Before),
        };
        self.sought.clear();
        self.sought.extend_from_slice(place);
        side
    }

    /// Goes on from where the index was left, after it was begun anew.
    pub(super) fn go_on(&mut self, side: Side) {
        self.at = At::Left(side);
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
    /// is none. Steps to the next entry go as far as `end`. `whole` says that the bound is a whole
    /// key.
    pub(super) fn seek(
        &mut self,
        session: &mut Session,
        table: &Arc<Table>,
        (bound, end): (Bound<&[u8]>, Bound<&[u8]>),
        step: Step,
        whole: bool,
    ) -> Outcome<bool> {
        (self.last, self.at) = (step, At::Bound(Side::of(bound, step.direction)));
        self.sought.clear();
        if let Bound::Included(bytes) | Bound::Excluded(bytes) = bound {
            self.sought.extend_from_slice(bytes);
        }
        if whole && step.within && self.unique {
            let found = self.look_up(session, table)?;
            self.at = At::Key(found);
            if found.is_some() || !self.descends() {
                return Ok(found.is_some());
            }
            // No row has the key now: the one that had it at the snapshot may have moved to a key
            // that the walk has passed.
            self.at = At::Bound(Side::At);
        }
        debug_assert!(end == Bound::Unbounded || (step.direction == Direction::Forward && !self.to_lock));
        let scan = self.scan(session, table);
        match end {
            Bound::Unbounded => scan.seek(&session.txn, bound, step.direction)?,
            _ => scan.seek_range(&session.txn, bound, end)?,
        }
        self.advance(session)
    }

    /// Goes on among the entries of the snapshot from the key that nobody has any more; `lost` had
    /// it before it was locked.
    #[cold]
    fn seek_before(&mut self, session: &mut Session, table: &Arc<Table>, lost: Option<Rid>) -> Outcome<bool> {
        self.at = At::Bound(Side::At);
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
        let side = match self.at {
            At::Key(_) => Some(Side::At),
            At::Left(side) => Some(side),
            _ => None,
        };
        if let Some(side) = side {
            if step.within {
                return Ok(false);
            }
            let key = std::mem::take(&mut self.sought);
            let bound = match (side, step.direction) {
                (Side::Before, Direction::Forward) | (Side::Behind, Direction::Backward) => Bound::Included(&key[..]),
                _ => Bound::Excluded(&key[..]),
            };
            self.at = At::Bound(Side::of(bound, step.direction));
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
        if let At::Key(before) = self.at {
            let found = self.look_up(session, table)?;
            self.at = At::Key(found);
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
        let is_found = is_there && (!self.last.within || scan.key().starts_with(&self.sought));
        self.at = match self.at {
            _ if is_found => At::Entry,
            _ if is_there => At::Beyond,
            At::Bound(side) => At::Bound(side),
            _ => At::End,
        };
        Ok(is_found)
    }

    /// Whether the caller is to use the row found last at once, which has `key` now and not that of
    /// its entry.
    pub(super) fn is_offered_moved(&mut self, key: &[u8]) -> bool {
        let walk = self.last.walk;
        !matches!(self.at, At::Key(_))
            && self.to_lock
            && self.scan.as_mut().is_some_and(|scan| scan.is_offered_moved(key, walk))
    }

    /// Begins another walk through the index: rows that have moved are offered again.
    pub(super) fn rewind(&mut self) {
        self.scan.iter_mut().for_each(IndexScan::forget_moved);
    }

    /// The row of the entry that was found last.
    pub(super) fn row(&self) -> Option<Rid> {
        if let At::Key(found) = self.at { found } else { self.scan.as_ref()?.rid() }
    }

    /// The row of the entry that was found last, which is locked next.
    pub(super) fn row_to_lock(&mut self) -> Option<Rid> {
        if let At::Key(found) = self.at { found } else { self.scan.as_mut()?.rid_to_read() }
    }

    /// Reads the row of the entry that was found last, as the snapshot sees it, and `own` writes.
    #[inline]
    pub(super) fn read_row(
        &mut self,
        session: &mut Session,
        table: &Arc<Table>,
        own: OwnWrites,
    ) -> Outcome<Option<(Rid, RowRef)>> {
        let found = match (self.at, &mut self.scan) {
            (At::Key(found), _) => found,
            (_, Some(scan)) => return Ok(scan.read_row(&mut session.txn, own)?),
            (_, None) => None,
        };
        let Some(rid) = found else { return Ok(None) };
        Ok(session.txn.read(table, rid, ReadView::Snapshot)?.map(|row| (rid, row)))
    }

    /// Notes how many bytes were read of the row of the entry found last.
    #[inline]
    pub(super) fn note_bytes(&mut self, bytes: usize) {
        if let Some(scan) = &mut self.scan {
            scan.note_bytes(bytes);
        }
    }

    /// The key of the entry that was found last.
    pub(super) fn key(&self) -> &[u8] {
        match &self.scan {
            Some(scan) if !matches!(self.at, At::Key(_)) => scan.key(),
            _ => &self.sought,
        }
    }

    /// Whether a key begins with what was searched for.
    pub(super) fn is_sought(&self, key: &[u8]) -> bool {
        key.starts_with(&self.sought)
    }
}
