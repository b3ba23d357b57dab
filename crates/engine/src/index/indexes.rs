//! The indexes of a table.

use super::leaf::{Carried, LeafId, bits, damaged};
use super::leaves::Leaves;
use super::table_index::Index;
use crate::error::{Error, Result};
use crate::files::context::{RedoForm, TableContext};
use crate::format::{IndexDefinition, Record, delta_crc, fold_entry};
use crate::shadow::writer::Writer;
use perdura_log::Csn;
use perdura_pmem::sync::Mutex;
use perdura_pmem::trace;
use perdura_pmem::{Mutant, Region};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A place that opening has found damaged, and the number of the index that the leaf says it is of.
pub(super) type Broken = (LeafId, Option<u16>);

/// The indexes of a table, in the order of its definition. DDL makes a new list over the same
/// leaves.
pub(crate) struct Indexes {
    leaves: Arc<Leaves>,
    list: Box<[Arc<Index>]>,
    /// Numbers from this one on were never those of an index in use.
    next_number: u16,
    /// Leaves whose state says that they are in use, and which do not count: others have made them
    /// void, or their index was dropped, or never came into use.
    void: Mutex<Vec<LeafId>>,
    /// Damaged leaves, which stay as they are until their index is dropped.
    broken: Mutex<Vec<Broken>>,
    /// How far the last round of purge went.
    purged: AtomicU64,
}

impl Indexes {
    /// The indexes of a new table in the pool of `context`.
    pub(crate) fn create(
        table: u32,
        definitions: &[(u16, IndexDefinition)],
        next_number: u16,
        context: &TableContext,
    ) -> Indexes {
        let leaves = Arc::new(Leaves::new(table, context.geometry.segment_bytes, context.health.clone()));
        let index =
            |(number, definition): &(u16, IndexDefinition)| Arc::new(Index::new(*number, *definition, leaves.clone()));
        let list = definitions.iter().map(index).collect();
        Indexes::of(leaves, list, next_number)
    }

    fn of(leaves: Arc<Leaves>, list: Box<[Arc<Index>]>, next_number: u16) -> Indexes {
        let (void, broken) = (Mutex::default(), Mutex::default());
        Indexes { leaves, list, next_number, void, broken, purged: AtomicU64::new(0) }
    }

    /// Notes a leaf that opening has found damaged, with its `error`. If it does not tell its
    /// index, all of them refuse every use.
    pub(super) fn note_broken(&self, (leaf, of): Broken, error: &Error) {
        self.broken.lock().push((leaf, of));
        let damaged = self.iter().filter(|index| of.is_none_or(|of| of == index.number()));
        damaged.for_each(|index| index.set_damaged(error.to_string()));
    }

    /// Notes leaves that opening has found, and that do not count.
    pub(super) fn note_void(&self, leaves: Vec<LeafId>) {
        self.void.lock().extend(leaves);
    }

    /// Retires the leaves that do not count, durably, before anybody uses the indexes.
    pub(crate) fn settle(&self) {
        let void = std::mem::take(&mut *self.void.lock());
        for leaf in &void {
            self.leaves.bytes(*leaf).retire_found();
        }
        self.leaves.put_unused(void);
    }

    /// A new index of the table, without leaves, which is not in the list.
    pub(crate) fn begin(&self, number: u16, definition: IndexDefinition) -> Index {
        Index::new(number, definition, self.leaves.clone())
    }

    /// A list over the same leaves: of each index that stays its present position, or a new one.
    /// Nobody but the caller uses the table, and purge does not run.
    pub(crate) fn altered(&self, list: impl Iterator<Item = Arc<Index>>, next_number: u16) -> Indexes {
        let altered = Indexes::of(self.leaves.clone(), list.collect(), next_number);
        *altered.broken.lock() = std::mem::take(&mut *self.broken.lock());
        altered.purged.store(self.purged.load(Ordering::Relaxed), Ordering::Relaxed);
        altered
    }

