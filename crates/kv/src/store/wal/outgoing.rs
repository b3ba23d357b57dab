//! A state that is given away, and one that is received.
//!
//! The stream has the base, the pairs, and the base once more as the end, as items (item.rs), cut
//! into chunks anywhere. A chunk has its number in 4 bytes, CRC32C of that and the rest, and the
//! rest.

use std::collections::{BTreeMap, VecDeque};

use bytes::{BufMut, Bytes, BytesMut};
use perdura_map::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use raft::eraftpb::SnapshotMetadata;

use super::super::Outgoing;
use super::super::error::{Error, ErrorKind, Result};
use super::super::ring::Base;
use super::item::{Item, put_pair};
use super::pairs::weight;
use super::pairs::{Frozen, Walked};
use crate::codec::Reader;

/// Chunks that can be asked for again, besides the first.
const AGAIN_MAX: usize = 8;
const HEADER_BYTES: usize = 8;
/// Most bytes of an item: of a pair.
const ITEM_BYTES_MAX: usize = 9 + KEY_BYTES_MAX + VALUE_BYTES_MAX;

fn checksum(number: u32, content: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), content)
}

/// Keys that one chunk looks at, at most. So many may have come since the snapshot was taken, and
/// belong to none.
const LOOKS_MAX: usize = 1 << 14;

/// A state that is given away. It shares keys and values with the store.
pub(super) struct OfState {
    base: Base,
    pairs: Frozen,
    metadata: SnapshotMetadata,
    chunk_bytes: usize,
    /// The latest chunks, and whether each is the last.
    latest: VecDeque<(u32, Bytes, bool)>,
    /// Number of the next chunk that was not made yet.
    next: u32,
    /// Items that are made and not in a chunk.
    made: BytesMut,
    /// The last key that was looked at.
    key: Option<Bytes>,
    is_made: bool,
}

impl OfState {
    pub(super) fn new(base: Base, pairs: Frozen, metadata: SnapshotMetadata, chunk_bytes: usize) -> Self {
        let (latest, made) = (VecDeque::new(), BytesMut::new());
        Self {
            base,
            pairs,
            metadata,
            chunk_bytes: chunk_bytes.max(64),
            latest,
            next: 0,
            made,
            key: None,
            is_made: false,
        }
    }

    /// Makes the next chunk. `None` if the snapshot has expired.
    fn make(&mut self) -> Option<(u32, Bytes, bool)> {
        if self.next == 0 {
            Item::Base(self.base).put(&mut self.made);
        }
        let room = self.chunk_bytes - HEADER_BYTES;
        if self.made.len() < room && !self.is_made {
            let made = &mut self.made;
            let walked = self.pairs.walk(self.key.as_ref(), LOOKS_MAX, &mut |key, value| {
                put_pair(key, value, made);
                made.len() < room
            });
            match walked {
                Walked::To(key) => self.key = Some(key),
                Walked::All => {
                    Item::End(self.base.index).put(&mut self.made);
                    self.is_made = true;
                }
                Walked::Expired => return None,
            }
        }
        let content = self.made.split_to(room.min(self.made.len()));
        let mut chunk = BytesMut::with_capacity(HEADER_BYTES + content.len());
        chunk.put_u32_le(self.next);
        chunk.put_u32_le(checksum(self.next, &content));
        chunk.put_slice(&content);
        self.next += 1;
        Some((self.next - 1, chunk.freeze(), self.is_made && self.made.is_empty()))
    }
}

impl Outgoing for OfState {
    fn metadata(&self) -> &SnapshotMetadata {
        &self.metadata
    }

    fn chunk(&mut self, number: u32) -> Result<(Bytes, bool)> {
        if let Some((_, chunk, is_last)) = self.latest.iter().find(|(of, ..)| *of == number) {
            return Ok((chunk.clone(), *is_last));
        }
        if number == 0 {
            self.latest.clear();
            self.made.clear();
            (self.next, self.key, self.is_made) = (0, None, false);
        } else if number != self.next || self.is_made && self.made.is_empty() {
            return Err(Error::new(
                ErrorKind::Expired,
                format!("chunk {number} of a snapshot is not at hand; begin with the first"),
            ));
        }
        let what = "a snapshot has ended: too many keys have come since it was taken";
        let made = self.make().ok_or_else(|| Error::new(ErrorKind::Expired, what))?;
        if self.latest.len() == AGAIN_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back(made.clone());
        Ok((made.1, made.2))
    }
}

/// A state that is received: what has come so far.
#[derive(Default)]
pub(super) struct Parser {
    next: u32,
    /// The beginning of an item.
    rest: BytesMut,
    base: Option<Base>,
    pairs: BTreeMap<Bytes, Bytes>,
    /// Bytes of DRAM that the pairs take.
    bytes: u64,
    end: Option<u64>,
}

impl Parser {
    /// Takes the next chunk, or says what is wrong.
    pub(super) fn push(&mut self, number: u32, chunk: &[u8]) -> std::result::Result<(), String> {
        let Some((header, content)) = chunk.split_first_chunk::<HEADER_BYTES>() else {
            return Err(format!("a chunk of {} bytes", chunk.len()));
        };
        let [found, sum] = [0, 4].map(|at| u32::from_le_bytes(*header[at..].first_chunk().expect("four bytes")));
        if number != self.next || found != number || sum != checksum(number, content) {
            return Err(format!("chunk {number} is not what was sent as chunk {}", self.next));
        }
        self.next += 1;
        self.rest.extend_from_slice(content);
        let whole = std::mem::take(&mut self.rest).freeze();
        let mut reader = Reader::new(whole.clone());
        loop {
            let left = reader.left();
            match (left, Item::get(&mut reader)) {
                (0, _) => return Ok(()),
                (_, Ok(item)) => self.item(item)?,
                (left, Err(_)) if left < ITEM_BYTES_MAX => {
                    self.rest.extend_from_slice(&whole[whole.len() - left..]);
                    return Ok(());
                }
                (_, Err(malformed)) => return Err(malformed.to_string()),
            }
        }
    }

    fn item(&mut self, item: Item) -> std::result::Result<(), String> {
        match item {
            Item::Base(base) if self.base.is_none() => self.base = Some(base),
            Item::Pair(key, value) if self.base.is_some() && self.end.is_none() => {
                // Of their own, so that they do not hold whole chunks.
                let own = |bytes: Bytes| Bytes::copy_from_slice(&bytes);
                self.bytes += weight(&key, &value);
                if let Some(before) = self.pairs.insert(own(key.clone()), own(value)) {
                    self.bytes -= weight(&key, &before);
                }
            }
            Item::End(index) if self.base.is_some_and(|base| base.index == index) => self.end = Some(index),
            _ => return Err("an item that does not follow the one before".into()),
        }
        Ok(())
    }

    /// Pairs taken so far.
    pub(super) fn into_pairs(self) -> BTreeMap<Bytes, Bytes> {
        self.pairs
    }

    /// The whole and what its pairs weigh, or what is missing.
    pub(super) fn finish(self) -> std::result::Result<(Base, BTreeMap<Bytes, Bytes>, u64), String> {
        match (self.base, self.end) {
            (Some(base), Some(_)) if self.rest.is_empty() => Ok((base, self.pairs, self.bytes)),
            _ => Err("it is not whole".into()),
        }
    }
}
