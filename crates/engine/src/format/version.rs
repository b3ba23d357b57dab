//! Versions: a header of 32 bytes, then the row.

use super::word::{Rid, Word};
use crc32c::{crc32c, crc32c_append};

/// Size of a version's header, in bytes.
pub const VERSION_HEADER: u64 = 32;
/// Bit of a csn word that is set until a commit stamps the version. The other bits are then the write sequence,
/// afterwards the CSN.
pub const PENDING: u64 = 1 << 63;
const META_TOMBSTONE: u32 = 1 << 31;
/// Size of the longest row, in bytes.
pub const ROW_BYTES_MAX: u64 = (1 << 31) - 1;

/// The header of a version, without its csn word, which changes once, when a commit stamps the version.
///
/// A version is valid iff the CRC32C over prev, rid, meta and the row matches. It is live iff the directory word of
/// `rid` names its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionHeader {
    /// The version that this one replaced, for older snapshots of the running server. It means nothing after a restart.
    pub prev: Word,
    /// RID of the row.
    pub rid: Rid,
    /// Length of the row, in bytes.
    pub len: u32,
    /// The version deletes the row.
    pub tombstone: bool,
    /// CRC32C of header and row.
    pub crc: u32,
}

impl VersionHeader {
    /// A header, with its checksum, for a version that holds `row`.
    pub fn new(prev: Word, rid: Rid, row: &[u8], tombstone: bool) -> VersionHeader {
        let mut header = VersionHeader { prev, rid, len: row.len() as u32, tombstone, crc: 0 };
        header.crc = header.checksum(row);
        header
    }

    /// The checksum that the header must carry for `row`.
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

    /// Encodes the header with its csn word: pending, with write sequence `sequence`.
    pub fn encode(&self, sequence: u64) -> [u8; 32] {
        let mut bytes = [0u8; 32];
        bytes[..8].copy_from_slice(&(PENDING | sequence).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.prev.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.rid.to_u64().to_le_bytes());
        bytes[24..28].copy_from_slice(&self.meta().to_le_bytes());
        bytes[28..].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    /// Decodes the three words that follow the csn word. Any words are accepted; the checksum decides.
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
