//! Redo records. A record names what was written, and carries the checksum of that (I6). One *by
//! value* carries the bytes as well, so that redo can write them again.

use super::leaf::{ENTRY_BYTES_MAX, ENTRY_ROW_BYTES};
use super::word::{Rid, Word};
use perdura_pmem::checksum::{crc32c, crc32c_append};
use std::borrow::Cow;

/// Size of a row or page record by reference, and of the head of every other, in bytes.
pub(crate) const RECORD_BYTES: usize = 24;
/// Flag in a record's word: the record publishes a directory page (RID field: page number, low word
/// bits: row count).
const RECORD_PAGE: u64 = 1 << 62;
/// Flag in a record's word: the record changes rows of one page (RID field: page number; word bits
/// 0..16: row count, 16..32: length of the bitmap in words). The bitmap of the rows and their words
/// follow.
const RECORD_DELTA: u64 = 1 << 61;
/// Flag in the word of a delta record: the rows are deleted, and no words follow.
const DELTA_DELETED: u64 = 1 << 63;
/// Size of a leaf record, in bytes: the slots inserted and those deleted follow.
const LEAF_RECORD_BYTES: usize = RECORD_BYTES + 16;
/// Flag in a record's word that with that of a page says: entries of a leaf (RID field: place of
/// the leaf).
const RECORD_LEAF: u64 = 1 << 63;
/// Flags in a record's word that together say: a row by value. The length of the row and its bytes
/// follow. No directory word of a version that lives has any of them.
const RECORD_ROW_VALUE: u64 = RECORD_PAGE | RECORD_DELTA | RECORD_LEAF;
/// Size of the length in front of a row by value, in bytes.
const ROW_VALUE_HEAD: usize = 4;
/// Size of length and offset in front of an entry by value, in bytes.
const ENTRY_VALUE_HEAD: usize = 4;
/// Bytes of a record by value beside the version or the entries that it carries, at most.
pub(crate) const VALUE_HEAD: usize = LEAF_RECORD_BYTES;
/// Bytes that a row takes in a record by value beside its version: what the head has of it is not
/// repeated.
pub(crate) const ROW_VALUE_EXTRA: u64 = (RECORD_BYTES + ROW_VALUE_HEAD) as u64 - super::version::VERSION_HEADER;
/// Bytes that an entry takes in a record by value beside itself.
pub(crate) const ENTRY_VALUE_EXTRA: u64 = ENTRY_VALUE_HEAD as u64;
/// Bits of a page number in a record of a spilled page, which has both flags; above them is the row
/// count.
const PAGE_MASK: u64 = (1 << 48) - 1;

/// A redo record. One that was decoded has its values where they lie in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'v> {
    /// The directory word of `rid` becomes `word`, which names a version with checksum `crc`.
    Row {
        /// Table id.
        table: u32,
        /// RID of the row.
        rid: Rid,
        /// New directory word of the row.
        word: Word,
        /// CRC32C of the version the word names.
        crc: u32,
        /// The row, if the record is by value. A word that is a tombstone has none.
        value: Option<Cow<'v, [u8]>>,
    },
    /// Publishes the bulk page `page` with `rows` rows; `crc` covers its words and the checksums of
    /// its versions.
    Page {
        /// Table id.
        table: u32,
        /// Number of the directory page.
        page: u64,
        /// Number of rows filled, from the first of the page on.
        rows: u32,
        /// Checksum of the page, see [`page_crc`].
        crc: u32,
    },
    /// The words of some rows of page `page` become others; `crc` covers the checksums of the
    /// versions that they name.
    Delta {
        /// Table id.
        table: u32,
        /// Number of the directory page.
        page: u64,
        /// Positions in the page, ascending, with the new words.
        rows: Vec<(u16, Word)>,
        /// Checksum of the versions, see `delta_crc`.
        crc: u32,
    },
    /// Some rows of page `page` are deleted: their words get the flag. `crc` covers the checksums
    /// of the versions that they name.
    Deleted {
        /// Table id.
        table: u32,
        /// Number of the directory page.
        page: u64,
        /// Positions in the page, ascending.
        rows: Vec<u16>,
        /// Checksum of the versions, see `delta_crc`.
        crc: u32,
    },
    /// The words of `rows` rows of page `page` become those in the spilled page at `place`.
    Spilled {
        /// Table id.
        table: u32,
        /// Number of the directory page.
        page: u64,
        /// Number of rows.
        rows: u16,
        /// Names the version that holds the spilled page.
        place: Word,
        /// CRC32C of that version.
        crc: u32,
    },
    /// Entries of an index' leaf are inserted and deleted; `crc` covers them.
    Leaf {
        /// Table id.
        table: u32,
        /// Names the leaf.
        place: Word,
        /// The slots inserted.
        inserted: u64,
        /// The slots deleted.
        deleted: u64,
        /// Checksum of the entries, see `delta_crc`.
        crc: u32,
        /// The entries inserted as `push_slot_value` appends them, in the order of their slots,
        /// if the record is by value. Empty if it is not, or inserts nothing.
        values: Cow<'v, [u8]>,
    },
}

