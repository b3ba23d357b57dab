//! Layout of a lane's content, one for writer and reader: `docs/format.md` draws it under "Log
//! lanes".
//!
//! A group is a header of 32 bytes and a body, at a multiple of 64 bytes. It is valid iff its
//! checksum matches over the generation's salt, its own lane and offset, its body and the rest of
//! its header (I6). Integers are little-endian.

use perdura_pmem::checksum::{crc32c, crc32c_append};
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Commit sequence number: the place of a commit in the order of all, from 1.
pub type Csn = u64;
/// Transaction id, from a transaction's start on, and never given twice in a pool (48 bits).
pub type TxnId = u64;

/// Bytes of a granule: groups begin at its multiples.
pub const GRANULE_BYTES: u64 = 64;
/// Bytes of a group's header.
pub const HEADER_BYTES: usize = size_of::<RawHeader>();
/// Most chunks of a transaction (24 bits).
pub const CHUNKS_MAX: u32 = (1 << 24) - 1;
/// Largest transaction id (48 bits).
pub const TXID_MAX: u64 = (1 << 48) - 1;
/// Lag that claims nothing about durable_csn.
pub(crate) const LAG_UNKNOWN: u16 = u16::MAX;
/// Longest name of a prepared transaction in bytes.
pub const XID_BYTES_MAX: usize = 1024;

/// A group's header as it lies in the lane.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawHeader {
    pub(crate) crc: U32,
    pub(crate) sealed: Sealed,
}

/// Part of the header that its checksum covers: all but the checksum.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Sealed {
    length: U32,
    csn: U64,
    /// Transaction id (lower 48 bits) and lag (upper 16), XORed with the generation's salt.
    ids: U64,
    kind: u8,
    chunks: [u8; 3],
    chained: U32,
}

const _: () = assert!(offset_of!(RawHeader, sealed.length) == 4 && offset_of!(RawHeader, sealed.csn) == 8);
const _: () = assert!(offset_of!(RawHeader, sealed.ids) == 16 && offset_of!(RawHeader, sealed.kind) == 24);
const _: () = assert!(offset_of!(RawHeader, sealed.chunks) == 25 && offset_of!(RawHeader, sealed.chained) == 28);
const _: () = assert!(size_of::<RawHeader>() == 32 && align_of::<RawHeader>() == 1);
const _: () = assert!(HEADER_BYTES < GRANULE_BYTES as usize);

/// Fields before the name in the body of a PREPARE group.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct XidPrefix {
    /// Bytes of the name.
    xid_bytes: U16,
    zeros: [u8; 6],
}

const _: () = assert!(size_of::<XidPrefix>() == 8 && align_of::<XidPrefix>() == 1);

/// Kind of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A transaction committed; the body ends its redo.
    Commit = 1,
    /// A part of a transaction's redo; counts only if an ending names it.
    Chunk = 2,
    /// A transaction can commit at any time; the body is its name and the end of its redo.
    Prepare = 3,
    /// A prepared transaction committed.
    CommitPrepared = 4,
    /// A prepared transaction was rolled back.
    Rollback = 5,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Commit,
            2 => Kind::Chunk,
            3 => Kind::Prepare,
            4 => Kind::CommitPrepared,
            5 => Kind::Rollback,
            _ => return None,
        })
    }

    /// Whether the group carries a CSN.
    pub fn is_commit(self) -> bool {
        matches!(self, Kind::Commit | Kind::CommitPrepared)
    }
}

/// A group's header without its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of header and body, without padding.
    pub length: u32,
    /// CSN, 0 unless the kind is a commit.
    pub csn: u64,
    /// Transaction id (48 bits).
    pub txid: u64,
    /// Commits: CSN less durable_csn when it was taken, or all ones. Proves that durable_csn had
    /// come that far.
    pub lag: u16,
    /// Kind of the group.
    pub kind: Kind,
    /// Chunks of the transaction; in a chunk: how many came before it (24 bits).
    pub chunks: u32,
    /// CRC32C of the bodies of the transaction's chunks so far, this one's included, in order.
    pub chained: u32,
}

impl Header {
    /// Encodes the part that the checksum will cover, under a generation's salt.
    pub(crate) fn encode(&self, salt: u64) -> Sealed {
        let [chunks @ .., _] = self.chunks.to_le_bytes();
        Sealed {
            length: U32::new(self.length),
            csn: U64::new(self.csn),
            ids: U64::new(salt ^ (self.txid | u64::from(self.lag) << 48)),
            kind: self.kind as u8,
            chunks,
            chained: U32::new(self.chained),
        }
    }

    /// Reads what follows the checksum; `None` if it cannot be the header of a transaction below
    /// `txid_limit`.
    ///
    /// The salt masks the transaction's id: this rejects most leftovers of an earlier activation,
    /// and user bytes that look like headers, without computing a checksum.
    #[inline]
    pub(crate) fn decode(sealed: &Sealed, salt: u64, txid_limit: u64) -> Option<Header> {
        let kind = Kind::of(sealed.kind)?;
        let ids = sealed.ids.get() ^ salt;
        let [low, middle, high] = sealed.chunks;
        let header = Header {
            length: sealed.length.get(),
            csn: sealed.csn.get(),
            txid: ids & TXID_MAX,
            lag: (ids >> 48) as u16,
            kind,
            chunks: u32::from_le_bytes([low, middle, high, 0]),
            chained: sealed.chained.get(),
        };
        let sane = header.length as usize >= HEADER_BYTES && kind.is_commit() == (header.csn != 0);
        (sane && header.txid < txid_limit).then_some(header)
    }

