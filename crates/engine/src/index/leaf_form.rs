//! Form of an index' leaves: their sizes, their slots, and the lengths of keys that they take.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{
    ENTRY_ROW_BYTES, IndexDefinition, LEAF_UNIT, LeafShape, key_bytes_max, units_for_fixed, units_for_long,
};

/// Of the slots of a leaf that is packed, one of so many stays free.
const SLOTS_FREE: u32 = 8;

/// Form of the leaves of an index.
pub(super) struct LeafForm {
    /// Number of the index in its table.
    number: u16,
    /// Length of every entry, in bytes; 0 if the lengths differ.
    entry_bytes: u16,
    /// Size of the leaves in units of 256 bytes if all keys have one length.
    fixed_units: u32,
    /// Largest size of a leaf, in units of 256 bytes.
    units_max: u32,
}

impl LeafForm {
    /// The form of the leaves of index `number`, of `units_max` units of 256 bytes at most.
    pub(super) fn new(number: u16, definition: IndexDefinition, units_max: u32) -> LeafForm {
        let entry_bytes = match definition.key_bytes {
            0 => 0,
            key => key + ENTRY_ROW_BYTES as u16,
        };
        let fixed_units = units_for_fixed(usize::from(definition.key_bytes) + ENTRY_ROW_BYTES, units_max);
        LeafForm { number, entry_bytes, fixed_units, units_max }
    }

    /// Number of the index in its table.
    pub(super) fn number(&self) -> u16 {
        self.number
    }

    /// Whether all entries have one length.
    pub(super) fn is_fixed(&self) -> bool {
        self.entry_bytes != 0
    }

    /// Size of the leaves in units of 256 bytes if all keys have one length.
    pub(super) fn fixed_units(&self) -> u32 {
        self.fixed_units
    }

    /// Shape of a leaf whose low key has `low` bytes.
    pub(super) fn shape(&self, low: usize) -> LeafShape {
        LeafShape { index: self.number, entry: self.entry_bytes, low: low as u16 }
    }

    /// Whether leaves are laid out as `shape` says.
    pub(super) fn has_shape(&self, shape: LeafShape) -> bool {
        shape.index == self.number && shape.entry == self.entry_bytes
    }

    /// Fails with Configuration if a key is too long for a leaf.
    pub(super) fn check_length(&self, key: &[u8]) -> Result<()> {
        let segment_bytes = u64::from(self.units_max) * LEAF_UNIT;
        let most = key_bytes_max(segment_bytes);
        if key.len() <= most {
            return Ok(());
        }
        let what =
            format!("in a pool with segments of {segment_bytes} bytes keys have up to {most}, not {}", key.len());
        Err(Error::new(ErrorKind::Configuration, what))
    }

    /// Units of a new leaf whose low key has `low` bytes and that gets `entries`, and soon one of
    /// `more` bytes.
    pub(super) fn units(&self, low: usize, entries: &[(&[u8], u32)], more: usize) -> u32 {
        if self.is_fixed() {
            return self.fixed_units;
        }
        let stored = entries.iter().map(|(entry, _)| entry.len() as u64 + 3).sum::<u64>() + more as u64 + 3;
        let longest = entries.iter().map(|(entry, _)| entry.len()).max().unwrap_or(0).max(more) as u64 + 3;
        self.units_for(low, entries.len() + 1, stored, longest)
    }

    /// Units of a leaf whose low key has `low` bytes and that has `count` entries, which take
    /// `stored` bytes, the longest of them `longest`.
    pub(super) fn units_for(&self, low: usize, count: usize, stored: u64, longest: u64) -> u32 {
        match self.is_fixed() {
            true => self.fixed_units,
            false => units_for_long(low, count, stored, longest, self.units_max),
        }
    }

    /// Whether a leaf of so many units, which begins with a low key, has room for `entries`.
    pub(super) fn fits(&self, (units, low): &(u32, Vec<u8>), entries: &[(&[u8], u32)]) -> bool {
        let shape = self.shape(low.len());
        let bytes = u64::from(*units) * LEAF_UNIT;
        let stored: u64 = entries.iter().map(|(entry, _)| shape.stored(entry.len())).sum();
        let has_bytes = self.is_fixed() || shape.heap_at(shape.slots(bytes)) + stored <= bytes;
        has_bytes && entries.len() as u32 <= shape.slots(bytes)
    }

    /// Slots that a leaf whose entries have one length has at least, whatever its low key.
    pub(super) fn slots_least(&self) -> u32 {
        self.shape(self.entry_bytes.into()).slots(u64::from(self.fixed_units) * LEAF_UNIT)
    }

    /// Slots of those that packing fills.
    pub(super) fn slots_filled(&self) -> u32 {
        let slots = self.slots_least();
        slots - slots / SLOTS_FREE
    }

    /// Units of a leaf whose low key has `low` bytes and that has room for all of `entries`, which
    /// differ in length, and a third more; `None` if none has.
    pub(super) fn joined_units(&self, low: usize, entries: &[(&[u8], u32)]) -> Option<u32> {
        let units = self.units(low, entries, 0);
        let shape = self.shape(low);
        let bytes = u64::from(units) * LEAF_UNIT;
        let stored: u64 = entries.iter().map(|(entry, _)| shape.stored(entry.len())).sum();
        let fits = shape.heap_at(shape.slots(bytes)) + stored * 4 / 3 <= bytes;
        (fits && entries.len() as u32 * 4 <= shape.slots(bytes) * 3).then_some(units)
    }
}
