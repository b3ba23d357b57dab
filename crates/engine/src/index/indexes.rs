//! The indexes of a table.

use super::leaf::{LeafBytes, LeafId, bits};
use super::leaves::{FoundLeaf, Leaves};
use super::tree::{Index, damaged};
use crate::error::{Error, Result};
use crate::files::chain::{Chain, SegmentId};
use crate::format::{IndexDefinition, Record, delta_crc, fold_entry};
use crate::shadow::writer::Writer;
use perdura_log::Csn;
use perdura_pmem::sync::Mutex;
use perdura_pmem::trace;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The indexes of a table.
pub struct Indexes {
    leaves: Arc<Leaves>,
    list: Box<[Index]>,
    /// Leaves that others have made void, whose state still says that they are in use.
    void: Mutex<Vec<LeafId>>,
    /// How far the last round of purge went.
    pub(super) purged: AtomicU64,
}

impl Indexes {
    /// The indexes of a new table, in a pool whose segments have `segment_bytes` at most.
    pub fn create(table: u32, definitions: &[IndexDefinition], segment_bytes: u64) -> Indexes {
        let leaves = Arc::new(Leaves::new(table, segment_bytes));
        let index =
            |(number, definition): (usize, &IndexDefinition)| Index::new(number as u16, *definition, leaves.clone());
        let list = definitions.iter().enumerate().map(index).collect();
        Indexes { list, leaves, void: Mutex::default(), purged: AtomicU64::new(0) }
    }

    /// Opens the indexes of an existing table, whose leaves are in `segments`, each with their size in units of 256 bytes. It
    /// reads the headers of leaves, and changes nothing. An index with a damaged leaf refuses every use.
    pub fn open(chain: &Chain, definitions: &[IndexDefinition], segments: Vec<(u32, SegmentId)>) -> Indexes {
        let indexes = Indexes::create(chain.table(), definitions, chain.context().geometry.segment_bytes);
        let mut found: Vec<Vec<FoundLeaf>> = definitions.iter().map(|_| Vec::new()).collect();
        let mut damage = |of: Option<u16>, error: Error| {
            let of = of.map(usize::from).filter(|of| *of < indexes.list.len());
            let damaged = indexes.list.iter().enumerate().filter(|(number, _)| of.is_none_or(|of| of == *number));
            damaged.for_each(|(_, index)| index.set_damaged(error.to_string()));
        };
        for (units, id) in segments {
            for leaf in indexes.leaves.open_segment(chain, id, units, &mut damage) {
                match found.get_mut(usize::from(leaf.shape.index)) {
                    Some(of_index) if indexes.list[usize::from(leaf.shape.index)].has_shape(leaf.shape) => {
                        of_index.push(leaf)
                    }
                    _ => {
                        let (file, at) = indexes.leaves.bytes(leaf.leaf).place();
                        damage(
                            Some(leaf.shape.index),
                            Error::damaged(file, at, "a leaf is not one of the table's indexes"),
                        );
                    }
                }
            }
        }
        for (index, leaves) in indexes.list.iter().zip(found) {
            indexes.enter(index, leaves);
        }
        indexes
    }

