//! The shadow of a leaf: which entries transactions insert and delete, and did lately.
//!
//! The leaf's valid word has the slots that count once everything here is forgotten. As long as a
//! slot is named here nobody else uses it, so what a snapshot sees is the slots that were there
//! before all of it, with those that visible transactions inserted and without those that they
//! deleted; in whatever order these came.

use super::stored_changes::{StoredChange, StoredChanges};
use crate::shadow::page::OwnView;
use crate::shadow::purge_horizon::PurgeHorizon;
use crate::shadow::slot::Shadow;
use crate::shadow::step_rows::StepRows;
use crate::shadow::writer::Writer;
use perdura_log::Csn;
use perdura_pmem::Mutant;
use smallvec::SmallVec;
use std::sync::Arc;

/// Changes of a transaction to a leaf in one step, not stored.
#[derive(Clone)]
pub(crate) struct LeafChange {
    pub writer: Arc<Writer>,
    step: u64,
    pub inserted: u64,
    pub deleted: u64,
    /// The entries inserted and deleted, folded ([`fold_entry`](crate::format::fold_entry)); one
    /// that was inserted and deleted leaves nothing.
    pub folded: u64,
}

/// Whether a change is the first of its writer in the leaf, and the first of its step.
#[derive(Clone, Copy)]
pub(crate) struct First {
    /// The transaction has done nothing in the leaf before.
    pub of_writer: bool,
    /// Nor in this step.
    pub of_step: bool,
}

/// View of a reader of a leaf.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// Commits up to it are visible.
    pub snapshot: Csn,
    /// The reader's own transaction.
    pub own: Option<OwnView<'a>>,
    /// Rows that the own transaction has written over a version newer than the snapshot. It holds
    /// their locks, so each has one entry among the newest, and that counts.
    pub ahead: Option<&'a StepRows>,
}

impl<'a> View<'a> {
    /// All that is committed, and `own` changes.
    pub(crate) const fn newest(own: Option<OwnView<'a>>) -> View<'a> {
        View { snapshot: Csn::MAX, own, ahead: None }
    }

    /// The commits up to `snapshot`.
    pub(crate) const fn at(snapshot: Csn) -> View<'a> {
        View { snapshot, own: None, ahead: None }
    }

    fn sees(&self, change: &LeafChange) -> bool {
        match &self.own {
            // Planted: a scan sees what its transaction inserts later.
            Some(own) if Arc::ptr_eq(own.writer, &change.writer) => {
                change.step <= own.seen || perdura_pmem::planted(Mutant::WalkMeetsOwnLaterWrites)
            }
            _ => change.writer.csn().is_some_and(|csn| csn <= self.snapshot),
        }
    }
}

/// State of a slot's entry for a transaction that wants its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryState {
    /// It counts.
    There,
    /// It does not, or will not once this transaction commits.
    Gone,
    /// Another transaction decides.
    Undecided,
}

/// The shadow of a leaf.
#[derive(Default)]
pub(crate) struct LeafShadow {
    /// Changes not stored: mostly of one transaction, in one step.
    open: SmallVec<[LeafChange; 1]>,
    stored: StoredChanges,
    /// The valid word is stored and not flushed, and the leaf is noted for that.
    pub noted: bool,
    /// Purge knows of the leaf.
    pub queued: bool,
    /// Purge has been asked to look at the leaf before all snapshots see its changes.
    pub asked: bool,
    /// Entries have gone since purge looked whether the leaf is to be packed.
    pub has_lost: bool,
}

impl Shadow for LeafShadow {
    fn is_empty(&self) -> bool {
        self.is_settled() && !self.noted && !self.queued
    }

    fn settled_at(&self) -> Option<Csn> {
        self.open.is_empty().then(|| self.newest_stored())
    }
}

impl LeafShadow {
    /// The slots that nobody else may use; `valid` are those that count.
    pub(crate) fn occupied(&self, valid: u64) -> u64 {
        let (inserted, deleted) = self.stored.all();
        self.open.iter().fold(valid | inserted | deleted, |slots, change| slots | change.inserted | change.deleted)
    }

