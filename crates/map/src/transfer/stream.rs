//! The stream of a snapshot: a header, items and an end, cut into numbered and checksummed chunks.
//!
//! Header: magic, three timestamps, and the newest forgotten tag with its timestamp. Item:
//! timestamp, lengths (that of the key with marks for a deletion and for a tag), key, value. End:
//! an item header of all ones, then the number of items. Chunk: number (4 bytes), length of the
//! content (4), CRC32C of both and the content (4), content. Each CRC32C continues that of the
//! chunk before, so that chunks of two snapshots do not make one. The input is untrusted until
//! checked.

use crate::config::{KEY_BYTES_MAX, TAG_BYTES_MAX, VALUE_BYTES_MAX};
use crate::memory::format::{RecordHeader, bytes_of};
use crate::timestamps::Ts;
use perdura_pmem::checksum::crc32c_append;

const MAGIC: u64 = u64::from_le_bytes(*b"PERDSNP2");
/// Bytes of a chunk before its content.
pub(crate) const FRAME_BYTES: usize = 12;
/// Bytes of a header before the tag.
const HEADER_BYTES: usize = 48;
const ITEM_BYTES: usize = 16;

/// The timestamps at the head of a stream, and the newest forgotten tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) last: Ts,
    pub(crate) applied: Ts,
    pub(crate) forgotten: Ts,
    pub(crate) tag_ts: Ts,
    pub(crate) tag: Vec<u8>,
}

impl Header {
    pub(crate) fn write(&self, target: &mut Vec<u8>) {
        for word in [MAGIC, self.last, self.applied, self.forgotten, self.tag_ts, self.tag.len() as u64] {
            target.extend_from_slice(&word.to_le_bytes());
        }
        target.extend_from_slice(&self.tag);
    }
}

/// Writes a tag's item up to the tag.
pub(crate) fn write_tag(target: &mut Vec<u8>, ts: Ts, tag: &[u8]) {
    let value_bytes = tag.len() as u32;
    write_item(
        target,
        &RecordHeader { ts, deletion: false, tag: true, key_bytes: 0, value_bytes, borne_bytes: None, crc: 0 },
    );
}

/// Writes an item up to its key: the header of its record, without links and checksum. The tag that
/// the record bears is an item of its own.
pub(crate) fn write_item(target: &mut Vec<u8>, header: &RecordHeader) {
    let [.., ts, lengths] = RecordHeader { borne_bytes: None, ..*header }.encode(0, 0);
    target.extend_from_slice(bytes_of(&[ts, lengths]));
}

/// Writes the end of a stream of this number of items.
pub(crate) fn write_end(target: &mut Vec<u8>, items: u64) {
    target.extend_from_slice(&[0xff; ITEM_BYTES]);
    target.extend_from_slice(&items.to_le_bytes());
}

/// Fills in the frame of a chunk, whose content follows the room for it. `before` is the checksum
/// of the chunk before. Returns that of this one.
pub(crate) fn frame(chunk: &mut [u8], number: u32, before: u32) -> u32 {
    let len = (chunk.len() - FRAME_BYTES) as u32;
    chunk[0..4].copy_from_slice(&number.to_le_bytes());
    chunk[4..8].copy_from_slice(&len.to_le_bytes());
    let crc = frame_crc(chunk, before);
    chunk[8..12].copy_from_slice(&crc.to_le_bytes());
    crc
}

fn frame_crc(chunk: &[u8], before: u32) -> u32 {
    crc32c_append(crc32c_append(before, &chunk[..8]), &chunk[FRAME_BYTES..])
}

/// Checks chunk `number`, which follows one with the checksum `before`. Returns its content and
/// checksum, or what is wrong.
pub(crate) fn unframe(chunk: &[u8], number: u32, before: u32) -> Result<(&[u8], u32), String> {
    let word = |at: usize| chunk.get(at..at + 4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")));
    let (Some(found), Some(len), Some(crc)) = (word(0), word(4), word(8)) else {
        return Err(format!("a chunk of {} bytes", chunk.len()));
    };
    if len as usize != chunk.len() - FRAME_BYTES || crc != frame_crc(chunk, before) {
        return Err(format!("chunk {number} is not what was sent"));
    }
    if found != number {
        return Err(format!("chunk {found} came where chunk {number} should"));
    }
    Ok((&chunk[FRAME_BYTES..], crc))
}

/// A complete part of a stream.
pub(crate) enum Part<'a> {
    Header(Header),
    Item { ts: Ts, key: &'a [u8], value: &'a [u8], deletion: bool, tag: bool },
    End { items: u64 },
}

