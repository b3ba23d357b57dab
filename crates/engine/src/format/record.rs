//! Redo records: by reference, with the checksum of what they refer to (I6).

use super::word::{Rid, Word};
use crc32c::{crc32c, crc32c_append};

/// Bytes of one redo record.
pub const RECORD_BYTES: usize = 24;
/// Flag in a record's word: the record publishes a directory page (RID field: page number, low word bits: row count).
const RECORD_PAGE: u64 = 1 << 62;

/// A redo record: by reference, with the checksum of what it refers to (I6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Directory word of `rid` becomes `word`, whose version has checksum `crc`.
    Row {
        /// Table id.
        table: u32,
        /// The row.
        rid: Rid,
        /// Its new directory word.
        word: Word,
        /// CRC32C of the version the word names.
        crc: u32,
    },
    /// Directory page `page` with `rows` rows is published; `crc` covers its words and its versions' checksums.
    Page {
        /// Table id.
        table: u32,
        /// Number of the page.
        page: u64,
        /// Rows filled, from its first on.
        rows: u32,
        /// See [`page_crc`].
        crc: u32,
    },
}

impl Record {
    /// The table it belongs to.
    pub fn table(&self) -> u32 {
        match *self {
            Record::Row { table, .. } | Record::Page { table, .. } => table,
        }
    }

    /// The 24 bytes.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let (rid, word, table, crc) = match *self {
            Record::Row { table, rid, word, crc } => (rid.to_u64(), word.0, table, crc),
            Record::Page { table, page, rows, crc } => (page, u64::from(rows) | RECORD_PAGE, table, crc),
        };
        let mut bytes = [0u8; RECORD_BYTES];
        bytes[..8].copy_from_slice(&rid.to_le_bytes());
        bytes[8..16].copy_from_slice(&word.to_le_bytes());
        bytes[16..20].copy_from_slice(&table.to_le_bytes());
        bytes[20..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads one record.
    pub fn decode(bytes: &[u8; RECORD_BYTES]) -> Record {
        let (words, _) = bytes.as_chunks::<8>();
        let rid = u64::from_le_bytes(words[0]);
        let word = u64::from_le_bytes(words[1]);
        let tail = u64::from_le_bytes(words[2]);
        let (table, crc) = (tail as u32, (tail >> 32) as u32);
        if word & RECORD_PAGE != 0 {
            Record::Page { table, page: rid, rows: word as u32, crc }
        } else {
            Record::Row { table, rid: Rid::from_u64(rid), word: Word(word), crc }
        }
    }
}

/// Folds one row's checksum into an extent's sum. Order does not matter, and folding twice removes it again.
pub fn fold_row(row: u64, crc: u32) -> u64 {
    (u64::from(crc) << 32 | (row & 0xffff_ffff)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The checksum of an extent record: over the page's words and the folded checksums of its versions.
pub fn page_crc(words: &[u8], folded: u64) -> u32 {
    crc32c_append(crc32c(words), &folded.to_le_bytes())
}
