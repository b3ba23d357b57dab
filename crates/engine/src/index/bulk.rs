//! Leaves written in order, each once: of a new index, and of the runs that it is sorted in.
//!
//! The leaves are flushed, and say nothing of being in use. Whoever makes them count fences them
//! first (I3).

use super::leaf::LeafId;
use super::replace::separator;
use super::table_index::Index;
use crate::error::Result;
use crate::format::LEAF_UNIT;
use crate::space::segments::Segments;

/// Entries after which a leaf whose entries differ in length is full: some 48 have room.
const LONG_ENTRIES: usize = 42;
/// Bytes of such entries after which it is full, if there are three: with room for half as many
/// again it has 4 KiB.
const LONG_BYTES: u64 = 2700;
/// Of the slots of one length, one of so many stays free.
const SLOTS_FREE: u32 = 16;

/// Writes entries that come in order into leaves.
#[derive(Default)]
pub(super) struct LeafWriter {
    leaves: Vec<LeafId>,
    /// The entries of the next leaf, one after the other, and where each ends.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Bytes that they take in a leaf, and the length of the longest.
    stored: u64,
    longest: u64,
    low: Vec<u8>,
    /// The last entry of the leaf before.
    before: Vec<u8>,
}

impl LeafWriter {
    /// The last entry; empty if there is none.
    pub(super) fn last(&self) -> &[u8] {
        match self.ends.len() {
            0 => &self.before,
            count => self.pending(count - 1),
        }
    }

    fn pending(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[start..self.ends[number]]
    }

    /// Adds an entry. Returns whether a leaf was written.
    ///
    /// # Errors
    /// As for [`super::leaves::Leaves::take`].
    pub(super) fn push(&mut self, index: &Index, segments: &Segments, entry: &[u8]) -> Result<bool> {
        let is_full = !self.ends.is_empty() && !self.has_room(index, entry);
        if is_full {
            self.finish_leaf(index, segments)?;
        }
        if self.ends.is_empty() && !self.leaves.is_empty() {
            self.low = separator(&self.before, entry);
        }
        self.bytes.extend_from_slice(entry);
        self.ends.push(self.bytes.len());
        self.stored += entry.len() as u64 + 3;
        self.longest = self.longest.max(entry.len() as u64 + 3);
        Ok(is_full)
    }

    fn units(&self, index: &Index, count: usize, stored: u64, longest: u64) -> u32 {
        index.form().units_for(self.low.len(), count, stored, longest)
    }

    fn has_room(&self, index: &Index, entry: &[u8]) -> bool {
        let (count, more) = (self.ends.len() + 1, entry.len() as u64 + 3);
        let (stored, longest) = (self.stored + more, self.longest.max(more));
        let bytes = u64::from(self.units(index, count, stored, longest)) * LEAF_UNIT;
        let shape = index.form().shape(self.low.len());
        let slots = shape.slots(bytes);
        if index.form().is_fixed() {
            return count as u32 <= (slots - slots / SLOTS_FREE).max(2);
        }
        let is_large = count > LONG_ENTRIES || count > 3 && stored > LONG_BYTES;
        !is_large && count as u32 <= slots && shape.heap_at(slots) + stored <= bytes
    }

    fn finish_leaf(&mut self, index: &Index, segments: &Segments) -> Result<()> {
        let units = self.units(index, self.ends.len(), self.stored, self.longest);
        let leaf = index.leaves().take(segments, units)?;
        let entries: Vec<_> = (0..self.ends.len()).map(|at| (self.pending(at), 0, at as u32)).collect();
        index.replacer().fill(leaf, &self.low, 0, &entries, &[u64::MAX]);
        self.leaves.push(leaf);
        let start = if self.ends.len() == 1 { 0 } else { self.ends[self.ends.len() - 2] };
        self.before.clear();
        self.before.extend_from_slice(&self.bytes[start..]);
        self.bytes.clear();
        self.ends.clear();
        (self.stored, self.longest) = (0, 0);
        Ok(())
    }

    /// Writes what is left. [`LeafWriter::take`] then has all leaves.
    pub(super) fn finish(&mut self, index: &Index, segments: &Segments) -> Result<()> {
        if self.ends.is_empty() { Ok(()) } else { self.finish_leaf(index, segments) }
    }

    /// Takes the leaves written, in order.
    pub(super) fn take(&mut self) -> Vec<LeafId> {
        std::mem::take(&mut self.leaves)
    }
}
