//! Data files: their names, their header, and the places of descriptors and segments.
//!
//! A file is valid iff magic, version, pool, table, sequence, sizes and CRC32C of its header are
//! what the pool expects. Each file has a size of segments of its own: small files have small
//! segments. The checksum does not cover the link word, which changes as the next file of the chain
//! comes and goes.

use super::geometry::{FORMAT_VERSION, SEGMENT_BYTES_MIN};
use super::word::Word;
use perdura_pmem::checksum::crc32c;
use std::mem::offset_of;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const MAGIC: [u8; 8] = *b"PRDDATA1";
/// Value that the link word of a file is combined with, by exclusive or, if the file has a
/// successor.
const LINKED: u64 = u64::from_le_bytes(*b"PRDLINK1");
/// Offset of the link word in a data file, in bytes.
pub(crate) const LINK_AT: u64 = size_of::<FileHeader>() as u64;
/// Offset of the first segment descriptor, in bytes.
const DESCRIPTORS_AT: u64 = 128;
/// Size of the smallest data file, in bytes: it has three small segments, one each for directory,
/// rows and tombstones.
pub(crate) const FILE_BYTES_MIN: u64 = bytes_for_segments(3, SEGMENT_BYTES_MIN);

/// The link word of a data file: whether the file has a successor, and the incarnation that the
/// words of new directory pages begin with.
///
/// That incarnation is 0 until files are given back. It is kept like that of an empty directory
/// word, whose parity sees to it that no flipped bit turns a link word into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The next file of the chain exists.
    pub has_next: bool,
    /// Incarnation of the words of new directory pages; 0 if a file before this one, or none, has
    /// it.
    pub incarnation: u16,
}

impl Link {
    /// The link as one word.
    pub(crate) fn encode(self) -> u64 {
        Word::empty(self.incarnation).0 ^ if self.has_next { LINKED } else { 0 }
    }

    /// The link in a word; `None` if the engine cannot have written it.
    pub(crate) fn decode(word: u64) -> Option<Link> {
        [(word, false), (word ^ LINKED, true)].into_iter().find_map(|(word, has_next)| {
            let incarnation = Word(word).incarnation();
            (word == Word::empty(incarnation).0).then_some(Link { has_next, incarnation })
        })
    }
}

/// Name of data file `sequence` of table `table`.
pub(crate) fn data_file_name(table: u32, sequence: u32) -> String {
    format!("t.{table:08x}.{sequence:05x}")
}

/// Table and sequence number in the name of a data file; `None` for any other name.
pub(crate) fn parse_data_file_name(name: &str) -> Option<(u32, u32)> {
    let rest = name.strip_prefix("t.")?;
    let (table, sequence) = rest.split_once('.')?;
    let parsed = (u32::from_str_radix(table, 16).ok()?, u32::from_str_radix(sequence, 16).ok()?);
    (data_file_name(parsed.0, parsed.1) == name).then_some(parsed)
}

/// Which file of which table of which pool a data file is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileIdentity {
    /// Id of the pool.
    pub pool: [u8; 16],
    /// Table id.
    pub table: u32,
    /// Position in the table's chain, from 0.
    pub sequence: u32,
}

impl FileIdentity {
    /// The name that a file of this identity has.
    pub(crate) fn name(&self) -> String {
        data_file_name(self.table, self.sequence)
    }
}

/// The header of a data file, written once, at its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(crate) struct FileHeader {
    magic: [u8; 8],
    version: U32,
    segment_bytes: U32,
    pool: [u8; 16],
    table: U32,
    sequence: U32,
    bytes: U64,
    segments: U64,
    crc: U32,
    zero: U32,
}

const _: () = assert!(offset_of!(FileHeader, version) == 8 && offset_of!(FileHeader, segment_bytes) == 12);
const _: () = assert!(offset_of!(FileHeader, pool) == 16 && offset_of!(FileHeader, table) == 32);
const _: () = assert!(offset_of!(FileHeader, sequence) == 36 && offset_of!(FileHeader, bytes) == 40);
const _: () = assert!(offset_of!(FileHeader, segments) == 48 && offset_of!(FileHeader, crc) == 56);
const _: () = assert!(size_of::<FileHeader>() == 64 && align_of::<FileHeader>() == 1);
const _: () = assert!(LINK_AT + 8 <= DESCRIPTORS_AT);

