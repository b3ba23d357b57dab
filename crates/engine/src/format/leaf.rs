//! Leaves of indexes: a header, the low key, fingerprints, and slots with entries.
//!
//! An entry is a key, then the number of its row in six bytes, highest first, so that entries order
//! by key and row. The *valid* word of a leaf says which slots count; it is the only word of a leaf
//! in use that changes in place.

use super::geometry::LEAF_UNIT;
use perdura_pmem::checksum::{crc32c, crc32c_append};

/// Length of the longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 3072;
/// Bytes of the row number at the end of an entry.
pub(crate) const ENTRY_ROW_BYTES: usize = 6;
/// Length of the longest entry, in bytes.
pub(crate) const ENTRY_BYTES_MAX: usize = KEY_BYTES_MAX + ENTRY_ROW_BYTES;
/// Bytes of a leaf before its low key: state, valid word, check.
pub(crate) const LEAF_HEADER: u64 = 24;
/// Most slots of a leaf.
pub(super) const LEAF_SLOTS: u32 = 63;
/// Bytes of an entry's head where lengths differ: length and check.
const LONG_HEAD: u64 = 3;
/// Bytes of a leaf for each slot, where the lengths of entries differ, below which slots would
/// outnumber the entries.
const LONG_SLOT: u64 = 20;

/// An index of a table, as its creator declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexDefinition {
    /// No two rows have the same key, unless the key says that it may repeat.
    pub unique: bool,
    /// Length of every key, in bytes; 0 if the lengths differ.
    pub key_bytes: u16,
}

/// Kinds of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafKind {
    /// Its entries count.
    InUse,
    /// Others have its entries.
    Retired,
}

/// Layout of a leaf in its state word. It never changes while the leaf is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafShape {
    /// Number of the index in its table.
    pub index: u16,
    /// Length of every entry, in bytes; 0 if the lengths differ.
    pub entry: u16,
    /// Length of the low key, in bytes.
    pub low: u16,
}

impl LeafShape {
    /// Encodes the state word of a leaf: bits 0 and 1 are the kind, 2..18 the index, 18..34 the
    /// length of an entry, 34..50 that of the low key.
    pub(crate) fn encode(self, kind: LeafKind) -> u64 {
        let kind = match kind {
            LeafKind::InUse => 1,
            LeafKind::Retired => 2,
        };
        kind | u64::from(self.index) << 2 | u64::from(self.entry) << 18 | u64::from(self.low) << 34
    }

    /// Length of the low key that a state word tells, in bytes.
    #[inline]
    pub(crate) fn low_of(state: u64) -> u64 {
        state >> 34 & 0xffff
    }

    /// Decodes a state word other than 0; `None` if it is not one.
    pub(crate) fn decode(state: u64) -> Option<(LeafKind, LeafShape)> {
        let kind = match state & 3 {
            1 => LeafKind::InUse,
            2 => LeafKind::Retired,
            _ => return None,
        };
        let shape = LeafShape::known(state);
        let fits = shape.entry == 0 || (ENTRY_ROW_BYTES..=ENTRY_BYTES_MAX).contains(&usize::from(shape.entry));
        (state >> 50 == 0 && fits && usize::from(shape.low) <= ENTRY_BYTES_MAX).then_some((kind, shape))
    }

    /// The shape in a state word that was made of one.
    #[inline]
    pub(crate) fn known(state: u64) -> LeafShape {
        let field = |at: u32| (state >> at & 0xffff) as u16;
        LeafShape { index: field(2), entry: field(18), low: field(34) }
    }

    /// Offset of the fingerprints, in bytes: behind the low key.
    #[inline]
    pub(crate) fn fingerprints_at(self) -> u64 {
        LEAF_HEADER + u64::from(self.low).next_multiple_of(8)
    }

    /// Number of slots of a leaf of `bytes`.
    pub(crate) fn slots(self, bytes: u64) -> u32 {
        let room = bytes.saturating_sub(self.fingerprints_at());
        let each = match self.entry {
            0 => LONG_SLOT,
            entry => 2 + u64::from(entry),
        };
        (room / each).min(LEAF_SLOTS.into()) as u32
    }

    /// Offset of what follows the fingerprints of `slots` slots, in bytes: slots of one length, or
    /// the offsets of entries.
    #[inline]
    pub(crate) fn slots_at(self, slots: u32) -> u64 {
        let end = self.fingerprints_at() + u64::from(slots);
        if self.entry == 0 { end.next_multiple_of(2) } else { end }
    }

