//! Versions: a header of 16 bytes, then the row.

use super::word::Rid;
use perdura_pmem::checksum::{crc32c, crc32c_append};

/// Size of a version's header, in bytes.
pub const VERSION_HEADER: u64 = 16;
/// Size of the longest row, in bytes.
pub const ROW_BYTES_MAX: u64 = (1 << 31) - 1;

/// The header of a version.
///
/// A version is valid iff the CRC32C over RID, length and row matches. It is live iff the directory
/// word of `rid` names its cell. It never changes: who sees it is known to the shadow of its page
/// alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionHeader {
    /// RID of the row.
    pub rid: Rid,
    /// Length of the row, in bytes.
    pub len: u32,
    /// CRC32C of RID, length and row.
    pub crc: u32,
}

impl VersionHeader {
    /// A header, with its checksum, for a version that holds `row`.
    pub fn new(rid: Rid, row: &[u8]) -> VersionHeader {
        let mut header = VersionHeader { rid, len: row.len() as u32, crc: 0 };
        header.crc = header.checksum(row);
        header
    }

    /// The checksum that the header must carry for `row`.
    #[inline]
    pub fn checksum(&self, row: &[u8]) -> u32 {
        crc32c_append(crc32c(&self.encode()[..12]), row)
    }

    /// Encodes the header.
    #[inline]
    pub fn encode(&self) -> [u8; VERSION_HEADER as usize] {
        let mut bytes = [0u8; VERSION_HEADER as usize];
        bytes[..8].copy_from_slice(&self.rid.to_u64().to_le_bytes());
        bytes[8..12].copy_from_slice(&self.len.to_le_bytes());
        bytes[12..].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    /// Decodes the two words of a header. Any words are accepted; the checksum decides.
    pub fn decode(rid: u64, len_crc: u64) -> VersionHeader {
        VersionHeader { rid: Rid::from_u64(rid), len: len_crc as u32, crc: (len_crc >> 32) as u32 }
    }
}
