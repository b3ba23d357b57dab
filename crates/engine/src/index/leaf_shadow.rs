//! The shadow of a leaf: which entries transactions insert and delete, and did lately.
//!
//! The leaf's valid word has the slots that count once everything here is forgotten. As long as a slot is named here nobody
//! else uses it, so what a snapshot sees is the slots that were there before all of it, with those that visible
//! transactions inserted and without those that they deleted; in whatever order these came.

use crate::shadow::page::OwnView;
use crate::shadow::reach::Reach;
use crate::shadow::slot::Shadow;
use crate::shadow::writer::Writer;
use perdura_log::Csn;
use smallvec::SmallVec;
use std::sync::Arc;

/// Changes of a leaf from which on purge looks for those that no snapshot tells apart.
const CROWD: usize = 8;

/// What a transaction has done to a leaf in one step.
#[derive(Clone)]
pub struct LeafChange {
    pub writer: Arc<Writer>,
    step: u64,
    pub inserted: u64,
    pub deleted: u64,
    /// The entries inserted and deleted, folded ([`fold_entry`]); one that was inserted and deleted leaves nothing.
    pub folded: u64,
    /// The valid word says so, and the transaction is committed.
    stored: bool,
}

/// What a reader sees of a leaf.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Commits up to it are visible.
    pub snapshot: Csn,
    /// The reader's own transaction.
    pub own: Option<OwnView<'a>>,
}

impl View<'_> {
    fn sees(&self, change: &LeafChange) -> bool {
        match &self.own {
            // Planted: a scan sees what its transaction inserts later.
            Some(own) if Arc::ptr_eq(own.writer, &change.writer) => {
                change.step <= own.seen || perdura_pmem::planted(222)
            }
            _ => change.writer.csn().is_some_and(|csn| csn <= self.snapshot),
        }
    }
}

/// What the entry in a slot is to a transaction that wants its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It counts.
    There,
    /// It does not, or will not once this transaction commits.
    Gone,
    /// Another transaction decides.
    Undecided,
}

/// The shadow of a leaf.
#[derive(Default)]
pub struct LeafShadow {
    changes: SmallVec<[LeafChange; 2]>,
    /// The valid word is stored and not flushed, and the leaf is noted for that.
    pub noted: bool,
    /// Purge knows of the leaf.
    pub queued: bool,
}

impl Shadow for LeafShadow {
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.noted && !self.queued
    }
}

impl LeafShadow {
    fn all(&self, which: impl Fn(&LeafChange) -> u64) -> u64 {
        self.changes.iter().fold(0, |slots, change| slots | which(change))
    }

    /// The slots that nobody else may use; `valid` are those that count.
    pub fn occupied(&self, valid: u64) -> u64 {
        valid | self.all(|change| change.inserted | change.deleted)
    }

    /// The slots that `view` sees.
    pub fn seen(&self, valid: u64, view: &View<'_>) -> u64 {
        let (mut inserted, mut deleted, mut all_inserted, mut all_deleted) = (0, 0, 0, 0);
        for change in &self.changes {
            all_inserted |= change.inserted;
            all_deleted |= change.deleted;
            if view.sees(change) {
                inserted |= change.inserted;
                deleted |= change.deleted;
            }
        }
        ((valid | all_deleted) & !all_inserted | inserted) & !deleted
    }

    /// What the entry in slot `slot` is to `writer`.
    pub fn standing(&self, valid: u64, slot: u32, writer: &Arc<Writer>) -> Standing {
        let bit = 1 << slot;
        let view = View { snapshot: Csn::MAX, own: Some(OwnView { writer, seen: u64::MAX }) };
        let is_open = |change: &LeafChange| {
            (change.inserted | change.deleted) & bit != 0
                && change.writer.csn().is_none()
                && !Arc::ptr_eq(&change.writer, writer)
        };
        if let Some(open) = self.changes.iter().find(|change| is_open(change)) {
            // Planted: a key that another transaction is deleting is free; one that another is inserting.
            if perdura_pmem::planted(219) && open.deleted & bit != 0 {
                return Standing::Gone;
            }
            if !perdura_pmem::planted(218) {
                return Standing::Undecided;
            }
        }
        if self.seen(valid, &view) & bit != 0 { Standing::There } else { Standing::Gone }
    }