/// Parses a stream that arrives in pieces of any length.
#[derive(Default)]
pub(crate) struct Parser {
    buffer: Vec<u8>,
    has_header: bool,
    is_over: bool,
}

impl Parser {
    /// Takes the next piece and calls `each` with every complete part. Keeps back at most one item,
    /// whose length has been checked.
    pub(crate) fn feed<E: From<String>>(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(Part<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.buffer.extend_from_slice(piece);
        let mut at = 0;
        loop {
            if self.is_over && at < self.buffer.len() {
                return Err(format!("{} bytes after the end", self.buffer.len() - at).into());
            }
            let rest = &self.buffer[at..];
            let Some((used, part)) = self.parse(rest)? else { break };
            match part {
                Part::Header(_) => self.has_header = true,
                Part::End { .. } => self.is_over = true,
                Part::Item { .. } => {}
            }
            each(part)?;
            at += used;
        }
        self.buffer.drain(..at);
        Ok(())
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The first part of `rest` and its length, if the part is complete.
    fn parse<'a>(&self, rest: &'a [u8]) -> Result<Option<(usize, Part<'a>)>, String> {
        let long = |at: usize| u64::from_le_bytes(rest[at..at + 8].try_into().expect("eight bytes"));
        if !self.has_header {
            if rest.len() < HEADER_BYTES {
                return Ok(None);
            }
            if long(0) != MAGIC {
                return Err("this is not a snapshot of a map".into());
            }
            let (last, applied, forgotten, tag_ts) = (long(8), long(16), long(24), long(32));
            if tag_ts > forgotten || forgotten > applied || applied > last || last == Ts::MAX {
                return Err(format!("impossible timestamps: {tag_ts}, {forgotten}, {applied}, {last}"));
            }
            let tag_bytes = long(40);
            if tag_bytes > TAG_BYTES_MAX as u64 || tag_ts == 0 && tag_bytes > 0 {
                return Err(format!("an impossible tag of {tag_bytes} bytes"));
            }
            let end = HEADER_BYTES + tag_bytes as usize;
            let Some(tag) = rest.get(HEADER_BYTES..end) else { return Ok(None) };
            let header = Header { last, applied, forgotten, tag_ts, tag: tag.to_vec() };
            return Ok(Some((end, Part::Header(header))));
        }
        if self.is_over || rest.len() < ITEM_BYTES {
            return Ok(None);
        }
        if rest[..ITEM_BYTES] == [0xff; ITEM_BYTES] {
            let complete = rest.len() >= ITEM_BYTES + 8;
            return Ok(complete.then(|| (ITEM_BYTES + 8, Part::End { items: long(ITEM_BYTES) })));
        }
        let header = RecordHeader::decode([0, long(0), long(8)]);
        let RecordHeader { ts, deletion, tag, key_bytes, value_bytes, .. } = header;
        // Nothing in a stream bears a tag.
        let is_other = header.borne_bytes.is_some() || header.encode(0, 0)[4] != long(8);
        let (key_bytes, value_bytes) = (key_bytes as usize, value_bytes as usize);
        let is_wrong_tag = tag && (deletion || key_bytes > 0 || value_bytes > TAG_BYTES_MAX);
        let is_long = key_bytes > KEY_BYTES_MAX || value_bytes > VALUE_BYTES_MAX;
        if is_other || is_long || is_wrong_tag || ts == 0 || ts == Ts::MAX {
            return Err(format!(
                "an impossible item: timestamp {ts}, key of {key_bytes} bytes, value of {value_bytes}"
            ));
        }
        let end = ITEM_BYTES + key_bytes + value_bytes;
        if rest.len() < end {
            return Ok(None);
        }
        let (key, value) = rest[ITEM_BYTES..end].split_at(key_bytes);
        Ok(Some((end, Part::Item { ts, key, value, deletion, tag })))
    }
}