    /// Offset from which on entries of `slots` slots lie whose lengths differ, in bytes.
    #[inline]
    pub(crate) fn heap_at(self, slots: u32) -> u64 {
        self.slots_at(slots) + 2 * u64::from(slots)
    }

    /// Bytes that an entry of `length` takes in a leaf, its fingerprint and offset apart.
    pub(crate) fn stored(self, length: usize) -> u64 {
        if self.entry == 0 { LONG_HEAD + length as u64 } else { 1 + length as u64 }
    }
}

/// The check word of a leaf: CRC32C over the shape, the low key and `salt`, in which table and
/// place are; above it the version of the leaf. Of two leaves with one low key the one with the
/// later version counts.
pub(crate) fn leaf_check(shape: LeafShape, low: &[u8], version: u16, salt: u64) -> u64 {
    let head = [shape.encode(LeafKind::InUse), u64::from(version), salt].map(u64::to_le_bytes).concat();
    u64::from(crc32c_append(crc32c(&head), low)) | u64::from(version) << 32
}

/// The version in a check word.
pub(crate) fn leaf_version(check: u64) -> u16 {
    (check >> 32) as u16
}

/// Encodes a valid word: its highest bit makes the number of set bits even, so that damage at rest
/// shows.
pub(crate) fn encode_valid(slots: u64) -> u64 {
    slots | u64::from(slots.count_ones() & 1) << 63
}

/// The slots of a valid word that count; `None` if it is damaged.
#[inline]
pub(crate) fn decode_valid(word: u64) -> Option<u64> {
    word.count_ones().is_multiple_of(2).then_some(word & (u64::MAX >> 1))
}

/// Fingerprint and check of an entry: bytes of the CRC32C of its key, and of all of it.
#[inline]
pub(crate) fn entry_marks(entry: &[u8]) -> (u8, u8) {
    let key = entry.len().saturating_sub(ENTRY_ROW_BYTES);
    let of_key = crc32c(&entry[..key]);
    (of_key as u8, folded(crc32c_append(of_key, &entry[key..])))
}

/// The check of an entry, as [`entry_marks`] has it.
#[inline]
pub(crate) fn entry_check(entry: &[u8]) -> u8 {
    folded(crc32c(entry))
}

#[inline]
fn folded(crc: u32) -> u8 {
    (crc ^ crc >> 8 ^ crc >> 16 ^ crc >> 24) as u8
}

/// The fingerprint of a key.
#[inline]
pub(crate) fn key_fingerprint(key: &[u8]) -> u8 {
    crc32c(key) as u8
}

/// The row that an entry names.
#[inline]
pub(crate) fn entry_row(entry: &[u8]) -> u64 {
    let row = entry.last_chunk::<ENTRY_ROW_BYTES>().copied().unwrap_or_default();
    row.iter().fold(0, |row, byte| row << 8 | u64::from(*byte))
}

/// The key of an entry.
#[inline]
pub(crate) fn entry_key(entry: &[u8]) -> &[u8] {
    &entry[..entry.len().saturating_sub(ENTRY_ROW_BYTES)]
}

/// Appends the entry of `key` and `row` to `entry`.
#[inline]
pub(crate) fn push_entry(entry: &mut Vec<u8>, key: &[u8], row: u64) {
    entry.extend_from_slice(key);
    entry.extend_from_slice(&row.to_be_bytes()[8 - ENTRY_ROW_BYTES..]);
}

