//! Purge of indexes: what transactions have done to leaves is forgotten once every snapshot sees it and a checkpoint covers
//! it (I8), and leaves with few entries are joined.

use super::indexes::Indexes;
use super::leaf::LeafId;
use super::replace::Joined;
use super::tree::Ground;
use crate::shadow::reach::Reach;
use perdura_pmem::sync::yield_now;
use std::sync::atomic::Ordering;

/// Leaves joined before the places of others that were joined are free.
const JOINED_AT_ONCE: usize = 8;

impl Indexes {
    /// Forgets what commits up to the limit of `reach` have done, joins leaves, and ends quarantines. One thread at a time may
    /// call this. `is_idle` asks whether there is no snapshot at all now.
    pub fn purge(&self, ground: Ground<'_>, reach: &Reach, is_idle: impl Fn() -> bool) {
        let queue = self.leaves().queue();
        loop {
            let leaves = queue.take(reach.limit());
            if leaves.is_empty() {
                break;
            }
            let _span = perdura_pmem::trace::span("purge_leaves");
            leaves.into_iter().for_each(|leaf| self.purge_leaf(ground, leaf, reach));
            yield_now();
        }
        for leaf in queue.take_crowded() {
            if let Some(mut shadow) = self.leaves().leaf(leaf).slot.lock_existing() {
                shadow.forget(reach);
            }
        }
        self.purged.store(reach.limit(), Ordering::Relaxed);
        for some in queue.take_sparse().chunks(JOINED_AT_ONCE) {
            some.iter().for_each(|leaf| self.join(ground, *leaf));
            // Joins take places before they leave others.
            self.leaves().end_quarantine(ground.segments, reach.limit(), &is_idle);
        }
        self.leaves().end_quarantine(ground.segments, reach.limit(), is_idle);
    }

    fn purge_leaf(&self, ground: Ground<'_>, leaf: LeafId, reach: &Reach) {
        let Some(mut shadow) = self.leaves().leaf(leaf).slot.lock_existing() else { return };
        shadow.forget(reach);
        match shadow.oldest_stored() {
            Some(csn) => self.leaves().queue().push(csn, leaf),
            None => shadow.queued = false,
        }
        let Some(bytes) = self.leaves().known_bytes(leaf) else { return };
        let is_sparse = bytes.is_sparse();
        let is_settled = shadow.is_settled();
        drop(shadow);
        if is_settled && is_sparse {
            self.join(ground, leaf);
        }
    }

    /// Joins a leaf with the one before it, or with the one behind.
    fn join(&self, ground: Ground<'_>, leaf: LeafId) {
        let Some(bytes) = self.leaves().known_bytes(leaf) else { return };
        let Some(index) = self.of_number(bytes.shape().index) else { return };
        let next = || index.tree.higher(bytes.low()).map(|next| next as LeafId);
        let joined = match index.join(ground, leaf) {
            Ok(Joined::Stays) => next().map_or(Ok(Joined::Stays), |next| index.join(ground, next)),
            joined => joined,
        };
        // A damaged leaf stays as it is.
        if joined.is_ok_and(|joined| joined == Joined::Later) {
            self.leaves().queue().put_sparse(leaf);
        }
    }
}
