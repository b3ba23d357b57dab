//! Where a cursor stands in an index.
//!
//! A lookup of a whole key in a unique index needs no scan; the scan is begun when something else is asked for. After a lookup it
//! goes on from the key that was found.

use super::code::Outcome;
use super::session::Session;
use perdura_engine::{Direction, IndexScan, KEY_BYTES_MAX, ReadView, Rid, ScanBuffers, Table};
use std::ops::Bound;
use std::sync::Arc;

/// A place behind all entries.
const BEHIND_ALL: [u8; KEY_BYTES_MAX + 1] = [u8::MAX; KEY_BYTES_MAX + 1];

/// A step from one entry to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Towards greater or smaller keys.
    pub direction: Direction,
    /// Only to an entry whose key begins with what was searched for.
    pub within: bool,
}

/// A place in an index.
pub(super) struct IndexPosition {
    index: usize,
    unique: bool,
    view: ReadView,
    scan: Option<IndexScan>,
    /// The memory of the scan before.
    spare: ScanBuffers,
    /// The last step, which [`IndexPosition::repeat`] takes again.
    last: Step,
    /// What was searched for, or the key that was looked up.
    sought: Vec<u8>,
    /// The place is the key that was looked up, or the entry that an earlier statement has come to, and not where the scan is.
    looked_up: bool,
    /// The row that the lookup found.
    found: Option<Rid>,
}

impl IndexPosition {
    pub(super) fn new() -> IndexPosition {
        IndexPosition {
            index: 0,
            unique: false,
            view: ReadView::Snapshot,
            scan: None,
            spare: ScanBuffers::default(),
            last: Step { direction: Direction::Forward, within: false },
            sought: Vec::new(),
            looked_up: false,
            found: None,
        }
    }

    /// Number of the index.
    pub(super) fn number(&self) -> usize {
        self.index
    }

    /// Begins to read an index.
    pub(super) fn start(&mut self, index: usize, unique: bool, view: ReadView) {
        self.end();
        self.index = index;
        self.unique = unique;
        self.view = view;
    }

    /// Forgets the scan, so that the next search sees what has happened since.
    pub(super) fn end(&mut self) {
        if let Some(scan) = self.scan.take() {
            self.spare = scan.into_buffers();
        }
        self.looked_up = false;
    }

    /// Forgets the scan, but not the entry that it has come to: [`IndexPosition::go_on`] takes up from there. The place at
    /// either end of the index stays as well.
    pub(super) fn leave(&mut self) {
        let Some(scan) = self.scan.take().filter(|_| !self.looked_up) else { return };
        self.sought.clear();
        match (scan.entry(), self.last.direction) {
            ([], Direction::Forward) => self.sought.extend_from_slice(&BEHIND_ALL),
            ([], Direction::Backward) => {}
            (entry, _) => self.sought.extend_from_slice(entry),
        }
    }

    /// Goes on from where the index was left, after it was begun anew.
    pub(super) fn go_on(&mut self) {
        (self.looked_up, self.found) = (true, None);
    }

    /// The scan, begun if there is none.
    fn scan(&mut self, session: &mut Session, table: &Arc<Table>) -> &mut IndexScan {
        let spare = &mut self.spare;
        self.scan
            .get_or_insert_with(|| session.txn.index_scan_with(table, self.index, self.view, std::mem::take(spare)))
    }

    /// Looks for the first entry at `bound`, or behind it in the step's direction; false if there is none. `whole` says that the bound
    /// is a whole key.
    pub(super) fn seek(
        &mut self,
        session: &mut Session,
        table: &Arc<Table>,
        bound: Bound<&[u8]>,
        step: Step,
        whole: bool,
    ) -> Outcome<bool> {
        self.last = step;
        self.looked_up = false;
        self.sought.clear();
        if let Bound::Included(bytes) | Bound::Excluded(bytes) = bound {
            self.sought.extend_from_slice(bytes);
        }
        if whole && step.within && self.unique {
            self.looked_up = true;
            self.found = self.look_up(session, table)?;
            return Ok(self.found.is_some());
        }
        self.scan(session, table).seek(&session.txn, bound, step.direction)?;
        self.advance(session)
    }

    fn look_up(&self, session: &mut Session, table: &Arc<Table>) -> Outcome<Option<Rid>> {
        Ok(session.txn.find(table, self.index, &self.sought, self.view)?)
    }

    /// Takes a step; false if there is no entry.
    pub(super) fn step(&mut self, session: &mut Session, table: &Arc<Table>, step: Step) -> Outcome<bool> {
        self.last = step;
        if self.looked_up {
            if step.within {
                return Ok(false);
            }
            self.looked_up = false;
            let key = std::mem::take(&mut self.sought);
            // Only a place before all keys is empty.
            let bound = if key.is_empty() { Bound::Included(&key[..]) } else { Bound::Excluded(&key[..]) };
            let sought = self.scan(session, table).seek(&session.txn, bound, step.direction);
            self.sought = key;
            sought?;
        }
        self.advance(session)
    }

    /// Takes the last step again, or repeats the lookup: what it found may have made room for another row. Of the newest entries
    /// those count that have come while its row was waited for, as the row may be behind one of them.
    pub(super) fn repeat(&mut self, session: &mut Session, table: &Arc<Table>) -> Outcome<bool> {
        if self.looked_up {
            let found = self.look_up(session, table)?;
            let before = std::mem::replace(&mut self.found, found);
            return Ok(found.is_some() && found != before);
        }
        if let Some(scan) = self.scan.as_mut().filter(|_| self.view == ReadView::Newest) {
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
        Ok(is_there && (!self.last.within || scan.key().starts_with(&self.sought)))
    }

    /// The row of the entry that was found last.
    pub(super) fn row(&self) -> Option<Rid> {
        if self.looked_up { self.found } else { self.scan.as_ref()?.rid() }
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
