//! Bytes of a journal: segments, groups and pieces (docs/format.md, "Journal of a page medium").
//!
//! Everything read here is untrusted until its checksum matches, and its lengths are checked.

use crate::checksum::{crc32c, crc32c_append};

/// Bytes of a block: every write is of whole ones.
pub(super) const BLOCK: usize = 4096;
/// Blocks in front of the groups: the header, twice.
pub(super) const HEADER_BLOCKS: usize = 2;
/// Bytes of a segment.
pub(super) const SEGMENT_BYTES: usize = 16 << 20;
/// Version of the format.
pub(super) const VERSION: u32 = 1;
/// Bytes of a group in front of its pieces.
pub(super) const GROUP_HEAD: usize = 24;
/// Bytes of a piece in front of its content.
pub(super) const PIECE_HEAD: usize = 24;

const MAGIC: [u8; 8] = *b"PRDJRNL1";
const HEADER_BYTES: usize = 48;

/// Header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Of this use of the segment: groups of an earlier one do not match.
    pub(super) salt: u64,
    /// Sequence number of the first group.
    pub(super) first: u64,
}

/// A segment's header as it is found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Valid(Header),
    /// The segment holds nothing that counts.
    Void,
    /// Written by a build with this version of the format.
    Newer(u32),
}

impl Header {
    /// A block with the header in it.
    pub(super) fn encode(&self, block: &mut [u8]) {
        block.fill(0);
        block[..8].copy_from_slice(&MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[12..16].copy_from_slice(&(BLOCK as u32).to_le_bytes());
        block[16..24].copy_from_slice(&self.salt.to_le_bytes());
        block[24..32].copy_from_slice(&self.first.to_le_bytes());
        block[32..40].copy_from_slice(&(SEGMENT_BYTES as u64).to_le_bytes());
        let crc = crc32c(&block[..HEADER_BYTES - 4]);
        block[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
    }

    /// The header in the two blocks at the head of a segment: a write that was cut off leaves one
    /// of them whole, or nothing behind them counts.
    pub(super) fn decode(blocks: &[u8]) -> Found {
        let mut newer = None;
        for block in blocks.chunks_exact(BLOCK).take(HEADER_BLOCKS) {
            let crc = u32::from_le_bytes(array(block, HEADER_BYTES - 4));
            if block[..8] != MAGIC || crc != crc32c(&block[..HEADER_BYTES - 4]) {
                continue;
            }
            let version = u32::from_le_bytes(array(block, 8));
            let shape = (u32::from_le_bytes(array(block, 12)), u64::from_le_bytes(array(block, 32)));
            if version == VERSION && shape == (BLOCK as u32, SEGMENT_BYTES as u64) {
                let (salt, first) = (u64::from_le_bytes(array(block, 16)), u64::from_le_bytes(array(block, 24)));
                return Found::Valid(Header { salt, first });
            }
            newer = Some(version);
        }
        newer.map_or(Found::Void, Found::Newer)
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the slice has that length")
}

/// Fills in the head of a group, which lies at `offset` of a segment with `salt`: `bytes` is the
/// whole group without padding.
pub(super) fn seal(bytes: &mut [u8], salt: u64, offset: u64, sequence: u64, pieces: u32) {
    let len = bytes.len() as u32;
    bytes[4..8].copy_from_slice(&len.to_le_bytes());
    bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
    bytes[16..20].copy_from_slice(&pieces.to_le_bytes());
    bytes[20..24].fill(0);
    let crc = group_crc(bytes, salt, offset);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
}

fn group_crc(bytes: &[u8], salt: u64, offset: u64) -> u32 {
    let crc = crc32c_append(crc32c(&salt.to_le_bytes()), &offset.to_le_bytes());
    crc32c_append(crc, &bytes[4..])
}

/// A group that is valid.
pub(super) struct Group<'a> {
    pub(super) sequence: u64,
    count: u32,
    body: &'a [u8],
    /// Bytes with padding.
    pub(super) padded: usize,
}

impl<'a> Group<'a> {
    /// The group at `offset` of a segment's bytes with `salt`, if one begins there.
    pub(super) fn decode(segment: &'a [u8], offset: usize, salt: u64) -> Option<Group<'a>> {
        let rest = segment.get(offset..)?;
        let head = rest.get(..GROUP_HEAD)?;
        let len = u32::from_le_bytes(array(head, 4)) as usize;
        let bytes = rest.get(..len).filter(|_| len >= GROUP_HEAD)?;
        if u32::from_le_bytes(array(head, 0)) != group_crc(bytes, salt, offset as u64) {
            return None;
        }
        let (sequence, count) = (u64::from_le_bytes(array(head, 8)), u32::from_le_bytes(array(head, 16)));
        Some(Group { sequence, count, body: &bytes[GROUP_HEAD..], padded: len.next_multiple_of(BLOCK) })
    }

    /// Its pieces; `None` in the place of one that does not fit, and of those missing.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Option<Piece<'a>>> {
        let (mut rest, count) = (self.body, self.count);
        (0..count).map(move |_| Piece::take(&mut rest))
    }
}

const NAME: u32 = 1;
const BYTES: u32 = 2;
const ZEROS: u32 = 3;
const VOID: u32 = 4;
const FORGET: u32 = 5;

/// A part of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// File `file` of the pieces behind is the one of this name.
    Name { file: u32, name: &'a str },
    /// Content of a file from `offset` on.
    Bytes { file: u32, offset: u64, bytes: &'a [u8] },
    /// As many zeros.
    Zeros { file: u32, offset: u64, len: u64 },
    /// Pieces of this range in groups below a sequence number no longer count: the file itself has
    /// the content, durably.
    Void { file: u32, offset: u64, len: u64, below: u64 },
    /// No piece of the file of this name before counts, nor of what was mapped under it.
    Forget { name: &'a str },
}

impl<'a> Piece<'a> {
    /// Appends the piece, in whole words.
    pub(super) fn encode(&self, add: &mut impl FnMut(&[u8])) {
        let mut head = |kind: u32, file: u32, offset: u64, len: u64| {
            let mut bytes = [0; PIECE_HEAD];
            bytes[..4].copy_from_slice(&kind.to_le_bytes());
            bytes[4..8].copy_from_slice(&file.to_le_bytes());
            bytes[8..16].copy_from_slice(&offset.to_le_bytes());
            bytes[16..].copy_from_slice(&len.to_le_bytes());
            add(&bytes);
        };
        match *self {
            Piece::Name { file, name } => {
                head(NAME, file, 0, name.len() as u64);
                padded(name.as_bytes(), add);
            }
            Piece::Bytes { file, offset, bytes } => {
                head(BYTES, file, offset, bytes.len() as u64);
                padded(bytes, add);
            }
            Piece::Zeros { file, offset, len } => head(ZEROS, file, offset, len),
            Piece::Void { file, offset, len, below } => {
                head(VOID, file, offset, len);
                add(&below.to_le_bytes());
            }
            Piece::Forget { name } => {
                head(FORGET, 0, 0, name.len() as u64);
                padded(name.as_bytes(), add);
            }
        }
    }

    fn take(rest: &mut &'a [u8]) -> Option<Piece<'a>> {
        let head = rest.split_off(..PIECE_HEAD)?;
        let (kind, file) = (u32::from_le_bytes(array(head, 0)), u32::from_le_bytes(array(head, 4)));
        let (offset, len) = (u64::from_le_bytes(array(head, 8)), u64::from_le_bytes(array(head, 16)));
        offset.checked_add(len)?;
        let mut bytes = || {
            let padded = rest.split_off(..usize::try_from(len).ok()?.checked_next_multiple_of(8)?)?;
            Some(&padded[..len as usize])
        };
        Some(match kind {
            NAME => Piece::Name { file, name: std::str::from_utf8(bytes()?).ok()? },
            FORGET => Piece::Forget { name: std::str::from_utf8(bytes()?).ok()? },
            BYTES => Piece::Bytes { file, offset, bytes: bytes()? },
            ZEROS => Piece::Zeros { file, offset, len },
            VOID => Piece::Void { file, offset, len, below: u64::from_le_bytes(array(rest.split_off(..8)?, 0)) },
            _ => return None,
        })
    }
}

fn padded(bytes: &[u8], add: &mut impl FnMut(&[u8])) {
    add(bytes);
    add(&[0; 8][..bytes.len().next_multiple_of(8) - bytes.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(pieces: &[Piece<'_>], salt: u64, offset: u64, sequence: u64) -> Vec<u8> {
        let mut bytes = vec![0; GROUP_HEAD];
        pieces.iter().for_each(|piece| piece.encode(&mut |part| bytes.extend_from_slice(part)));
        seal(&mut bytes, salt, offset, sequence, pieces.len() as u32);
        bytes
    }

    const PIECES: [Piece<'_>; 5] = [
        Piece::Name { file: 7, name: "t.00000002.00000" },
        Piece::Bytes { file: 7, offset: 64, bytes: &[9; 61] },
        Piece::Zeros { file: 7, offset: 1 << 40, len: 4096 },
        Piece::Void { file: 7, offset: 0, len: 1 << 20, below: 55 },
        Piece::Forget { name: "kept.1" },
    ];

    #[test]
    fn a_group_has_the_pieces_that_were_put_in() {
        let bytes = group(&PIECES, 3, 8192, 56);
        let mut segment = vec![0; 8192];
        segment.extend_from_slice(&bytes);
        let found = Group::decode(&segment, 8192, 3).expect("it is valid");
        assert_eq!((found.sequence, found.padded), (56, BLOCK));
        assert_eq!(found.pieces().collect::<Option<Vec<_>>>().as_deref(), Some(&PIECES[..]));
        assert!(Group::decode(&segment, 8192, 4).is_none(), "of another use of the segment");
        assert!(Group::decode(&segment, 4096, 3).is_none());
        let mut moved = vec![0; 4096];
        moved.extend_from_slice(&bytes);
        assert!(Group::decode(&moved, 4096, 3).is_none(), "the same bytes elsewhere");
    }

    /// Every cut and every flipped bit of a group makes it invalid.
    #[test]
    fn a_torn_or_damaged_group_is_none() {
        let bytes = group(&PIECES, 3, 0, 56);
        for len in 0..bytes.len() {
            assert!(Group::decode(&bytes[..len], 0, 3).is_none(), "cut at {len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Group::decode(&flipped, 0, 3).is_none(), "bit {bit}");
        }
    }

    /// Hazard: a checksum that matches what a broken writer, or a forger, has put together.
    #[test]
    fn pieces_that_do_not_fit_are_none() {
        let forged = [
            (BYTES, 8, u64::MAX),
            (BYTES, u64::MAX, 8),
            (BYTES, 0, 1 << 32),
            (NAME, 0, u64::MAX),
            (NAME, 0, 9),
            (VOID, 0, 8),
            (6, 0, 0),
            (0, 0, 0),
        ];
        for (kind, offset, len) in forged {
            let mut bytes = vec![0; GROUP_HEAD + PIECE_HEAD];
            bytes[GROUP_HEAD..][..4].copy_from_slice(&u32::to_le_bytes(kind));
            bytes[GROUP_HEAD + 8..][..8].copy_from_slice(&u64::to_le_bytes(offset));
            bytes[GROUP_HEAD + 16..][..8].copy_from_slice(&u64::to_le_bytes(len));
            seal(&mut bytes, 0, 0, 1, 1);
            let group = Group::decode(&bytes, 0, 0).expect("the group is sound");
            assert_eq!(group.pieces().collect::<Vec<_>>(), [None], "{kind} {offset} {len}");
        }
        let mut short = vec![0; GROUP_HEAD];
        seal(&mut short, 0, 0, 1, 3);
        let group = Group::decode(&short, 0, 0).expect("the group is sound");
        assert_eq!(group.pieces().filter(Option::is_none).count(), 3, "more pieces said than there are");
    }

    #[test]
    fn a_header_counts_if_one_of_its_copies_is_whole() {
        let header = Header { salt: 11, first: 12 };
        let mut blocks = vec![0; 2 * BLOCK];
        assert_eq!(Header::decode(&blocks), Found::Void);
        header.encode(&mut blocks[..BLOCK]);
        assert_eq!(Header::decode(&blocks), Found::Valid(header));
        blocks[17] ^= 1;
        assert_eq!(Header::decode(&blocks), Found::Void);
        header.encode(&mut blocks[BLOCK..]);
        assert_eq!(Header::decode(&blocks), Found::Valid(header));
        let newer = &mut blocks[BLOCK..];
        newer[8] = 2;
        let crc = crc32c(&newer[..HEADER_BYTES - 4]);
        newer[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Header::decode(&blocks), Found::Newer(2));
    }
}