/// An entry that a record carries by value, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotValue<'v> {
    /// Slot of the leaf.
    pub slot: u32,
    /// Offset in the leaf, in bytes, where the lengths of entries differ; otherwise 0.
    pub at: u16,
    /// Key and row.
    pub entry: &'v [u8],
}

/// Appends an entry that lies at offset `at` of its leaf: its length, the offset, its bytes.
pub(crate) fn push_slot_value(values: &mut Vec<u8>, at: u16, entry: &[u8]) {
    values.extend_from_slice(&(entry.len() as u16).to_le_bytes());
    values.extend_from_slice(&at.to_le_bytes());
    values.extend_from_slice(entry);
}

/// The entries that `values` holds for the slots `inserted`, in order; it ends early where the
/// bytes are not those of entries.
pub(crate) fn slot_values(inserted: u64, values: &[u8]) -> impl Iterator<Item = SlotValue<'_>> {
    let (mut slots, mut rest) = (inserted, values);
    std::iter::from_fn(move || {
        let slot = (slots != 0).then(|| slots.trailing_zeros())?;
        slots &= slots - 1;
        let (head, then) = rest.split_first_chunk::<ENTRY_VALUE_HEAD>()?;
        let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let (entry, then) = then.split_at_checked(length)?;
        rest = then;
        let is_entry = (ENTRY_ROW_BYTES..=ENTRY_BYTES_MAX).contains(&length);
        is_entry.then_some(SlotValue { slot, at: u16::from_le_bytes([head[2], head[3]]), entry })
    })
}

/// Whether `values` are entries for just the slots `inserted`.
fn are_values_of(inserted: u64, values: &[u8]) -> bool {
    let found = slot_values(inserted, values)
        .fold((0, 0), |(count, bytes), value| (count + 1, bytes + ENTRY_VALUE_HEAD + value.entry.len()));
    found == (inserted.count_ones(), values.len())
}

impl<'v> Record<'v> {
    /// Id of the table that the record changes.
    pub fn table(&self) -> u32 {
        match *self {
            Record::Row { table, .. }
            | Record::Page { table, .. }
            | Record::Delta { table, .. }
            | Record::Deleted { table, .. }
            | Record::Spilled { table, .. }
            | Record::Leaf { table, .. } => table,
        }
    }

    /// Size of a delta record of `rows` rows, the last of them at position `last`, in bytes.
    pub(crate) fn delta_bytes(rows: usize, last: u16) -> usize {
        RECORD_BYTES + (usize::from(last) / 64 + 1 + rows) * 8
    }

