//! Redo records. A record is by reference: it names what was written, and carries the checksum of that (I6).

use super::word::{Rid, Word};
use crc32c::{crc32c, crc32c_append};

/// Size of a redo record, in bytes.
pub const RECORD_BYTES: usize = 24;
/// Flag in a record's word: the record publishes a directory page (RID field: page number, low word bits: row count).
const RECORD_PAGE: u64 = 1 << 62;

/// A redo record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
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
    },
    /// Publishes the bulk page `page` with `rows` rows; `crc` covers its words and the checksums of its versions.
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
}

impl Record {
    /// Id of the table that the record changes.
    pub fn table(&self) -> u32 {
        match *self {
            Record::Row { table, .. } | Record::Page { table, .. } => table,
        }
    }

    /// Encodes the record.
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

    /// Decodes a record. Any bytes are accepted: redo verifies what the record names.
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

/// What a row's checksum contributes to the folded sum of its bulk page, which is the XOR over all rows: order does not
/// matter, and folding a row a second time takes it out.
pub fn fold_row(row: u64, crc: u32) -> u64 {
    (u64::from(crc) << 32 | (row & 0xffff_ffff)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The checksum of a bulk page: over the page's words and the folded checksums of its versions.
pub fn page_crc(words: &[u8], folded: u64) -> u32 {
    crc32c_append(crc32c(words), &folded.to_le_bytes())
}
