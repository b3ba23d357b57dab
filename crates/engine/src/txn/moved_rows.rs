//! Rows that a locking scan of an index has found under one key and that have another once they are
//! locked.
//!
//! The scan finds its rows at a snapshot, at which each row has one entry. For a row that has moved
//! since, its new entry counts from here on, and its own no more. If the new one is ahead, the scan
//! comes to it there, between the entries where it belongs. If it is behind, the row is offered at
//! once. The scan comes to it again only if it is sent back before it: a caller that reads ranges
//! looks beyond the end of one before it begins the next.
//!
//! It keeps the new entry of each row that others have moved since the snapshot and that the scan
//! has met, a key and some 100 bytes of DRAM; and the number of each row that its caller has found
//! by a whole key, some 60 bytes.

use super::direction::Direction;
use crate::format::{ENTRY_ROW_BYTES, push_entry};
use perdura_pmem::Mutant;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The rows that have moved, and the place of the scan among its own entries and theirs.
pub(super) struct MovedRows {
    /// The new entries, in order: one of each row.
    entries: BTreeSet<Arc<[u8]>>,
    /// The rows whose entries at the snapshot count no more; with the new entry, or none if the
    /// caller has found the row.
    rows: BTreeMap<u64, Option<Arc<[u8]>>>,
    /// The entry that was returned last, or the bound that was sought since.
    place: Vec<u8>,
    /// `place` is an entry, which is passed.
    is_entry: bool,
    /// The scan stands at a new entry, and not at one of its own.
    at_new: bool,
}

impl MovedRows {
    /// None so far, of a scan that stands at `entry`.
    pub(super) fn new(entry: &[u8]) -> MovedRows {
        let place = entry.to_vec();
        MovedRows { entries: BTreeSet::new(), rows: BTreeMap::new(), place, is_entry: true, at_new: false }
    }

    /// The scan was sent to a bound.
    pub(super) fn seek(&mut self, bound: &[u8]) {
        self.place.clear();
        self.place.extend_from_slice(bound);
        (self.is_entry, self.at_new) = (false, false);
    }

    /// The bound that parts what is passed from what is ahead. Entries at it belong to its upper
    /// side.
    pub(super) fn bound(&self, direction: Direction) -> Vec<u8> {
        let mut bound = self.place.clone();
        if self.is_entry && direction == Direction::Forward {
            bound.push(0);
        }
        bound
    }

    /// Whether the scan passes by its own entry of a row.
    pub(super) fn has(&self, row: u64) -> bool {
        self.rows.contains_key(&row)
    }

    /// The entry at which the scan stands, if that is a new one.
    pub(super) fn entry(&self) -> Option<&[u8]> {
        self.at_new.then_some(&self.place[..])
    }

    /// Notes that the row at which the scan stands has `key` by now. Returns whether it is to be
    /// offered at once.
    pub(super) fn note(&mut self, key: &[u8], row: u64, direction: Direction) -> bool {
        let entry = entry_of(key, row);
        // Planted: what is ahead of a descending walk is taken for what is behind it.
        let walk =
            if perdura_pmem::planted(Mutant::DescendingWalkTakenForAscending) { Direction::Forward } else { direction };
        let is_ahead = match walk {
            Direction::Forward => entry[..] > self.place[..],
            Direction::Backward => entry[..] < self.place[..],
        };
        if let Some(before) = self.rows.insert(row, Some(entry.clone())).flatten() {
            self.entries.remove(&before);
        }
        // Planted: a row that has moved on is forgotten.
        if !perdura_pmem::planted(Mutant::MovedRowNotMetAgain) {
            self.entries.insert(entry);
        }
        // Planted: a row that has moved back is forgotten.
        !is_ahead && !perdura_pmem::planted(Mutant::MovedBackRowLeftOut)
    }

    /// Notes that `row` was found, and not by an entry of the scan.
    pub(super) fn note_found(&mut self, row: u64) {
        if let Some(before) = self.rows.insert(row, None).flatten() {
            self.entries.remove(&before);
        }
    }

    /// Forgets where a row is: the scan's own entry of it counts again.
    pub(super) fn forget(&mut self, row: u64) {
        if let Some(before) = self.rows.remove(&row).flatten() {
            self.entries.remove(&before);
        }
    }

    /// Goes on to `own`, the next of the scan's own entries, or to a new one that comes before it.
    /// False if there is neither.
    pub(super) fn advance(&mut self, own: Option<&[u8]>, bound: &[u8], direction: Direction) -> bool {
        let new = self.next(bound, direction);
        let is_new_first = match (own, new) {
            (Some(own), Some(new)) if direction == Direction::Forward => new < own,
            (Some(own), Some(new)) => new > own,
            (None, new) => new.is_some(),
            (Some(_), None) => false,
        };
        let Some(entry) = (if is_new_first { new } else { own }).map(<[u8]>::to_vec) else { return false };
        (self.place, self.is_entry, self.at_new) = (entry, true, is_new_first);
        true
    }

    /// The next new entry in the direction.
    fn next(&self, bound: &[u8], direction: Direction) -> Option<&[u8]> {
        let found = match direction {
            Direction::Forward => self.entries.range::<[u8], _>((Bound::Included(bound), Bound::Unbounded)).next(),
            Direction::Backward => {
                self.entries.range::<[u8], _>((Bound::Unbounded, Bound::Excluded(bound))).next_back()
            }
        };
        found.map(|entry| &**entry)
    }
}

/// The entry of a row under a key.
fn entry_of(key: &[u8], row: u64) -> Arc<[u8]> {
    let mut entry = Vec::with_capacity(key.len() + ENTRY_ROW_BYTES);
    push_entry(&mut entry, key, row);
    entry.into()
}
