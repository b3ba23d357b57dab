//! The leaves that purge is to look at.

use super::leaf::LeafId;
use perdura_log::Csn;
use perdura_pmem::sync::Mutex;
use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Most leaves purged before others get the core.
pub(super) const BATCH: usize = 64;
/// Most leaves looked at again in a round because they could not be joined.
const AGAIN: usize = 256;

#[derive(Default)]
struct Queue {
    /// Leaves, each with the CSN of its oldest commit or one soon after it; the lowest first.
    leaves: BinaryHeap<Reverse<(Csn, LeafId)>>,
    /// Leaves with many changes, or with few entries left, to be looked at before all snapshots see
    /// their changes.
    asked: Vec<LeafId>,
    /// Leaves with few entries, to be joined with others, the next one first.
    sparse: VecDeque<LeafId>,
    /// Those of them.
    is_sparse: FxHashSet<LeafId>,
}

/// The leaves that purge is to look at.
#[derive(Default)]
pub(crate) struct LeafQueue(Mutex<Queue>);

impl LeafQueue {
    /// Adds a leaf whose oldest commit is `csn`.
    pub(crate) fn push(&self, csn: Csn, leaf: LeafId) {
        self.0.lock().leaves.push(Reverse((csn, leaf)));
    }

    /// Adds leaves that have their first commit, `csn`.
    pub(crate) fn push_all(&self, csn: Csn, leaves: Vec<LeafId>) {
        if !leaves.is_empty() {
            self.0.lock().leaves.extend(leaves.into_iter().map(|leaf| Reverse((csn, leaf))));
        }
    }

    /// Adds a leaf that is to be looked at in the next round.
    pub(crate) fn push_asked(&self, leaf: LeafId) {
        self.0.lock().asked.push(leaf);
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().leaves.is_empty()
    }

    /// Takes a batch of leaves with commits at or below `limit`.
    pub(crate) fn take(&self, limit: Csn) -> Vec<LeafId> {
        let mut queue = self.0.lock();
        let mut leaves = Vec::new();
        while leaves.len() < BATCH && queue.leaves.peek().is_some_and(|Reverse((csn, _))| *csn <= limit) {
            leaves.extend(queue.leaves.pop().map(|Reverse((_, leaf))| leaf));
        }
        // A busy time leaves no memory behind.
        if queue.leaves.capacity() > 4096 && queue.leaves.len() * 8 < queue.leaves.capacity() {
            let kept = queue.leaves.len() * 2;
            queue.leaves.shrink_to(kept);
        }
        leaves
    }

    /// Takes the leaves that are to be looked at in this round.
    pub(crate) fn take_asked(&self) -> Vec<LeafId> {
        let mut asked = std::mem::take(&mut self.0.lock().asked);
        asked.sort_unstable();
        asked.dedup();
        asked
    }

    /// Takes some of the leaves that are to be joined.
    pub(crate) fn take_sparse(&self) -> Vec<LeafId> {
        let queue = &mut *self.0.lock();
        let taken = queue.sparse.len().min(AGAIN);
        let taken: Vec<LeafId> = queue.sparse.drain(..taken).collect();
        taken.iter().for_each(|leaf| {
            queue.is_sparse.remove(leaf);
        });
        taken
    }

    /// Adds a leaf that is to be joined with another.
    pub(crate) fn put_sparse(&self, leaf: LeafId) {
        let queue = &mut *self.0.lock();
        if queue.is_sparse.insert(leaf) {
            queue.sparse.push_back(leaf);
        }
    }
}