    /// Whether `writer` has done anything here.
    pub fn has(&self, writer: &Arc<Writer>) -> bool {
        self.changes.iter().any(|change| Arc::ptr_eq(&change.writer, writer))
    }

    /// What `writer` does here in step `step`. Returns with it whether that is the first of the step.
    pub fn change(&mut self, writer: &Arc<Writer>, step: u64) -> (&mut LeafChange, bool) {
        let known = self.changes.iter().position(|change| Arc::ptr_eq(&change.writer, writer) && change.step == step);
        let index = known.unwrap_or_else(|| {
            self.changes.push(LeafChange {
                writer: writer.clone(),
                step,
                inserted: 0,
                deleted: 0,
                folded: 0,
                stored: false,
            });
            self.changes.len() - 1
        });
        (&mut self.changes[index], known.is_none())
    }

    /// Takes back what `writer` did after step `seen`; `None` for all of it.
    pub fn undo(&mut self, writer: &Arc<Writer>, seen: Option<u64>) {
        // Planted: what a rollback undoes stays in the leaf.
        let is_undone = |change: &LeafChange| seen.is_none_or(|seen| change.step > seen && !perdura_pmem::planted(216));
        self.changes.retain(|change| !Arc::ptr_eq(&change.writer, writer) || !is_undone(change));
    }

    /// Takes back the insertion, or the deletion, of the entry in slot `slot` in step `step`, which folds to `folded`.
    pub fn undo_one(&mut self, writer: &Arc<Writer>, step: u64, (slot, folded): (u32, u64)) {
        for change in
            self.changes.iter_mut().filter(|change| Arc::ptr_eq(&change.writer, writer) && change.step == step)
        {
            let bit = 1 << slot;
            if change.deleted & bit != 0 {
                change.deleted &= !bit;
            } else {
                change.inserted &= !bit;
            }
            change.folded ^= folded;
        }
        self.changes.retain(|change| change.inserted | change.deleted != 0);
    }

    /// What a commit of `writer` inserts and deletes, whatever it did twice left out, and the entries folded.
    pub fn net(&self, writer: &Arc<Writer>) -> (u64, u64, u64) {
        let (mut inserted, mut deleted, mut folded) = (0, 0, 0);
        for change in self.changes.iter().filter(|change| Arc::ptr_eq(&change.writer, writer)) {
            inserted |= change.inserted;
            deleted |= change.deleted;
            folded ^= change.folded;
        }
        // Planted: an entry that came and went within the transaction is logged.
        let gone = if perdura_pmem::planted(228) { 0 } else { deleted };
        (inserted & !gone, deleted & !inserted, folded)
    }

    /// The slots that commits have deleted whose changes are stored.
    pub fn deleted_and_stored(&self) -> u64 {
        self.all(|change| if change.stored { change.deleted } else { 0 })
    }

    /// Frees the slots that `writer` has inserted and deleted up to step `floor`, the oldest position that anybody can go
    /// back to. Returns whether there were any.
    pub fn settle(&mut self, writer: &Arc<Writer>, floor: u64) -> bool {
        let mut settled =
            LeafChange { step: floor, inserted: 0, deleted: 0, folded: 0, stored: false, writer: writer.clone() };
        self.changes.retain(|change| {
            let is_settled = Arc::ptr_eq(&change.writer, writer) && change.step <= floor;
            if is_settled {
                settled.inserted |= change.inserted;
                settled.deleted |= change.deleted;
                settled.folded ^= change.folded;
            }
            !is_settled
        });
        let nothing = settled.inserted & settled.deleted;
        settled.inserted &= !nothing;
        settled.deleted &= !nothing;
        if settled.inserted | settled.deleted != 0 {
            self.changes.push(settled);
        }
        nothing != 0
    }