    /// Retires the leaves of an index that is no longer in the list; `visible` is the visible CSN.
    /// Their places are in quarantine, as redo may name them (I8). Nothing is stored: no leaf with
    /// the number of a dropped index counts, whatever it says. Damaged leaves that may have been of
    /// the index are no leaves any more. The caller keeps purge off.
    pub(crate) fn retire_dropped(&self, dropped: &Index, visible: Csn) {
        dropped.order().each_leaf(|leaf| {
            let shadow = self.leaves.leaf(leaf).slot.lock_existing();
            self.leaves.retire(leaf, visible, shadow.map_or_else(Default::default, |mut shadow| shadow.take()));
        });
        let is_sound = self.iter().all(|index| index.check().is_ok());
        let mut unused = Vec::new();
        self.broken.lock().retain(|(leaf, of)| {
            let is_nobodys = of.map_or(is_sound, |of| of == dropped.number());
            if is_nobodys {
                self.leaves.wipe(*leaf);
                unused.push(*leaf);
            }
            !is_nobodys
        });
        self.leaves.put_unused(unused);
    }

    /// Number of indexes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is no index.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Index at `position` of the table's definition.
    #[inline]
    pub(crate) fn index(&self, position: usize) -> Option<&Index> {
        self.list.get(position).map(|index| &**index)
    }

    /// Index at `position`, to be kept in another list.
    pub(crate) fn shared(&self, position: usize) -> Option<Arc<Index>> {
        self.list.get(position).cloned()
    }

    /// The index that leaves and log know by `number`.
    pub(super) fn of_number(&self, number: u16) -> Option<&Index> {
        self.iter().find(|index| index.number() == number)
    }

    /// Whether an index had this number, and was dropped.
    pub(super) fn is_dropped(&self, number: u16) -> bool {
        number < self.next_number && self.of_number(number).is_none()
    }

    /// The indexes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Index> {
        self.list.iter().map(|index| &**index)
    }

    /// The table's leaves.
    #[inline]
    pub(crate) fn leaves(&self) -> &Leaves {
        &self.leaves
    }

    /// The table's leaves, which outlive an alteration of the table.
    #[inline]
    pub(crate) fn shared_leaves(&self) -> &Arc<Leaves> {
        &self.leaves
    }

    /// Notes that a round of purge went up to `limit`.
    pub(super) fn note_purged(&self, limit: Csn) {
        self.purged.store(limit, Ordering::Relaxed);
    }

    /// Whether closing the table loses nothing of its indexes.
    pub(crate) fn is_at_rest(&self) -> bool {
        let purged = self.purged.load(Ordering::Relaxed);
        self.leaves.queue().is_empty() && self.leaves.is_at_rest(purged)
    }
}

