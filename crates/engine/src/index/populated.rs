//! The leaves that are not vacant: not those whose entries older snapshots alone see.
//!
//! Beside a long snapshot a leaf cannot go as long as that one sees an entry there, even if it has
//! none for anybody else. A walk that had to look at each such leaf would slow down with every
//! deletion. So the index knows the leaves that are *populated*, in a tree of their own, and a walk
//! that has left a leaf goes on at the next populated one, if its snapshot sees all commits in the
//! vacant ones between (I8). Only walks at older snapshots go through these.
//!
//! Under the lock of a leaf: it becomes vacant once all changes there are stored, nothing counts,
//! and a checkpoint covers them, and is populated again before anybody inserts an entry. So a
//! snapshot that sees the entry was taken later. It is populated again as well before it is joined
//! with the next one, whose entries are nowhere for a moment. Leaves that take the place of others
//! are entered while those are locked. So a walk that comes between meets a lock.

use super::leaf::LeafId;
use super::leaf_shadow::View;
use super::leaves::Leaves;
use perdura_log::Csn;
use perdura_pmem::Mutant;
use perdura_tree::{Keys, Tree, Writer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The low keys of a table's leaves.
pub(super) struct LowKeys {
    leaves: Arc<Leaves>,
}

impl LowKeys {
    /// The low keys of `leaves`.
    pub(super) fn new(leaves: Arc<Leaves>) -> LowKeys {
        LowKeys { leaves }
    }

    /// The table's leaves.
    #[inline]
    pub(super) fn leaves(&self) -> &Leaves {
        &self.leaves
    }
}

impl Keys for LowKeys {
    #[inline]
    fn key(&self, reference: u64) -> &[u8] {
        self.leaves.low(reference as LeafId)
    }
}

/// The populated leaves of an index.
pub(super) struct Populated {
    tree: Tree<LowKeys>,
    /// Every snapshot from this commit on sees nothing in vacant leaves.
    vacated: AtomicU64,
}

impl Populated {
    /// No leaves so far.
    pub(super) fn new(leaves: Arc<Leaves>) -> Populated {
        Populated { tree: Tree::new(LowKeys::new(leaves)), vacated: AtomicU64::new(0) }
    }

    /// Number of populated leaves.
    pub(super) fn len(&self) -> u64 {
        self.tree.len()
    }

    /// Writes to the tree, one thread at a time.
    pub(super) fn writer(&self) -> Writer<'_, LowKeys> {
        self.tree.writer()
    }

    /// Whether walks look at a leaf.
    pub(super) fn has(&self, leaf: LeafId) -> bool {
        let leaves = self.tree.keys().leaves();
        self.tree.get(leaves.bytes(leaf).low()) == Some(leaves.reference(leaf))
    }

    /// Raises the commit from which on snapshots see nothing in vacant leaves. Walks that miss a
    /// leaf see this.
    pub(super) fn raise_vacated(&self, newest: Csn) {
        self.vacated.fetch_max(newest, Ordering::SeqCst);
    }

    /// Has walks pass by the leaf at `low`, whose last commit is `newest`.
    pub(super) fn vacate(&self, low: &[u8], leaf: LeafId, newest: Csn) {
        self.raise_vacated(newest);
        self.tree.keys().leaves().leaf(leaf).set_vacant(true);
        self.tree.writer().remove(low);
    }

    /// Has walks look at the leaf at `low` again.
    pub(super) fn populate(&self, low: &[u8], leaf: LeafId) {
        let leaves = self.tree.keys().leaves();
        self.tree.writer().insert(low, leaves.reference(leaf));
        leaves.leaf(leaf).set_vacant(false);
    }

    /// Result of `look` among the populated leaves; `None` if `view` may see something in vacant
    /// ones.
    pub(super) fn among<'i, T>(&'i self, view: &View<'_>, look: impl FnOnce(&'i Tree<LowKeys>) -> T) -> Option<T> {
        let sees_all = || self.vacated.load(Ordering::SeqCst) <= view.snapshot;
        if !sees_all() {
            return None;
        }
        // Planted: a leaf that becomes vacant meanwhile is missed.
        let looks_once = perdura_pmem::planted(Mutant::VacantLeafMissed);
        let found = look(&self.tree);
        // A leaf that has become vacant meanwhile may have been missed.
        (looks_once || sees_all()).then_some(found)
    }
}
