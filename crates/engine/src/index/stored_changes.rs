//! Stored changes of commits to a leaf: its valid word has them. Older snapshots see the leaf
//! without them, and redo may repeat them.
//!
//! Such a change needs no transaction any more: a CSN says who sees it. Those that no snapshot
//! tells apart are merged once a checkpoint covers them (I8), so a leaf has no more of them than
//! there are snapshots, but for those of the last moment.

use crate::shadow::purge_horizon::PurgeHorizon;
use perdura_log::Csn;
use perdura_pmem::Mutant;
use smallvec::SmallVec;

/// Stored changes from which on purge merges them.
const CROWD: usize = 8;

/// Inserts and deletes of a commit, or of several commits that no snapshot tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredChange {
    /// CSN of the commit; of several, the last.
    pub csn: Csn,
    pub inserted: u64,
    pub deleted: u64,
}

impl StoredChange {
    /// Takes in what later commits, or the same, have done. Nobody sees what came and went between.
    fn absorb(&mut self, newer: &StoredChange) {
        self.csn = newer.csn;
        let (inserted, deleted) = (self.inserted | newer.inserted, self.deleted | newer.deleted);
        (self.inserted, self.deleted) = (inserted & !deleted, deleted & !inserted);
    }

    fn is_nothing(&self) -> bool {
        self.inserted | self.deleted == 0
    }
}

/// Changes of commits to a leaf.
#[derive(Default)]
pub(super) struct StoredChanges {
    /// In ascending order of CSNs.
    list: SmallVec<[StoredChange; 2]>,
    /// All slots inserted, and all deleted.
    inserted: u64,
    deleted: u64,
    /// Number of changes that the last merge left; the next one is due at twice as many.
    merged: usize,
}

impl StoredChanges {
    /// Adds what a commit has done, if it is anything.
    pub(super) fn add(&mut self, change: StoredChange) {
        if change.is_nothing() {
            return;
        }
        self.inserted |= change.inserted;
        self.deleted |= change.deleted;
        let place = match self.list.last() {
            Some(last) if last.csn >= change.csn => self.list.partition_point(|known| known.csn < change.csn),
            _ => self.list.len(),
        };
        match self.list.get_mut(place) {
            // Of another leaf, whose place this one takes as well.
            Some(known) if known.csn == change.csn => {
                known.inserted |= change.inserted;
                known.deleted |= change.deleted;
            }
            _ => self.list.insert(place, change),
        }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether there are so many that purge is to merge them before they are below all snapshots.
    pub(super) fn is_crowded(&self) -> bool {
        self.list.len() >= CROWD.max(self.merged * 2)
    }

    /// The changes, in the order of CSNs.
    pub(super) fn iter(&self) -> impl Iterator<Item = &StoredChange> {
        self.list.iter()
    }

    /// All slots inserted, and all deleted.
    #[inline]
    pub(super) fn all(&self) -> (u64, u64) {
        (self.inserted, self.deleted)
    }

    /// The slots inserted, and those deleted, by commits up to `snapshot`.
    #[inline]
    pub(super) fn up_to(&self, snapshot: Csn) -> (u64, u64) {
        if self.newest().is_none_or(|newest| newest <= snapshot) {
            return self.all();
        }
        let seen = self.list.iter().take_while(|change| change.csn <= snapshot);
        seen.fold((0, 0), |(inserted, deleted), change| (inserted | change.inserted, deleted | change.deleted))
    }

    /// The slots that a snapshot sees and another does not, or may: not those that came and went
    /// where `horizon` tells nothing apart.
    pub(super) fn seen(&self, horizon: &PurgeHorizon) -> u64 {
        let mut left = StoredChanges { list: self.list.clone(), ..StoredChanges::default() };
        left.forget(horizon.limit(), horizon);
        left.inserted | left.deleted
    }

    /// The oldest commit.
    pub(super) fn oldest(&self) -> Option<Csn> {
        self.list.first().map(|change| change.csn)
    }

    /// The newest commit.
    pub(super) fn newest(&self) -> Option<Csn> {
        self.list.last().map(|change| change.csn)
    }

    /// Forgets commits up to `limit`, and merges what no snapshot tells apart.
    pub(super) fn forget(&mut self, limit: Csn, horizon: &PurgeHorizon) {
        let known = self.list.partition_point(|change| change.csn <= limit);
        self.list.drain(..known);
        self.merge(horizon);
        // A burst leaves no memory behind.
        if self.list.spilled() && self.list.capacity() > self.list.len().max(CROWD) * 2 {
            self.list.shrink_to_fit();
        }
        self.merged = self.list.len();
        let or = |which: fn(&StoredChange) -> u64| self.list.iter().fold(0, |slots, change| slots | which(change));
        (self.inserted, self.deleted) = (or(|change| change.inserted), or(|change| change.deleted));
    }

    fn merge(&mut self, horizon: &PurgeHorizon) {
        let covered = self.list.partition_point(|change| change.csn <= horizon.covered());
        let mut merged: SmallVec<[StoredChange; CROWD]> = SmallVec::new();
        for change in self.list.drain(..covered) {
            match merged.last_mut() {
                // Planted: a snapshot comes between.
                Some(last)
                    if !horizon.tells_apart(last.csn, change.csn)
                        || perdura_pmem::planted(Mutant::SeenEntryMergedAway) =>
                {
                    last.absorb(&change);
                }
                _ => {
                    let mut first = StoredChange { csn: change.csn, inserted: 0, deleted: 0 };
                    first.absorb(&change);
                    merged.push(first);
                }
            }
        }
        self.list.insert_many(0, merged.into_iter().filter(|change| !change.is_nothing()));
    }
}
