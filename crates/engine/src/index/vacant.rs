//! Vacant leaves: those whose entries older snapshots alone see.

use super::leaf::LeafId;
use super::leaf_shadow::View;
use super::leaves::Leaves;
use super::tree::{Index, LockedLeaf, LowKeys};
use perdura_log::Csn;
use perdura_pmem::Mutant;
use perdura_tree::{Keys, Writer};
use std::sync::atomic::Ordering;

/// Enters leaves in an index.
pub(super) struct Entering<'i> {
    leaves: &'i Leaves,
    populated: Writer<'i, LowKeys>,
    all: Writer<'i, LowKeys>,
}

impl Entering<'_> {
    /// Enters a leaf, in the place of another with that low key.
    pub fn enter(&mut self, low: &[u8], leaf: LeafId) {
        let reference = self.leaves.reference(leaf);
        self.populated.insert(low, reference);
        self.all.insert(low, reference);
    }
}

/// Beside a long snapshot a leaf cannot go as long as that one sees an entry there, even if it has
/// none for anybody else. A walk that had to look at each such leaf would slow down with every
/// deletion. So the index knows the leaves that are *populated*, in a tree of their own, and a walk
/// that has left a leaf goes on at the next populated one, if its snapshot sees all commits in the
/// vacant ones between (I8). Only walks at older snapshots go through these.
///
/// Under the lock of a leaf: it becomes vacant once all changes there are stored, nothing counts,
/// and a checkpoint covers them, and is populated again before anybody inserts an entry. So a
/// snapshot that sees the entry was taken later. It is populated again as well before it is joined
/// with the next one, whose entries are nowhere for a moment. Leaves that take the place of others
/// are entered while those are locked. So a walk that comes between meets a lock.
impl Index {
    /// Enters leaves, one thread at a time.
    pub(super) fn entering(&self) -> Entering<'_> {
        Entering { leaves: self.leaves(), populated: self.populated.writer(), all: self.tree.writer() }
    }

    /// Removes the leaf at `low`, whose entries another has.
    pub(super) fn remove(&self, low: &[u8]) {
        self.tree.writer().remove(low);
        self.populated.writer().remove(low);
    }

    /// Has walks pass a leaf by whose changes up to `newest` are all stored and covered, and where
    /// nothing counts. The caller has it locked.
    pub(super) fn vacate(&self, leaf: LeafId, newest: Csn) {
        let known = self.leaves().leaf(leaf);
        let low = self.leaves().bytes(leaf).low();
        // It may have retired.
        if known.is_vacant() || self.tree.get(low) != Some(self.leaves().reference(leaf)) {
            return;
        }
        // Whoever misses the leaf sees this.
        self.vacated.fetch_max(newest, Ordering::SeqCst);
        known.set_vacant(true);
        self.populated.writer().remove(low);
    }

    /// Has walks look at a leaf again, which is about to get an entry.
    #[inline]
    pub(super) fn populate(&self, leaf: &mut LockedLeaf<'_>) {
        let known = self.leaves().leaf(leaf.id);
        if known.is_vacant() {
            self.populated.writer().insert(leaf.bytes.low(), self.leaves().reference(leaf.id));
            known.set_vacant(false);
            // The entry may be taken back.
            leaf.shadow.asked = true;
            self.leaves().queue().push_asked(leaf.id);
        }
    }

    /// Whether walks look at a leaf.
    pub(super) fn is_populated(&self, leaf: LeafId) -> bool {
        self.populated.get(self.leaves().bytes(leaf).low()) == Some(self.leaves().reference(leaf))
    }

    /// Result of `look` among the populated leaves; `None` if `view` may see something in vacant
    /// ones.
    pub(super) fn among_populated<T>(&self, view: &View<'_>, look: impl FnOnce() -> T) -> Option<T> {
        let sees_all = || self.vacated.load(Ordering::SeqCst) <= view.snapshot;
        if !sees_all() {
            return None;
        }
        // Planted: a leaf that becomes vacant meanwhile is missed.
        let looks_once = perdura_pmem::planted(Mutant::VacantLeafMissed);
        let found = look();
        // A leaf that has become vacant meanwhile may have been missed.
        (looks_once || sees_all()).then_some(found)
    }

    /// The last leaf below `key` that `view` does not pass by, with its low key.
    pub(super) fn populated_below(&self, key: &[u8], view: &View<'_>) -> Option<(u64, &[u8])> {
        let before = self.among_populated(view, || self.populated.lower(key));
        before.unwrap_or_else(|| self.tree.lower(key)).map(|before| (before, self.tree.keys().key(before)))
    }
}