/// Contribution of an entry to the checksum in a redo record, folded with others: order does not
/// matter.
pub(crate) fn fold_entry(entry: &[u8]) -> u64 {
    (u64::from(crc32c(entry)) << 32 | entry.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Length of the longest key of which a leaf of `bytes` has room for two, beside a low key as long:
/// what a pool with segments of that size can index.
pub(crate) fn key_bytes_max(bytes: u64) -> usize {
    let heads = LEAF_HEADER + u64::from(LEAF_SLOTS + 1) * 3;
    let each = bytes.saturating_sub(heads) / 3;
    KEY_BYTES_MAX.min(each.saturating_sub(LONG_HEAD + ENTRY_ROW_BYTES as u64) as usize)
}

/// Units of [`LEAF_UNIT`], `most` at most, for leaves of an index whose entries all have `entry`
/// bytes: the size that leaves least of itself unused, up to 4 KiB, or room for four entries.
pub(crate) fn units_for_fixed(entry: usize, most: u32) -> u32 {
    let shape = LeafShape { index: 0, entry: entry as u16, low: entry as u16 };
    let waste = |units: u32| {
        let bytes = u64::from(units) * LEAF_UNIT;
        bytes * 1024 / u64::from(shape.slots(bytes).max(1))
    };
    let best = (1..=most.min(16)).min_by_key(|units| (waste(*units), *units)).unwrap_or(most);
    let has_room = |units: &u32| shape.slots(u64::from(*units) * LEAF_UNIT) >= 4;
    if has_room(&best) { best } else { (1..most).find(has_room).unwrap_or(most) }
}

/// Sizes of leaves whose entries differ in length, in units of [`LEAF_UNIT`].
const LONG_UNITS: [u32; 9] = [4, 6, 8, 12, 16, 24, 32, 48, 64];

/// Units of [`LEAF_UNIT`] for a leaf that begins with `low`, is to have `stored` bytes of `count`
/// entries soon, and an entry of `longest` bytes at least four times; `most` at most.
pub(crate) fn units_for_long(low: usize, count: usize, stored: u64, longest: u64, most: u32) -> u32 {
    let each = stored / count.max(1) as u64 + 3;
    let wanted = LEAF_HEADER
        + low as u64
        + 16
        + (each * 48).min(16 * LEAF_UNIT).max(each * count as u64 * 3 / 2).max(longest * 4 + 64 * 3);
    LONG_UNITS.into_iter().find(|units| u64::from(*units) * LEAF_UNIT >= wanted).unwrap_or(64).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_has_room_for_what_it_promises() {
        for entry in [6, 10, 14, 46, 100, 1000, ENTRY_BYTES_MAX] {
            let bytes = u64::from(units_for_fixed(entry, 256)) * LEAF_UNIT;
            let shape = LeafShape { index: 3, entry: entry as u16, low: entry as u16 };
            let slots = shape.slots(bytes);
            assert!(slots >= 4, "{entry}");
            assert!(shape.slots_at(slots) + u64::from(slots) * shape.stored(entry) <= bytes, "{entry}");
            assert_eq!(LeafShape::decode(shape.encode(LeafKind::InUse)), Some((LeafKind::InUse, shape)));
        }
        for longest in [3 + 6, 40, 500, 3 + ENTRY_BYTES_MAX as u64] {
            let bytes = u64::from(units_for_long(longest as usize - 3, 4, 4 * longest, longest, 256)) * LEAF_UNIT;
            let shape = LeafShape { index: 0, entry: 0, low: longest as u16 - 3 };
            let slots = shape.slots(bytes);
            assert!(slots >= 4 && shape.heap_at(slots) + 4 * longest <= bytes, "{longest}");
        }
    }

    #[test]
    fn a_single_flipped_bit_shows() {
        let valid = encode_valid(0b1011);
        assert_eq!(decode_valid(valid), Some(0b1011));
        assert!((0..64).all(|bit| decode_valid(valid ^ 1 << bit).is_none()));
        let shape = LeafShape { index: 1, entry: 14, low: 5 };
        let check = leaf_check(shape, b"lower", 7, 99);
        for bit in 0..64 {
            let state = shape.encode(LeafKind::InUse) ^ 1 << bit;
            let seen = LeafShape::decode(state).filter(|(kind, _)| *kind == LeafKind::InUse);
            assert!(seen.is_none_or(|(_, other)| leaf_check(other, b"lower", 7, 99) != check), "bit {bit}");
        }
        assert_eq!(leaf_version(check), 7);
    }

    #[test]
    fn entries_order_by_key_and_row() {
        let entry = |key: &[u8], row| {
            let mut entry = Vec::new();
            push_entry(&mut entry, key, row);
            entry
        };
        assert!(entry(b"ab", 9) < entry(b"ab", 1 << 40) && entry(b"ab", 1 << 47) < entry(b"ac", 0));
        assert_eq!((entry_key(&entry(b"ab", 77)), entry_row(&entry(b"ab", 77))), (&b"ab"[..], 77));
        assert_eq!(entry_marks(&entry(b"ab", 77)).0, key_fingerprint(b"ab"));
        assert_eq!(entry_marks(&entry(b"ab", 77)).1, entry_check(&entry(b"ab", 77)));
    }
}
