//! Segment descriptors: one word each, which says what the segment is used for.

use super::word::PLACE_MASK;
use crc32c::{crc32c, crc32c_append};

/// What a segment is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// Nothing.
    Free,
    /// Versions in cells of so many 16-byte units.
    Cells(u32),
    /// The row directory's segment of this number.
    Directory(u32),
    /// First of the so many segments of an extent, which holds one version.
    Extent(u32),
    /// Later segment of an extent; how many segments after the first.
    ExtentTail(u32),
}

impl SegmentKind {
    /// The descriptor word: kind in bits 0..4, argument 4..36, check of word, table, file and index in 48..64.
    pub fn encode(self, salt: u64) -> u64 {
        let (kind, argument) = match self {
            SegmentKind::Free => return 0,
            SegmentKind::Cells(units) => (1, units),
            SegmentKind::Directory(number) => (2, number),
            SegmentKind::Extent(count) => (3, count),
            SegmentKind::ExtentTail(index) => (4, index),
        };
        let body = kind | u64::from(argument) << 4;
        body | check16(body, salt) << 48
    }

    /// Reads a descriptor word; `None` if damaged.
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
            3 => Some(SegmentKind::Extent(argument)),
            4 => Some(SegmentKind::ExtentTail(argument)),
            _ => None,
        }
    }
}

fn check16(body: u64, salt: u64) -> u64 {
    let crc = crc32c_append(crc32c(&body.to_le_bytes()), &salt.to_le_bytes());
    u64::from(crc >> 16 ^ crc & 0xffff)
}
