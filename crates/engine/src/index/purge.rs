//! Purge of indexes: what transactions have done to leaves is forgotten once every snapshot sees it
//! and a checkpoint covers it (I8), and leaves that have lost entries are packed.

use super::indexes::Indexes;
use super::leaf::LeafId;
use super::leaf_shadow::LeafShadow;
use super::pack::Packed;
use super::queue::BATCH;
use super::tree::Ground;
use crate::shadow::reach::Reach;
use crate::shadow::slot::Locked;
use perdura_pmem::sync::yield_now;
use std::sync::atomic::Ordering;

/// Most leaves moved in a round: some 3 ms.
const MOVED_AT_ONCE: usize = 1024;
/// Leaves packed before the places of others that were packed are free.
const PACKED_AT_ONCE: usize = 8;

/// A leaf waits for its oldest commit, so what an old snapshot holds is not looked at again. Beside
/// one, a leaf is looked at when many changes have gathered, or when few entries are left: changes
/// that no snapshot tells apart are merged, and the leaf is packed with others, or walks are to
/// pass it by (`vacant.rs`).
impl Indexes {
    /// Forgets what commits up to the limit of `reach` have done, packs leaves, and ends
    /// quarantines. One thread at a time may call this. `is_idle` asks whether there is no snapshot
    /// at all now.
    pub fn purge(&self, ground: Ground<'_>, reach: &Reach, is_idle: impl Fn() -> bool) {
        let queue = self.leaves().queue();
        while self.purge_batch(ground, reach) {
            yield_now();
        }
        for leaves in queue.take_asked().chunks(BATCH) {
            leaves.iter().for_each(|leaf| self.look_at(ground, *leaf, reach));
            yield_now();
        }
        self.purged.store(reach.limit(), Ordering::Relaxed);
        for some in queue.take_sparse().chunks(PACKED_AT_ONCE) {
            some.iter().for_each(|leaf| self.pack(ground, *leaf));
            // That takes places before it leaves others.
            self.leaves().end_quarantine(ground.segments, reach.limit(), &is_idle);
        }
        for leaf in self.leaves().to_move(MOVED_AT_ONCE) {
            self.move_ahead(ground, leaf);
        }
        self.leaves().end_quarantine(ground.segments, reach.limit(), is_idle);
    }

    /// Forgets what commits up to the limit of `reach` have done to the leaves that have waited
    /// longest, at most `batches` batches, and ends quarantines. Like [`Indexes::purge`] for one
    /// thread at a time.
    pub fn purge_oldest(&self, ground: Ground<'_>, reach: &Reach, batches: usize) {
        for _ in 0..batches {
            if !self.purge_batch(ground, reach) {
                break;
            }
        }
        self.leaves().end_quarantine(ground.segments, reach.limit(), || false);
    }

    /// Forgets what commits up to the limit of `reach` have done to a batch of leaves. Returns
    /// false if none waits.
    fn purge_batch(&self, ground: Ground<'_>, reach: &Reach) -> bool {
        let leaves = self.leaves().queue().take(reach.limit());
        if leaves.is_empty() {
            return false;
        }
        let _span = perdura_pmem::trace::span("purge_leaves");
        for (index, leaf) in leaves.iter().enumerate() {
            self.leaves().prefetch(|at| leaves.get(at).copied(), index);
            self.purge_leaf(ground, *leaf, reach);
        }
        true
    }

    fn purge_leaf(&self, ground: Ground<'_>, leaf: LeafId, reach: &Reach) {
        let Some(mut shadow) = self.leaves().leaf(leaf).slot.lock_existing() else { return };
        shadow.forget(reach);
        match shadow.oldest_stored() {
            Some(csn) => self.leaves().queue().push(csn, leaf),
            None => shadow.queued = false,
        }
        let has_lost = shadow.is_settled() && std::mem::take(&mut shadow.has_lost);
        self.thin_out(ground, leaf, (shadow, has_lost), reach);
    }

    /// Merges stored changes of a leaf beside older snapshots.
    fn look_at(&self, ground: Ground<'_>, leaf: LeafId, reach: &Reach) {
        let Some(mut shadow) = self.leaves().leaf(leaf).slot.lock_existing() else { return };
        shadow.forget(reach);
        shadow.asked = false;
        self.thin_out(ground, leaf, (shadow, false), reach);
    }

    /// Packs a leaf that has few entries, or that `has_lost` some and has room; has walks pass it
    /// by if it has none.
    fn thin_out(
        &self,
        ground: Ground<'_>,
        leaf: LeafId,
        (mut shadow, has_lost): (Locked<'_, LeafShadow>, bool),
        reach: &Reach,
    ) {
        let Some(bytes) = self.leaves().known_bytes(leaf) else { return };
        if !self.leaves().may_be_packed(leaf, has_lost) {
            return;
        }
        let newest = shadow.newest_stored();
        if !shadow.is_stored() || newest > reach.covered() {
            shadow.asked = true;
            return self.leaves().queue().push_asked(leaf);
        }
        if bytes.valid() == Some(0)
            && !shadow.is_settled()
            && let Some(index) = self.of_number(bytes.shape().index)
        {
            index.vacate(leaf, newest);
        }
        drop(shadow);
        self.pack(ground, leaf);
    }

    /// Moves a leaf to a place before it. One that transactions have changes in waits for a later
    /// round.
    fn move_ahead(&self, ground: Ground<'_>, leaf: LeafId) {
        let known = self.leaves().known_bytes(leaf);
        let index = known.and_then(|bytes| self.of_number(bytes.shape().index));
        // A damaged leaf stays as it is.
        let _ = index.map(|index| index.move_ahead(ground, leaf));
    }

    /// Packs a leaf with those beside it.
    fn pack(&self, ground: Ground<'_>, leaf: LeafId) {
        let Some(bytes) = self.leaves().known_bytes(leaf) else { return };
        let Some(index) = self.of_number(bytes.shape().index) else { return };
        // A damaged leaf stays as it is.
        if index.pack(ground, leaf).is_ok_and(|packed| packed == Packed::Later) {
            self.leaves().queue().put_sparse(leaf);
        }
    }
}