/// Why a header was refused.
pub(crate) enum HeaderFault {
    /// The bytes at this offset are wrong, as the message says.
    Damaged(u64, String),
    /// The header is sound, but of this other format version.
    OtherFormat(u32),
}

impl FileHeader {
    /// The header, with its checksum, of a file of `bytes` bytes with `segments` segments.
    pub(crate) fn new(identity: FileIdentity, bytes: u64, segment_bytes: u64, segments: u64) -> FileHeader {
        let mut header = FileHeader {
            magic: MAGIC,
            version: U32::new(FORMAT_VERSION as u32),
            segment_bytes: U32::new(segment_bytes as u32),
            pool: identity.pool,
            table: U32::new(identity.table),
            sequence: U32::new(identity.sequence),
            bytes: U64::new(bytes),
            segments: U64::new(segments),
            crc: U32::ZERO,
            zero: U32::ZERO,
        };
        header.crc = U32::new(header.checksum());
        header
    }

    fn checksum(&self) -> u32 {
        crc32c(&self.as_bytes()[..offset_of!(FileHeader, crc)])
    }

    /// Checks the header of a file of `bytes` bytes against what the pool expects, whose segments
    /// have at most `segment_bytes_max`. Returns the size of the file's segments and their number.
    pub(crate) fn check(
        &self,
        identity: FileIdentity,
        bytes: u64,
        segment_bytes_max: u64,
    ) -> Result<(u64, u64), HeaderFault> {
        if self.magic != MAGIC {
            let seen = u64::from_le_bytes(self.magic);
            return Err(HeaderFault::Damaged(0, format!("magic number {seen:#x} is not a data file's")));
        }
        if self.crc.get() == self.checksum() && u64::from(self.version.get()) != FORMAT_VERSION {
            return Err(HeaderFault::OtherFormat(self.version.get()));
        }
        let segment_bytes = u64::from(self.segment_bytes.get());
        if !segment_bytes.is_power_of_two() || !(SEGMENT_BYTES_MIN..=segment_bytes_max).contains(&segment_bytes) {
            let what =
                format!("the header says that segments have {segment_bytes} bytes, which no file of this pool has");
            return Err(HeaderFault::Damaged(offset_of!(FileHeader, segment_bytes) as u64, what));
        }
        // Nothing is computed from the header's length unless it is that of the file.
        let said = self.bytes.get();
        let segments = if said == bytes { segments_for_bytes(bytes, segment_bytes) } else { self.segments.get() };
        let expected = FileHeader::new(identity, said, segment_bytes, segments);
        if let Some(at) = self.as_bytes().iter().zip(expected.as_bytes()).position(|(seen, wanted)| seen != wanted) {
            let what = "the header does not match its checksum, table or pool";
            return Err(HeaderFault::Damaged(at as u64, what.to_owned()));
        }
        if said != bytes {
            return Err(HeaderFault::Damaged(bytes, format!("the file has {bytes} bytes, its header says {said}")));
        }
        Ok((segment_bytes, segments))
    }
}

/// Offset of the descriptor of segment `index`, in bytes.
pub(crate) fn descriptor_at(index: u32) -> u64 {
    DESCRIPTORS_AT + u64::from(index) * 8
}

/// Offset of the first segment in a file of `segments` segments, in bytes.
pub(crate) const fn segments_at(segments: u64) -> u64 {
    (DESCRIPTORS_AT + segments * 8).next_multiple_of(4096)
}

/// Size of a file with `segments` segments, in bytes.
pub(crate) const fn bytes_for_segments(segments: u64, segment_bytes: u64) -> u64 {
    segments_at(segments) + segments * segment_bytes
}

/// Number of segments that fit a file of `bytes` bytes.
pub fn segments_for_bytes(bytes: u64, segment_bytes: u64) -> u64 {
    let mut segments = bytes / segment_bytes;
    while segments > 0 && bytes_for_segments(segments, segment_bytes) > bytes {
        segments -= 1;
    }
    segments
}