    /// Size of the record, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Record::Row { value: Some(row), .. } => RECORD_BYTES + ROW_VALUE_HEAD + row.len(),
            Record::Row { .. } | Record::Page { .. } | Record::Spilled { .. } => RECORD_BYTES,
            Record::Leaf { values, .. } => LEAF_RECORD_BYTES + values.len(),
            Record::Delta { rows, .. } => Record::delta_bytes(rows.len(), rows.last().map_or(0, |(last, _)| *last)),
            Record::Deleted { rows, .. } => Record::delta_bytes(0, rows.last().copied().unwrap_or_default()),
        }
    }

    /// Appends the record's bytes to `bytes`.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let (rid, word, table, crc) = match *self {
            Record::Row { table, rid, word, crc, value: None } => (rid.to_u64(), word.0, table, crc),
            Record::Row { table, rid, word, crc, .. } => (rid.to_u64(), word.0 | RECORD_ROW_VALUE, table, crc),
            Record::Page { table, page, rows, crc } => (page, u64::from(rows) | RECORD_PAGE, table, crc),
            Record::Delta { table, page, ref rows, crc } => {
                let bitmap = rows.last().map_or(0, |(last, _)| u64::from(*last) / 64 + 1);
                (page, rows.len() as u64 | bitmap << 16 | RECORD_DELTA, table, crc)
            }
            Record::Deleted { table, page, ref rows, crc } => {
                let bitmap = rows.last().map_or(0, |last| u64::from(*last) / 64 + 1);
                (page, rows.len() as u64 | bitmap << 16 | RECORD_DELTA | DELTA_DELETED, table, crc)
            }
            Record::Spilled { table, page, rows, place, crc } => {
                (page & PAGE_MASK | u64::from(rows) << 48, place.0 | RECORD_PAGE | RECORD_DELTA, table, crc)
            }
            Record::Leaf { table, place, crc, ref values, .. } => {
                (place.0, RECORD_PAGE | RECORD_LEAF | values.len() as u64, table, crc)
            }
        };
        bytes.extend_from_slice(&rid.to_le_bytes());
        bytes.extend_from_slice(&word.to_le_bytes());
        bytes.extend_from_slice(&table.to_le_bytes());
        bytes.extend_from_slice(&crc.to_le_bytes());
        match self {
            Record::Delta { rows, .. } => {
                encode_bitmap(bytes, rows.iter().map(|(position, _)| *position));
                rows.iter().for_each(|(_, word)| bytes.extend_from_slice(&word.0.to_le_bytes()));
            }
            Record::Deleted { rows, .. } => encode_bitmap(bytes, rows.iter().copied()),
            Record::Leaf { inserted, deleted, values, .. } => {
                bytes.extend_from_slice(&inserted.to_le_bytes());
                bytes.extend_from_slice(&deleted.to_le_bytes());
                bytes.extend_from_slice(values);
            }
            Record::Row { value: Some(row), .. } => {
                bytes.extend_from_slice(&(row.len() as u32).to_le_bytes());
                bytes.extend_from_slice(row);
            }
            _ => {}
        }
    }

    /// Decodes the first record of `bytes`, and returns the rest. `None` if it is cut off or not a
    /// record's. Redo verifies what the record names.
    pub fn decode(bytes: &'v [u8]) -> Option<(Record<'v>, &'v [u8])> {
        let (head, rest) = bytes.split_first_chunk::<RECORD_BYTES>()?;
        let (words, _) = head.as_chunks::<8>();
        let rid = u64::from_le_bytes(words[0]);
        let word = u64::from_le_bytes(words[1]);
        let tail = u64::from_le_bytes(words[2]);
        let (table, crc) = (tail as u32, (tail >> 32) as u32);
        if word & RECORD_ROW_VALUE == RECORD_ROW_VALUE {
            let (length, rest) = rest.split_first_chunk::<ROW_VALUE_HEAD>()?;
            let (row, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            let (rid, word) = (Rid::from_u64(rid), Word(word & !RECORD_ROW_VALUE));
            return Some((Record::Row { table, rid, word, crc, value: Some(Cow::Borrowed(row)) }, rest));
        }
        if word & RECORD_PAGE != 0 && word & RECORD_DELTA != 0 {
            let place = Word(word & !RECORD_PAGE & !RECORD_DELTA);
            return Some((
                Record::Spilled { table, page: rid & PAGE_MASK, rows: (rid >> 48) as u16, place, crc },
                rest,
            ));
        }
        if word & RECORD_PAGE != 0 && word & RECORD_LEAF != 0 {
            let (slots, rest) = rest.split_first_chunk::<16>()?;
            let [inserted, deleted] =
                [0, 8].map(|at| u64::from_le_bytes(*slots[at..].first_chunk().expect("eight bytes")));
            let length = usize::try_from(word & !RECORD_PAGE & !RECORD_LEAF).ok()?;
            let (values, rest) = rest.split_at_checked(length)?;
            let (place, values) = (Word(rid), Cow::Borrowed(values));
            let is_sound = values.is_empty() || are_values_of(inserted, &values);
            return is_sound.then_some((Record::Leaf { table, place, inserted, deleted, crc, values }, rest));
        }
        if word & RECORD_PAGE != 0 {
            return Some((Record::Page { table, page: rid, rows: word as u32, crc }, rest));
        }
        if word & RECORD_DELTA == 0 {
            return Some((Record::Row { table, rid: Rid::from_u64(rid), word: Word(word), crc, value: None }, rest));
        }
        let (count, bitmap) = ((word & 0xffff) as usize, (word >> 16 & 0xffff) as usize);
        let (bitmap, rest) = rest.split_at_checked(bitmap * 8)?;
        let positions = decode_bitmap(bitmap).filter(|positions| positions.len() == count)?;
        if word & DELTA_DELETED != 0 {
            return Some((Record::Deleted { table, page: rid, rows: positions, crc }, rest));
        }
        let (new_words, rest) = rest.split_at_checked(count * 8)?;
        let new_words = new_words.as_chunks::<8>().0.iter().map(|word| Word(u64::from_le_bytes(*word)));
        Some((Record::Delta { table, page: rid, rows: positions.into_iter().zip(new_words).collect(), crc }, rest))
    }
}