    /// The slots that anybody can see, now or later, or that a transaction still decides; `valid`
    /// are those that count. `horizon` says what snapshots tell apart of all commits that are
    /// stored. Redo may need others, where they are.
    pub(crate) fn needed(&self, valid: u64, horizon: &PurgeHorizon) -> u64 {
        let open = self.open.iter().fold(0, |slots, change| slots | change.inserted | change.deleted);
        // Planted: an entry that a transaction deletes is gone; one that snapshots alone see.
        let decided = perdura_pmem::planted(Mutant::CompactLeafLacksUndecided);
        let valid = if decided { valid & !open } else { valid | open };
        let unseen = perdura_pmem::planted(Mutant::CompactLeafLacksSeen);
        if unseen { valid } else { valid | self.stored.seen(horizon) }
    }

    /// The slots that `view` sees.
    pub(crate) fn seen(&self, valid: u64, view: &View<'_>) -> u64 {
        let (mut all_inserted, mut all_deleted) = self.stored.all();
        let (mut inserted, mut deleted) = self.stored.up_to(view.snapshot);
        for change in &self.open {
            all_inserted |= change.inserted;
            all_deleted |= change.deleted;
            if view.sees(change) {
                inserted |= change.inserted;
                deleted |= change.deleted;
            }
        }
        ((valid | all_deleted) & !all_inserted | inserted) & !deleted
    }

    /// State of the entry in slot `slot` for `writer`.
    pub(crate) fn entry_state(&self, valid: u64, slot: u32, writer: &Arc<Writer>) -> EntryState {
        let bit = 1 << slot;
        let view = View::newest(Some(OwnView { writer, seen: u64::MAX }));
        let is_open = |change: &LeafChange| {
            (change.inserted | change.deleted) & bit != 0
                && change.writer.csn().is_none()
                && !Arc::ptr_eq(&change.writer, writer)
        };
        if let Some(open) = self.open.iter().find(|change| is_open(change)) {
            // Planted: a key that another transaction is deleting is free; one that another is
            // inserting.
            if perdura_pmem::planted(Mutant::PendingDeleteIsFree) && open.deleted & bit != 0 {
                return EntryState::Gone;
            }
            if !perdura_pmem::planted(Mutant::PendingInsertIsFree) {
                return EntryState::Undecided;
            }
        }
        if self.seen(valid, &view) & bit != 0 { EntryState::There } else { EntryState::Gone }
    }

    /// The slots of entries that transactions other than `own` insert or delete, undecided.
    pub(crate) fn undecided(&self, own: Option<&Arc<Writer>>) -> u64 {
        let is_other = |change: &&LeafChange| {
            change.writer.csn().is_none() && !own.is_some_and(|own| Arc::ptr_eq(own, &change.writer))
        };
        self.open.iter().filter(is_other).fold(0, |slots, change| slots | change.inserted | change.deleted)
    }

    /// Whether `writer` has done anything here that is not stored.
    pub(crate) fn has(&self, writer: &Arc<Writer>) -> bool {
        self.open.iter().any(|change| Arc::ptr_eq(&change.writer, writer))
    }

    /// Change of `writer` here in step `step`.
    pub(crate) fn change(&mut self, writer: &Arc<Writer>, step: u64) -> (&mut LeafChange, First) {
        let (mut known, mut of_writer) = (None, true);
        for (index, change) in self.open.iter().enumerate() {
            if Arc::ptr_eq(&change.writer, writer) {
                of_writer = false;
                if change.step == step {
                    known = Some(index);
                    break;
                }
            }
        }
        let index = known.unwrap_or_else(|| {
            self.open.push(LeafChange { writer: writer.clone(), step, inserted: 0, deleted: 0, folded: 0 });
            self.open.len() - 1
        });
        (&mut self.open[index], First { of_writer, of_step: known.is_none() })
    }

    /// Takes back what `writer` did after step `seen`; `None` for all of it.
    pub(crate) fn undo(&mut self, writer: &Arc<Writer>, seen: Option<u64>) {
        // Planted: what a rollback undoes stays in the leaf.
        let is_undone = |change: &LeafChange| {
            seen.is_none_or(|seen| change.step > seen && !perdura_pmem::planted(Mutant::RollbackLeavesEntries))
        };
        self.open.retain(|change| !Arc::ptr_eq(&change.writer, writer) || !is_undone(change));
    }