    /// Notes that the valid word has what `writer` did, which is committed. Its steps become one.
    pub fn set_stored(&mut self, writer: &Arc<Writer>) {
        let (mut inserted, mut deleted) = (0, 0);
        self.changes.retain(|change| {
            let own = Arc::ptr_eq(&change.writer, writer);
            if own {
                inserted |= change.inserted;
                deleted |= change.deleted;
            }
            !own
        });
        if inserted | deleted != 0 {
            self.changes.push(LeafChange {
                writer: writer.clone(),
                step: 0,
                inserted,
                deleted,
                folded: 0,
                stored: true,
            });
        }
    }

    /// Forgets what every snapshot sees and no redo repeats, and entries between whose insertion and deletion no snapshot
    /// comes. Returns whether anything was forgotten.
    pub fn forget(&mut self, reach: &Reach) -> bool {
        let before = self.changes.len();
        let csn = |change: &LeafChange| change.writer.csn().filter(|_| change.stored);
        // Planted: a slot is free before a checkpoint covers its deletion; although a snapshot sees its entry.
        let limit = if perdura_pmem::planted(203) { Csn::MAX } else { reach.limit() };
        let limit = if perdura_pmem::planted(204) { reach.covered() } else { limit };
        self.changes.retain(|change| csn(change).is_none_or(|csn| csn > limit));
        if self.changes.len() >= CROWD {
            self.forget_between(reach);
        }
        self.changes.len() < before
    }

    fn forget_between(&mut self, reach: &Reach) {
        let covered = |change: &LeafChange| change.writer.csn().filter(|csn| change.stored && *csn <= reach.covered());
        for slot in 0..u64::BITS {
            let bit = 1u64 << slot;
            let came = self.changes.iter().find(|change| change.inserted & bit != 0).and_then(covered);
            let went = self.changes.iter().find(|change| change.deleted & bit != 0).and_then(covered);
            if let (Some(came), Some(went)) = (came, went)
                // Planted: a snapshot comes between.
                && (!reach.tells_apart(came, went) || perdura_pmem::planted(227))
            {
                self.changes.iter_mut().for_each(|change| {
                    change.inserted &= !bit;
                    change.deleted &= !bit;
                });
            }
        }
        self.changes.retain(|change| change.inserted | change.deleted != 0);
    }

    /// Whether there are so many changes that purge looks at them before they are below all snapshots.
    pub fn is_crowded(&self) -> bool {
        self.changes.len() >= CROWD
    }

    /// The oldest commit that purge has to come back for.
    pub fn oldest_stored(&self) -> Option<Csn> {
        self.changes.iter().filter(|change| change.stored).filter_map(|change| change.writer.csn()).min()
    }

    /// Whether nobody has done anything here that others could still see the difference of.
    pub fn is_settled(&self) -> bool {
        self.changes.is_empty()
    }

    /// The changes.
    pub fn changes(&self) -> impl Iterator<Item = &LeafChange> {
        self.changes.iter()
    }

    /// Takes all changes, whose leaf goes out of use.
    pub fn take(&mut self) -> SmallVec<[LeafChange; 2]> {
        std::mem::take(&mut self.changes)
    }

    /// Adds a change of the leaf before, its slots numbered anew by `moved`; `fold` folds the entries in slots.
    pub fn adopt(&mut self, change: &LeafChange, moved: impl Fn(u64) -> u64, fold: impl Fn(u64) -> u64) {
        let (inserted, deleted) = (moved(change.inserted), moved(change.deleted));
        if inserted | deleted != 0 {
            let folded = if change.stored { 0 } else { fold(inserted ^ deleted) };
            self.changes.push(LeafChange { inserted, deleted, folded, ..change.clone() });
        }
    }
}

impl LeafChange {
    /// Whether its transaction is still to store it.
    pub fn is_open(&self) -> bool {
        !self.stored
    }

    /// Whether it is of step `step`.
    pub fn is_of(&self, step: u64) -> bool {
        self.step == step
    }
}