/// Appends a bitmap of ascending `positions`, in whole words, the last of which has a bit set.
pub(super) fn encode_bitmap(bytes: &mut Vec<u8>, positions: impl Iterator<Item = u16>) {
    let at = bytes.len();
    for position in positions {
        bytes.resize(at + (usize::from(position) / 64 + 1) * 8, 0);
        bytes[at + usize::from(position / 8)] |= 1 << (position % 8);
    }
}

/// The positions in a bitmap; `None` if one is too large.
pub(super) fn decode_bitmap(bitmap: &[u8]) -> Option<Vec<u16>> {
    let bits = |byte: &u8| {
        (0..8u32).filter({
            let byte = *byte;
            move |bit| byte >> bit & 1 != 0
        })
    };
    let positions = (0u32..).zip(bitmap).flat_map(|(index, byte)| bits(byte).map(move |bit| index * 8 + bit));
    positions.map(|position| u16::try_from(position).ok()).collect()
}

/// Contribution of a row's checksum to the folded checksum of its bulk page, the XOR over all rows:
/// order does not matter, and folding a row a second time takes it out.
pub fn fold_row(row: u64, crc: u32) -> u64 {
    (u64::from(crc) << 32 | (row & 0xffff_ffff)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The checksum of a bulk page: over the page's words and the folded checksums of its versions.
pub fn page_crc(words: &[u8], folded: u64) -> u32 {
    crc32c_append(crc32c(words), &folded.to_le_bytes())
}

/// The checksum of a delta record: over the folded checksums of the versions that its words name.
pub(crate) fn delta_crc(folded: u64) -> u32 {
    crc32c(&folded.to_le_bytes())
}