    /// Takes back the insertion, or the deletion, of the entry in slot `slot` in step `step`, which
    /// folds to `folded`.
    pub(crate) fn undo_one(&mut self, writer: &Arc<Writer>, step: u64, (slot, folded): (u32, u64)) {
        for change in self.open.iter_mut().filter(|change| Arc::ptr_eq(&change.writer, writer) && change.step == step) {
            let bit = 1 << slot;
            if change.deleted & bit != 0 {
                change.deleted &= !bit;
            } else {
                change.inserted &= !bit;
            }
            change.folded ^= folded;
        }
        self.open.retain(|change| change.inserted | change.deleted != 0);
    }

    /// Net inserts and deletes of a commit of `writer`, and the entries folded.
    pub(crate) fn net(&self, writer: &Arc<Writer>) -> (u64, u64, u64) {
        let (mut inserted, mut deleted, mut folded) = (0, 0, 0);
        for change in self.open.iter().filter(|change| Arc::ptr_eq(&change.writer, writer)) {
            inserted |= change.inserted;
            deleted |= change.deleted;
            folded ^= change.folded;
        }
        // Planted: an entry that came and went within the transaction is logged.
        let gone = if perdura_pmem::planted(Mutant::EntryDeletedWithinLoggedAsInserted) { 0 } else { deleted };
        (inserted & !gone, deleted & !inserted, folded)
    }

    /// The slots that commits have deleted whose changes are stored.
    pub(crate) fn deleted_and_stored(&self) -> u64 {
        self.stored.all().1
    }

