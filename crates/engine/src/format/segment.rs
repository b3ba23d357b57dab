//! Segment descriptors: one word for each segment, which says what the segment is used for.

use super::word::PLACE_MASK;
use perdura_pmem::checksum::{crc32c, crc32c_append};

/// The use of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// Free.
    Free,
    /// It holds versions in cells of so many 8-byte units.
    Cells(u32),
    /// It holds pages of the row directory, from the one of this number on.
    Directory(u32),
    /// It holds extents, or parts of them: large versions in whole granules.
    Extents,
    /// It holds leaves of indexes, of so many units of 256 bytes each.
    Leaves(u32),
}

impl SegmentKind {
    /// Encodes the descriptor word: bits 0..4 are the kind, 4..36 the argument, 48..64 a check of
    /// both and of `salt`, in which table, file and index are.
    pub fn encode(self, salt: u64) -> u64 {
        let (kind, argument) = match self {
            SegmentKind::Free => return 0,
            SegmentKind::Cells(units) => (1, units),
            SegmentKind::Directory(page) => (2, page),
            SegmentKind::Extents => (3, 0),
            SegmentKind::Leaves(units) => (4, units),
        };
        let body = kind | u64::from(argument) << 4;
        body | check16(body, salt) << 48
    }

    /// Decodes a descriptor word; `None` if it is damaged.
    pub fn decode(word: u64, salt: u64) -> Option<SegmentKind> {
        if word == 0 {
            return Some(SegmentKind::Free);
        }
        let body = word & PLACE_MASK;
        if check16(body, salt) != word >> 48 {
            return None;
        }
        let argument = u32::try_from(body >> 4).ok()?;
        match body & 15 {
            1 => Some(SegmentKind::Cells(argument)),
            2 => Some(SegmentKind::Directory(argument)),
            3 if argument == 0 => Some(SegmentKind::Extents),
            4 => Some(SegmentKind::Leaves(argument)),
            _ => None,
        }
    }
}

fn check16(body: u64, salt: u64) -> u64 {
    let crc = crc32c_append(crc32c(&body.to_le_bytes()), &salt.to_le_bytes());
    u64::from(crc >> 16 ^ crc & 0xffff)
}
