//! Purge of indexes: what transactions have done to leaves is forgotten once every snapshot sees it
//! and a checkpoint covers it (I8), and leaves that have lost entries are packed.
//!
//! A leaf waits for its oldest commit, so what an old snapshot holds is not looked at again. Beside
//! one, a leaf is looked at when many changes have gathered, or when few entries are left: changes
//! that no snapshot tells apart are merged, and the leaf is packed with others, or walks are to
//! pass it by (`populated.rs`).

use super::indexes::Indexes;
use super::leaf::LeafId;
use super::leaf_shadow::LeafShadow;
use super::leaves::Leaves;
use super::pack::{Packed, Packer};
use super::queue::BATCH;
use super::replace::Ground;
use super::table_index::Index;
use crate::shadow::purge_horizon::PurgeHorizon;
use crate::shadow::slot::Locked;
use perdura_pmem::sync::yield_now;

/// Most leaves moved in a round: some 3 ms.
const MOVED_AT_ONCE: usize = 1024;
/// Leaves packed before the places of others that were packed are free.
const PACKED_AT_ONCE: usize = 8;

/// Purge of a table's indexes, by one thread at a time.
pub(crate) struct IndexPurge<'p> {
    indexes: &'p Indexes,
    ground: Ground<'p>,
    horizon: &'p PurgeHorizon,
}

impl<'p> IndexPurge<'p> {
    /// Purge of `indexes` up to the limit of `horizon`.
    pub(crate) fn new(indexes: &'p Indexes, ground: Ground<'p>, horizon: &'p PurgeHorizon) -> IndexPurge<'p> {
        IndexPurge { indexes, ground, horizon }
    }

    fn leaves(&self) -> &'p Leaves {
        self.indexes.leaves()
    }

    /// The index of a leaf; `None` if it was dropped.
    fn index_of(&self, leaf: LeafId) -> Option<&'p Index> {
        let bytes = self.leaves().known_bytes(leaf)?;
        self.indexes.of_number(bytes.shape().index)
    }

    /// Forgets what commits up to the limit have done, packs leaves, and ends quarantines.
    /// `is_idle` asks whether there is no snapshot at all now.
    pub(crate) fn round(&self, is_idle: impl Fn() -> bool) {
        let queue = self.leaves().queue();
        while self.batch() {
            yield_now();
        }
        for leaves in queue.take_asked().chunks(BATCH) {
            leaves.iter().for_each(|leaf| self.look_at(*leaf));
            yield_now();
        }
        self.indexes.note_purged(self.horizon.limit());
        for some in queue.take_sparse().chunks(PACKED_AT_ONCE) {
            some.iter().for_each(|leaf| self.pack(*leaf));
            // That takes places before it leaves others.
            self.leaves().end_quarantine(self.ground.segments, self.horizon.limit(), &is_idle);
        }
        for leaf in self.leaves().to_move(MOVED_AT_ONCE) {
            self.move_ahead(leaf);
        }
        self.leaves().end_quarantine(self.ground.segments, self.horizon.limit(), is_idle);
    }

    /// Forgets what commits up to the limit have done to the leaves that have waited longest, at
    /// most `batches` batches, and ends quarantines.
    pub(crate) fn oldest(&self, batches: usize) {
        for _ in 0..batches {
            if !self.batch() {
                break;
            }
        }
        self.leaves().end_quarantine(self.ground.segments, self.horizon.limit(), || false);
    }

    /// Forgets what commits up to the limit have done to a batch of leaves. Returns false if none
    /// waits.
    fn batch(&self) -> bool {
        let leaves = self.leaves().queue().take(self.horizon.limit());
        if leaves.is_empty() {
            return false;
        }
        let _span = perdura_pmem::trace::span("purge_leaves");
        for (index, leaf) in leaves.iter().enumerate() {
            self.leaves().prefetch(|at| leaves.get(at).copied(), index);
            self.leaf(*leaf);
        }
        true
    }

    fn leaf(&self, leaf: LeafId) {
        let Some(mut shadow) = self.leaves().leaf(leaf).slot.lock_existing() else { return };
        shadow.forget(self.horizon);
        match shadow.oldest_stored() {
            Some(csn) => self.leaves().queue().push(csn, leaf),
            None => shadow.queued = false,
        }
        let has_lost = shadow.is_settled() && std::mem::take(&mut shadow.has_lost);
        self.thin_out(leaf, shadow, has_lost);
    }

    /// Merges stored changes of a leaf beside older snapshots.
    fn look_at(&self, leaf: LeafId) {
        let Some(mut shadow) = self.leaves().leaf(leaf).slot.lock_existing() else { return };
        shadow.forget(self.horizon);
        shadow.asked = false;
        self.thin_out(leaf, shadow, false);
    }

    /// Packs a leaf that has few entries, or that `has_lost` some and has room; has walks pass it
    /// by if it has none.
    fn thin_out(&self, leaf: LeafId, mut shadow: Locked<'_, LeafShadow>, has_lost: bool) {
        let Some(bytes) = self.leaves().known_bytes(leaf) else { return };
        if !self.leaves().may_be_packed(leaf, has_lost) {
            return;
        }
        let newest = shadow.newest_stored();
        if !shadow.is_stored() || newest > self.horizon.covered() {
            shadow.asked = true;
            return self.leaves().queue().push_asked(leaf);
        }
        if bytes.valid() == Some(0)
            && !shadow.is_settled()
            && let Some(index) = self.index_of(leaf)
        {
            index.order().vacate(leaf, newest);
        }
        drop(shadow);
        self.pack(leaf);
    }

    /// Moves a leaf to a place before it. One that transactions have changes in waits for a later
    /// round.
    fn move_ahead(&self, leaf: LeafId) {
        // A damaged leaf stays as it is.
        let _ = self.index_of(leaf).map(|index| Packer::new(index, self.ground).move_ahead(leaf));
    }

    /// Packs a leaf with those beside it.
    fn pack(&self, leaf: LeafId) {
        let Some(index) = self.index_of(leaf) else { return };
        // A damaged leaf stays as it is.
        if Packer::new(index, self.ground).pack(leaf).is_ok_and(|packed| packed == Packed::Later) {
            self.leaves().queue().put_sparse(leaf);
        }
    }
}
