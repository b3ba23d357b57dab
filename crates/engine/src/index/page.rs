//! The entries of one leaf as a scan sees them, in order.

use super::entry_order::EntryOrder;
use super::leaf::{LeafBytes, damaged};
use crate::error::Result;

/// The entries of one leaf as a scan sees them, in order, copied.
#[derive(Default)]
pub(crate) struct Page {
    bytes: Vec<u8>,
    /// Where the entries lie in `bytes`.
    entries: Vec<std::ops::Range<u32>>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    order: EntryOrder,
}

impl Page {
    /// Takes the entries in `slots` of `leaf`, those below `high`.
    pub(super) fn fill(&mut self, leaf: &LeafBytes<'_>, slots: u64, high: Option<&[u8]>) -> Result<()> {
        let found = self.order.find(leaf, slots);
        found.map_err(|_| damaged(leaf, "an entry of an index' leaf is damaged"))?;
        self.bytes.clear();
        self.entries.clear();
        if let Some(extent) = self.order.extent() {
            let start = extent.start;
            leaf.copy(extent, &mut self.bytes);
            self.entries.extend(self.order.ranges().map(|range| range.start - start..range.end - start));
        }
        // Entries that a leaf was left with beyond its end are those of the next.
        if let Some(high) = high
            && self.len().checked_sub(1).is_some_and(|last| self.entry(last) >= high)
        {
            self.entries.truncate(self.place_of(high));
        }
        self.low.clear();
        self.low.extend_from_slice(leaf.low());
        match (&mut self.high, high) {
            (Some(known), Some(high)) => {
                known.clear();
                known.extend_from_slice(high);
            }
            (known, high) => *known = high.map(<[u8]>::to_vec),
        }
        Ok(())
    }

    /// Forgets everything but its memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.low.clear();
        self.high = None;
    }

    /// Has no entries, behind the last one of the index; there is nothing from `key` on.
    pub(super) fn end(&mut self, key: &[u8]) {
        self.bytes.clear();
        self.entries.clear();
        self.low.clear();
        self.low.extend_from_slice(key);
        self.high = None;
    }

    /// Forgets the entries from `key` on.
    pub(super) fn cut_from(&mut self, key: &[u8]) {
        let kept = self.place_of(key);
        self.entries.truncate(kept);
        // Going on, the caller finds them there.
        self.high = Some(key.to_vec());
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Entry `index`.
    pub(crate) fn entry(&self, index: usize) -> &[u8] {
        let range = &self.entries[index];
        &self.bytes[range.start as usize..range.end as usize]
    }

    /// Number of entries below `bound`.
    pub(crate) fn place_of(&self, bound: &[u8]) -> usize {
        self.entries.partition_point(|range| &self.bytes[range.start as usize..range.end as usize] < bound)
    }

    /// The low key of the leaf.
    pub(crate) fn low(&self) -> &[u8] {
        &self.low
    }

    /// The low key of the next leaf, if there was one.
    pub(crate) fn high(&self) -> Option<&[u8]> {
        self.high.as_deref()
    }
}