    /// Bytes of the body.
    pub fn body_bytes(&self) -> u64 {
        u64::from(self.length) - HEADER_BYTES as u64
    }
}

/// Bytes a group with a body of `body_bytes` takes in a lane.
#[inline]
pub fn group_bytes(body_bytes: usize) -> u64 {
    (HEADER_BYTES as u64 + body_bytes as u64).next_multiple_of(GRANULE_BYTES)
}

/// Checksum of a body at its place: the first part of a group's checksum.
#[inline]
pub(crate) fn body_checksum(salt: u64, lane: u32, offset: u64, body: &[u8]) -> u32 {
    let place = [U64::new(salt), U64::new(u64::from(lane) << 48 | offset)];
    crc32c_append(crc32c(place.as_bytes()), body)
}

/// A group's checksum from that of its body.
#[inline]
pub(crate) fn group_checksum(body_checksum: u32, header: &Sealed) -> u32 {
    crc32c_append(body_checksum, header.as_bytes())
}

/// Name of the file of a lane.
pub fn lane_name(generation: u32, lane: u32) -> String {
    format!("log.{generation:03}.{lane:02}")
}

/// Parses the name of a lane's file into generation and lane.
pub fn parse_lane_name(name: &str) -> Option<(u32, u32)> {
    let (generation, lane) = name.strip_prefix("log.")?.split_once('.')?;
    let (number, index) = (generation.parse().ok()?, lane.parse().ok()?);
    (lane_name(number, index) == name).then_some((number, index))
}

/// Bytes that precede the redo in the body of a PREPARE group with a name of `xid_bytes`.
pub(crate) fn xid_area_bytes(xid_bytes: usize) -> usize {
    size_of::<XidPrefix>() + xid_bytes.next_multiple_of(8)
}

/// Body of a PREPARE group.
pub(crate) fn prepare_body(xid: &[u8], redo: &[u8]) -> Vec<u8> {
    let prefix = XidPrefix { xid_bytes: U16::new(xid.len() as u16), zeros: [0; 6] };
    let mut body = Vec::with_capacity(xid_area_bytes(xid.len()) + redo.len());
    body.extend_from_slice(prefix.as_bytes());
    body.extend_from_slice(xid);
    body.resize(xid_area_bytes(xid.len()), 0);
    body.extend_from_slice(redo);
    body
}

/// Name, and where the redo begins, in the body of a PREPARE group; `None` if it cannot be one.
pub(crate) fn parse_prepare_body(body: &[u8]) -> Option<(&[u8], usize)> {
    let (prefix, rest) = XidPrefix::ref_from_prefix(body).ok()?;
    let xid_bytes = usize::from(prefix.xid_bytes.get());
    let area = xid_area_bytes(xid_bytes);
    (xid_bytes <= XID_BYTES_MAX && area <= body.len()).then(|| (&rest[..xid_bytes], area))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn a_header_is_read_as_written() {
        let header = Header {
            length: 56,
            csn: u64::MAX,
            txid: TXID_MAX,
            lag: 3,
            kind: Kind::CommitPrepared,
            chunks: CHUNKS_MAX,
            chained: 0xdead_beef,
        };
        assert_eq!(Header::decode(&header.encode(5), 5, TXID_MAX + 1), Some(header));
        assert_eq!(Header::decode(&header.encode(5), 5, TXID_MAX), None, "an id that was never given");
        let chunk = Header { csn: 0, lag: 0, kind: Kind::Chunk, chunks: 0, ..header };
        assert_eq!(Header::decode(&chunk.encode(u64::MAX), u64::MAX, TXID_MAX + 1), Some(chunk));
    }

    #[test]
    fn zeroes_and_contradictions_are_no_header() {
        assert_eq!(Header::decode(&RawHeader::new_zeroed().sealed, 0, 1), None);
        let header = Header { length: 32, csn: 0, txid: 1, lag: 0, kind: Kind::Commit, chunks: 0, chained: 0 };
        assert_eq!(Header::decode(&header.encode(0), 0, 9), None, "a commit without a CSN");
        let short = Header { length: 31, csn: 1, ..header };
        assert_eq!(Header::decode(&short.encode(0), 0, 9), None);
    }

    #[test]
    fn the_checksum_is_one_run_over_salt_place_body_and_header() {
        let header = Header { length: 37, csn: 9, txid: 4, lag: 1, kind: Kind::Commit, chunks: 0, chained: 0 };
        let mut bytes = 77u64.to_le_bytes().to_vec();
        bytes.extend_from_slice(&(3u64 << 48 | 128).to_le_bytes());
        bytes.extend_from_slice(b"hello");
        bytes.extend_from_slice(header.encode(77).as_bytes());
        assert_eq!(group_checksum(body_checksum(77, 3, 128, b"hello"), &header.encode(77)), ::crc32c::crc32c(&bytes));
    }

    #[test]
    fn lane_names_are_read_strictly() {
        assert_eq!(lane_name(12, 3), "log.012.03");
        assert_eq!(parse_lane_name("log.012.03"), Some((12, 3)));
        for other in ["log.12.3", "log.012", "super", "log.0x1.00", "log.+12.03"] {
            assert_eq!(parse_lane_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_prepare_body_holds_any_name() {
        for xid in [&b""[..], b"x", b"12345678", &[7; 140]] {
            let body = prepare_body(xid, b"redo");
            let (seen, at) = parse_prepare_body(&body).expect("a prepare body");
            assert_eq!((seen, &body[at..]), (xid, &b"redo"[..]));
        }
        assert_eq!(parse_prepare_body(&[]), None);
        assert_eq!(parse_prepare_body(&[200, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