    /// Enters the leaves that opening has found. Of several with one low key the latest version counts.
    fn enter(&self, index: &Index, leaves: Vec<FoundLeaf>) {
        let mut leaves: Vec<(LeafBytes<'_>, LeafId)> =
            leaves.into_iter().map(|found| (self.leaves.bytes(found.leaf), found.leaf)).collect();
        leaves.sort_unstable_by(|(left, _), (right, _)| left.low().cmp(right.low()));
        let mut kept: Vec<(LeafBytes<'_>, LeafId)> = Vec::with_capacity(leaves.len());
        let mut void = self.void.lock();
        for (bytes, leaf) in leaves {
            match kept.last_mut().filter(|(last, _)| last.low() == bytes.low()) {
                // Planted: the earlier version counts.
                Some(last)
                    if (bytes.version().wrapping_sub(last.0.version()) < 1 << 15) != perdura_pmem::planted(225) =>
                {
                    void.push(std::mem::replace(last, (bytes, leaf)).1);
                }
                Some(_) => void.push(leaf),
                None => kept.push((bytes, leaf)),
            }
        }
        if let Some((first, _)) = kept.first().filter(|(first, _)| !first.low().is_empty()) {
            let (file, at) = first.place();
            index.set_damaged(
                Error::damaged(file, at, "the leaves before this one of an index are missing").to_string(),
            );
        }
        let mut writer = index.tree.writer();
        for (bytes, leaf) in kept {
            writer.insert(bytes.low(), leaf.into());
            if bytes.is_sparse() {
                self.leaves.queue().put_sparse(leaf);
            }
        }
    }

    /// Retires the leaves that others have made void, durably, before anybody uses the indexes.
    pub fn settle(&self) {
        let void = std::mem::take(&mut *self.void.lock());
        for leaf in &void {
            self.leaves.bytes(*leaf).retire_found();
        }
        void.into_iter().for_each(|leaf| self.leaves.put(leaf));
    }

    /// Number of indexes.
    #[inline]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is no index.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Index `number`.
    #[inline]
    pub fn index(&self, number: usize) -> Option<&Index> {
        self.list.get(number)
    }

    /// The indexes.
    pub fn iter(&self) -> impl Iterator<Item = &Index> {
        self.list.iter()
    }

    /// The table's leaves.
    #[inline]
    pub fn leaves(&self) -> &Leaves {
        &self.leaves
    }

    /// Whether closing the table loses nothing of its indexes.
    pub fn is_at_rest(&self) -> bool {
        let purged = self.purged.load(std::sync::atomic::Ordering::Relaxed);
        self.leaves.queue().is_empty() && self.leaves.is_at_rest(purged)
    }
}

impl Leaves {
    /// The redo record of what `writer` does to leaf `leaf`; `None` if that is nothing.
    pub fn record(&self, leaf: LeafId, writer: &Arc<Writer>) -> Option<Record> {
        let shadow = self.leaf(leaf).slot.lock_existing()?;
        let (inserted, deleted, folded) = shadow.net(writer);
        if inserted | deleted == 0 {
            return None;
        }
        // Planted: entries count before their commit is durable.
        if perdura_pmem::planted(202) {
            let bytes = self.bytes(leaf);
            bytes.set_valid(bytes.loaded_valid() | inserted);
        }
        let (table, place) = (self.table(), self.word(leaf));
        Some(Record::Leaf { table, place, inserted, deleted, crc: delta_crc(folded) })
    }

    /// The checksums of the entries in `slots`, folded.
    pub(super) fn fold(&self, leaf: LeafId, slots: u64) -> Result<u64> {
        let bytes = self.bytes(leaf);
        let mut folded = 0;
        for slot in bits(slots) {
            let entry = bytes.entry(slot);
            let entry = entry.ok_or_else(|| damaged(&bytes, "an entry of an index' leaf is damaged"))?;
            // Who looks for the entry goes by its fingerprint.
            if bytes.find(1 << slot, entry) != Some(slot) {
                return Err(damaged(&bytes, "an entry of an index' leaf does not have its fingerprint"));
            }
            folded ^= fold_entry(entry);
        }
        Ok(folded)
    }

    /// Stores what `writer`, which committed at `csn`, has done to leaf `leaf`. It calls `note` if the leaf is to be noted for
    /// [`Leaves::flush_stored`].
    pub fn publish(&self, leaf: LeafId, writer: &Arc<Writer>, csn: Csn, note: impl FnOnce()) {
        let Some(mut shadow) = self.leaf(leaf).slot.lock_existing() else { return };
        if !shadow.has(writer) {
            return;
        }
        let (inserted, deleted, _) = shadow.net(writer);
        let bytes = self.bytes(leaf);
        // A later commit may have deleted the entry, and stored that before.
        // Planted: it comes back.
        let gone = deleted | if perdura_pmem::planted(230) { 0 } else { shadow.deleted_and_stored() };
        // Redo stores it again until it is flushed behind.
        let _unflushed = trace::span(trace::TRANSIENT);
        bytes.set_valid((bytes.loaded_valid() | inserted) & !gone);
        shadow.set_stored(writer);
        if !std::mem::replace(&mut shadow.queued, true) {
            self.queue().push(csn, leaf);
        }
        if shadow.is_crowded() {
            self.queue().push_crowded(leaf);
        }
        // Planted: nobody flushes the valid word before a checkpoint goes past it.
        if !std::mem::replace(&mut shadow.noted, true) && !perdura_pmem::planted(226) {
            note();
        }
    }

    /// Flushes the valid word of a leaf that was noted. The caller fences.
    pub fn flush_stored(&self, leaf: LeafId) {
        if let Some(mut shadow) = self.leaf(leaf).slot.lock_existing()
            && std::mem::take(&mut shadow.noted)
        {
            self.bytes(leaf).flush_valid();
        }
    }

    /// Takes back what `writer` did to leaf `leaf` after step `seen`; `None` for all of it.
    pub fn undo(&self, leaf: LeafId, writer: &Arc<Writer>, seen: Option<u64>) {
        if let Some(mut shadow) = self.leaf(leaf).slot.lock_existing() {
            shadow.undo(writer, seen);
            if shadow.is_settled() && self.bytes(leaf).is_sparse() {
                self.queue().put_sparse(leaf);
            }
        }
    }
}
