//! The entries of one leaf as a scan sees them, in order.

use super::entry_order::EntryOrder;
use super::leaf::LeafBytes;
use crate::error::Result;
use crate::format::entry_row;

/// Where an entry lies in the bytes of its page, and its row.
struct Entry {
    start: u32,
    end: u32,
    row: u64,
}

/// The entries of one leaf as a scan sees them, in order, copied.
#[derive(Default)]
pub(crate) struct Page {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    order: EntryOrder,
    /// Where the range of a scan ends: it takes no entries from there on.
    end: Option<Vec<u8>>,
}

impl Page {
    /// Sets where the range ends; `None` at the end of the index.
    pub(crate) fn set_end(&mut self, end: Option<Vec<u8>>) {
        self.end = end;
    }

    /// Whether the range has keys from `key` on.
    pub(super) fn reaches(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_none_or(|end| key < &end[..])
    }

    /// The low key of the next leaf, if there was one and the range goes on there.
    pub(crate) fn onward(&self) -> Option<&[u8]> {
        self.high().filter(|high| self.reaches(high))
    }

    /// Takes the entries in `slots` of `leaf` from `from` on, those below `high` and the end of the
    /// range. Entries that a leaf was left with beyond its end are those of the next.
    pub(super) fn fill(&mut self, leaf: &LeafBytes<'_>, slots: u64, from: &[u8], high: Option<&[u8]>) -> Result<()> {
        let end = match (high, self.end.as_deref()) {
            (Some(high), Some(end)) => Some(high.min(end)),
            (high, end) => high.or(end),
        };
        self.order.find(leaf, slots, (from, end))?;
        self.bytes.clear();
        self.entries.clear();
        if let Some(extent) = self.order.extent() {
            let start = extent.start;
            leaf.copy(extent, &mut self.bytes);
            for range in self.order.ranges() {
                let (start, end) = (range.start - start, range.end - start);
                let row = entry_row(&self.bytes[start as usize..end as usize]);
                self.entries.push(Entry { start, end, row });
            }
        }
        self.low.clear();
        self.low.extend_from_slice(leaf.low().max(from));
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
        (self.high, self.end) = (None, None);
    }

    /// Has no entries, behind the last one of the range; there is nothing from `key` on.
    pub(super) fn put_behind_all(&mut self, key: &[u8]) {
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
        self.bytes_of(&self.entries[index])
    }

    /// The row of entry `index`.
    #[inline]
    pub(crate) fn row(&self, index: usize) -> u64 {
        self.entries[index].row
    }

    fn bytes_of(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.start as usize..entry.end as usize]
    }

    /// Number of entries below `bound`.
    pub(crate) fn place_of(&self, bound: &[u8]) -> usize {
        self.entries.partition_point(|entry| self.bytes_of(entry) < bound)
    }

    /// The low key of the leaf, or the bound from which on its entries were taken.
    pub(crate) fn low(&self) -> &[u8] {
        &self.low
    }

    /// The low key of the next leaf, if there was one.
    pub(crate) fn high(&self) -> Option<&[u8]> {
        self.high.as_deref()
    }
}