impl Leaves {
    /// The redo record of what `writer` does to leaf `leaf`, in the form `form`; `None` if that is
    /// nothing. By value it flushes the entries, or leaves them to the checkpoint.
    pub(crate) fn record(&self, leaf: LeafId, writer: &Arc<Writer>, form: RedoForm) -> Option<Record<'static>> {
        let shadow = self.leaf(leaf).slot.lock_existing()?;
        let (inserted, deleted, folded) = shadow.net(writer);
        if inserted | deleted == 0 {
            return None;
        }
        // Planted: entries count before their commit is durable.
        if perdura_pmem::planted(Mutant::EntryValidBeforeCommit) {
            let bytes = self.bytes(leaf);
            bytes.set_valid(bytes.loaded_valid() | inserted);
        }
        let (table, place) = (self.table(), self.word(leaf));
        let mut values = Vec::new();
        if form.is_by_value() {
            // The slots are the transaction's own until it has ended.
            let bytes = self.bytes(leaf);
            bytes.push_values(inserted, &mut values);
            if form == RedoForm::Values {
                bytes.flush_slots_again(inserted);
            }
        }
        Some(Record::Leaf { table, place, inserted, deleted, crc: delta_crc(folded), values: values.into() })
    }

    /// Flushes the entries that `writer` has inserted into leaf `leaf`. The caller fences.
    pub(crate) fn flush_inserted(&self, leaf: LeafId, writer: &Arc<Writer>) {
        if let Some(shadow) = self.leaf(leaf).slot.lock_existing() {
            let (inserted, _, _) = shadow.net(writer);
            if inserted != 0 {
                self.bytes(leaf).flush_slots_again(inserted);
            }
        }
    }

    /// The checksums of the entries in `slots`, folded; `carried` tells those that are still to be
    /// written.
    pub(super) fn fold(&self, leaf: LeafId, slots: u64, carried: Carried<'_>) -> Result<u64> {
        let bytes = self.bytes(leaf);
        let mut folded = 0;
        for slot in bits(slots) {
            if let Some(entry) = carried(slot) {
                folded ^= fold_entry(entry);
                continue;
            }
            let entry = bytes.sound_entry(slot)?;
            // A search for the entry goes by its fingerprint.
            if bytes.find(1 << slot, entry) != Some(slot) {
                return Err(damaged(&bytes, "an entry of an index' leaf does not have its fingerprint"));
            }
            folded ^= fold_entry(entry);
        }
        Ok(folded)
    }

    /// Stores what `writer`, which committed at `csn`, has done to leaf `leaf`. It calls `note` if
    /// the leaf is to be noted for [`Leaves::flush_stored`], and adds it to `queued` if purge does
    /// not know of it.
    pub(crate) fn publish(
        &self,
        leaf: LeafId,
        (writer, csn): (&Arc<Writer>, Csn),
        note: impl FnOnce(),
        queued: &mut Vec<LeafId>,
    ) {
        let Some(mut shadow) = self.leaf(leaf).slot.lock_existing() else { return };
        if !shadow.has(writer) {
            return;
        }
        let (inserted, deleted, _) = shadow.net(writer);
        let bytes = self.bytes(leaf);
        // A later commit may have deleted the entry, and stored that before.
        // Planted: it comes back.
        let gone = deleted
            | if perdura_pmem::planted(Mutant::LateCommitRevivesEntry) { 0 } else { shadow.deleted_and_stored() };
        // Redo stores it again until the deferred flush.
        let _unflushed = trace::span(trace::TRANSIENT);
        let before = bytes.loaded_valid();
        let valid = (before | inserted) & !gone;
        bytes.set_valid(valid);
        shadow.set_stored(writer, csn);
        if !std::mem::replace(&mut shadow.queued, true) {
            queued.push(leaf);
        }
        let is_emptied = valid == 0 && before != 0 || bytes.are_few(valid) && !bytes.are_few(before);
        if (shadow.is_crowded() || is_emptied) && !std::mem::replace(&mut shadow.asked, true) {
            self.queue().push_asked(leaf);
        }
        // Planted: nobody flushes the valid word before a checkpoint goes past it.
        if !std::mem::replace(&mut shadow.noted, true) && !perdura_pmem::planted(Mutant::CheckpointPastUnflushedValid) {
            note();
        }
    }

    /// Flushes the valid word of a leaf that was noted. Returns its file, if so; the caller fences.
    pub(crate) fn flush_stored(&self, leaf: LeafId) -> Option<&Region> {
        let mut shadow = self.leaf(leaf).slot.lock_existing()?;
        std::mem::take(&mut shadow.noted).then(|| {
            let bytes = self.bytes(leaf);
            bytes.flush_valid();
            bytes.region()
        })
    }

    /// Takes back what `writer` did to leaf `leaf` after step `seen`; `None` for all of it.
    pub(crate) fn undo(&self, leaf: LeafId, writer: &Arc<Writer>, seen: Option<u64>) {
        // Without changes of the transaction the leaf may have retired, and its number may be that
        // of another place by now.
        let Some(mut shadow) = self.leaf(leaf).slot.lock_existing().filter(|shadow| shadow.has(writer)) else { return };
        shadow.undo(writer, seen);
        if shadow.is_settled() && self.bytes(leaf).is_sparse() {
            self.queue().put_sparse(leaf);
        }
    }
}
