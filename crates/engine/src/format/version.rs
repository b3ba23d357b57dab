//! Versions: a header of 32 bytes and the row.

use super::word::{Rid, Word};
use crc32c::{crc32c, crc32c_append};

/// Bytes of a version's header, before the row.
pub const VERSION_HEADER: u64 = 32;
/// Set in a version's csn word until its transaction publishes it; the other bits are the write sequence.
pub const PENDING: u64 = 1 << 63;
const META_TOMBSTONE: u32 = 1 << 31;
/// Longest row image, in bytes.
pub const ROW_BYTES_MAX: u64 = (1 << 31) - 1;

/// The header of a version without its csn word (which changes once, when the version is published).
///
/// Valid iff the CRC32C over prev, rid, meta and the row matches; live iff the directory word of `rid` names its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionHeader {
    /// The version this one replaced, for older snapshots of the running server. Meaningless after a restart.
    pub prev: Word,
    /// The row it belongs to.
    pub rid: Rid,
    /// Row length in bytes.
    pub len: u32,
    /// A deletion.
    pub tombstone: bool,
    /// CRC32C.
    pub crc: u32,
}

impl VersionHeader {
    /// A header for `row`, with its checksum.
    pub fn new(prev: Word, rid: Rid, row: &[u8], tombstone: bool) -> VersionHeader {
        let mut header = VersionHeader { prev, rid, len: row.len() as u32, tombstone, crc: 0 };
        header.crc = header.checksum(row);
        header
    }

    /// The checksum the header should carry for `row`.
    pub fn checksum(&self, row: &[u8]) -> u32 {
        let mut head = [0u8; 20];
        head[..8].copy_from_slice(&self.prev.0.to_le_bytes());
        head[8..16].copy_from_slice(&self.rid.to_u64().to_le_bytes());
        head[16..].copy_from_slice(&self.meta().to_le_bytes());
        crc32c_append(crc32c(&head), row)
    }

    fn meta(&self) -> u32 {
        self.len | if self.tombstone { META_TOMBSTONE } else { 0 }
    }

    /// The 32 bytes, pending with write sequence `sequence`.
    pub fn encode(&self, sequence: u64) -> [u8; 32] {
        let mut bytes = [0u8; 32];
        bytes[..8].copy_from_slice(&(PENDING | sequence).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.prev.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.rid.to_u64().to_le_bytes());
        bytes[24..28].copy_from_slice(&self.meta().to_le_bytes());
        bytes[28..].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    /// From the three words that follow the csn word.
    pub fn decode(prev: u64, rid: u64, meta_crc: u64) -> VersionHeader {
        let meta = meta_crc as u32;
        VersionHeader {
            prev: Word(prev),
            rid: Rid::from_u64(rid),
            len: meta & !META_TOMBSTONE,
            tombstone: meta & META_TOMBSTONE != 0,
            crc: (meta_crc >> 32) as u32,
        }
    }
}