    /// Frees the slots that `writer` has inserted and deleted up to step `floor`, the oldest
    /// position that anybody can go back to. Returns whether there were any.
    pub(crate) fn settle(&mut self, writer: &Arc<Writer>, floor: u64) -> bool {
        let mut settled = LeafChange { step: floor, inserted: 0, deleted: 0, folded: 0, writer: writer.clone() };
        self.open.retain(|change| {
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
            self.open.push(settled);
        }
        nothing != 0
    }

    /// Notes that the valid word has what `writer` did, which committed at `csn`. Its steps become
    /// one.
    pub(crate) fn set_stored(&mut self, writer: &Arc<Writer>, csn: Csn) {
        let (mut inserted, mut deleted) = (0, 0);
        self.open.retain(|change| {
            let own = Arc::ptr_eq(&change.writer, writer);
            if own {
                inserted |= change.inserted;
                deleted |= change.deleted;
            }
            !own
        });
        self.stored.add(StoredChange { csn, inserted, deleted });
    }

    /// Forgets what every snapshot sees and no redo repeats, merges what no snapshot tells apart,
    /// and so forgets entries between whose insertion and deletion no snapshot comes.
    pub(crate) fn forget(&mut self, horizon: &PurgeHorizon) {
        // Planted: a slot is free before a checkpoint covers its deletion; although a snapshot sees
        // its entry.
        let limit = if perdura_pmem::planted(Mutant::SlotReusedBeforeRedo) { Csn::MAX } else { horizon.limit() };
        let limit = if perdura_pmem::planted(Mutant::SlotReusedUnderSnapshot) { horizon.covered() } else { limit };
        self.has_lost |= self.stored.all().1 != 0;
        self.stored.forget(limit, horizon);
    }

    /// Whether there are so many stored changes that purge is to merge them before they are below
    /// all snapshots.
    pub(crate) fn is_crowded(&self) -> bool {
        self.stored.is_crowded()
    }

    /// The oldest commit that purge has to come back for.
    pub(crate) fn oldest_stored(&self) -> Option<Csn> {
        self.stored.oldest()
    }

    /// The newest commit that is stored; 0 if none is remembered.
    pub(crate) fn newest_stored(&self) -> Csn {
        self.stored.newest().unwrap_or(0)
    }

    /// Whether nobody has done anything here that is still to be stored.
    pub(crate) fn is_stored(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether nobody has done anything here that others could still see the difference of.
    pub(crate) fn is_settled(&self) -> bool {
        self.open.is_empty() && self.stored.is_empty()
    }

    /// Changes not stored.
    pub(crate) fn open(&self) -> impl Iterator<Item = &LeafChange> {
        self.open.iter()
    }

    /// Takes all changes, whose leaf goes out of use. Returns the transactions that are still to
    /// store some, each once, and the newest commit that is stored.
    pub(crate) fn take(&mut self) -> (Vec<Arc<Writer>>, Csn) {
        let newest = std::mem::take(&mut self.stored).newest().unwrap_or(0);
        let mut writers: Vec<Arc<Writer>> = Vec::new();
        for change in std::mem::take(&mut self.open) {
            if !writers.iter().any(|known| Arc::ptr_eq(known, &change.writer)) {
                writers.push(change.writer);
            }
        }
        (writers, newest)
    }

    /// Adds the changes of the leaf before, its slots numbered anew by `moved`; `fold` folds the
    /// entries in slots.
    pub(crate) fn adopt(&mut self, old: &LeafShadow, moved: impl Fn(u64) -> u64, fold: impl Fn(u64) -> u64) {
        // Planted: the changes under way stay behind.
        for change in old.open.iter().filter(|_| !perdura_pmem::planted(Mutant::SplitLeavesChangesBehind)) {
            let (inserted, deleted) = (moved(change.inserted), moved(change.deleted));
            if inserted | deleted != 0 {
                let folded = fold(inserted ^ deleted);
                self.open.push(LeafChange { inserted, deleted, folded, ..change.clone() });
            }
        }
        for change in old.stored.iter() {
            let (inserted, deleted) = (moved(change.inserted), moved(change.deleted));
            self.stored.add(StoredChange { csn: change.csn, inserted, deleted });
        }
    }
}

impl LeafChange {
    /// Whether it is of step `step`.
    pub(crate) fn is_of(&self, step: u64) -> bool {
        self.step == step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_pmem::sim::Random;

    const SLOTS: u32 = 12;
    const COMMITS: Csn = 60;

    fn seen(shadow: &LeafShadow, valid: u64, snapshot: Csn) -> u64 {
        shadow.seen(valid, &View::at(snapshot))
    }

    /// A leaf of random commits, of which each stores what it does at once. Returns with it the
    /// valid word, and those after each commit.
    fn filled(random: &mut Random) -> (LeafShadow, u64, Vec<u64>) {
        let (mut shadow, mut valid) = (LeafShadow::default(), 0b111);
        let mut states = vec![valid];
        for csn in 1..=COMMITS {
            let writer = Arc::new(Writer::new(csn));
            writer.commit(csn);
            for slot in 0..SLOTS {
                let bit = 1 << slot;
                if !random.one_in(4) {
                    continue;
                }
                if valid & bit != 0 {
                    shadow.change(&writer, 0).0.deleted |= bit;
                } else if shadow.occupied(valid) & bit == 0 {
                    shadow.change(&writer, 0).0.inserted |= bit;
                }
            }
            let (inserted, deleted, _) = shadow.net(&writer);
            valid = (valid | inserted) & !deleted;
            shadow.set_stored(&writer, csn);
            states.push(valid);
            // Changes that are forgotten leave slots to be used again.
            if random.one_in(5) {
                shadow.forget(&PurgeHorizon::new(0, csn, vec![0]));
                states.iter_mut().skip(1).for_each(|state| *state = u64::MAX);
                states[csn as usize] = valid;
            }
        }
        (shadow, valid, states)
    }

    #[test]
    fn merging_changes_nothing_for_any_snapshot() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut shadow, valid, states) = filled(&mut random);
            let known: Vec<Csn> = (0..=COMMITS).filter(|csn| states[*csn as usize] != u64::MAX).collect();
            let covered = random.below(COMMITS + 1);
            let mut live: Vec<Csn> = vec![0];
            live.extend((0..random.below(4)).map(|_| known[random.below(known.len() as u64) as usize]));
            let before: Vec<u64> = known.iter().map(|csn| seen(&shadow, valid, *csn)).collect();
            shadow.forget(&PurgeHorizon::new(0, covered, live.clone()));
            for (csn, before) in known.iter().zip(before) {
                if *csn >= covered || live.contains(csn) {
                    let now = seen(&shadow, valid, *csn);
                    assert_eq!((now, before), (states[*csn as usize], now), "seed {seed}, snapshot {csn}");
                }
            }
            assert!(shadow.stored.iter().is_sorted_by_key(|change| change.csn), "seed {seed}");
            let uncovered = shadow.stored.iter().filter(|change| change.csn > covered).count();
            assert!(shadow.stored.iter().count() <= live.len() + 1 + uncovered, "seed {seed}");
            shadow.forget(&PurgeHorizon::new(COMMITS, COMMITS, Vec::new()));
            assert!(shadow.is_settled() && shadow.occupied(valid) == valid, "seed {seed}");
        }
    }
}
