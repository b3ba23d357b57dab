//! Snapshots: a persisted state of the map, held in place.
//!
//! A snapshot names a persisted root (B+-tree) or head (list). While it is held, no page is freed,
//! no place of a node that the persist reaches is reused, and the collector waits. Everything
//! else goes on. It owns its share of the map, and may move between threads and outlive the handle
//! that it was taken by. A snapshot with a limit ends by itself when the map's garbage has grown by
//! more; its stream then ends with the error `Expired`.
//!
//! The stream of a B+-tree has the tags first and then the keys in order, each newest first; that
//! of a list is newest first and includes superseded records, so the receiver takes the first of
//! each key and timestamp. A chunk is made under one pin; between chunks nothing is kept but a
//! [`Position`], so that a stream can be broken off and gone on with.

use crate::error::{ErrorKind, Result};
use crate::index::{Index, Walk};
use crate::memory::record::Record;
use crate::state::core::Core;
use crate::state::holds::Hold;
use crate::state::persist::Persisted;
use crate::state::shared::Shared;
use crate::timestamps::Timestamps;
use crate::transfer::stream::{self, FRAME_BYTES, Header};
use perdura_pmem::{Mutant, planted};
use std::fmt;
use std::sync::Arc;

/// Lower bound of a chunk's length, in bytes.
const CHUNK_BYTES_MIN: usize = 64;

/// The map of a snapshot, of either structure.
trait Source: Send + Sync {
    fn chunk(&self, held: &Held, position: &mut Position, bytes_max: usize) -> Result<Vec<u8>>;
    fn release(&self, hold: &Arc<Hold>);
}

struct Held {
    map: Arc<dyn Source>,
    hold: Arc<Hold>,
    persisted: Persisted,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.map.release(&self.hold);
    }
}

/// A map as it was at one moment. Dropping it, and all streams of it, lets the collector go on.
#[derive(Clone)]
pub struct Snapshot {
    held: Arc<Held>,
}

impl<I: Index> Core<I> {
    /// Persists, and holds the persisted state until the map has `garbage_max` bytes of garbage
    /// more.
    pub(crate) fn hold(&self, garbage_max: u64) -> Result<(Arc<Hold>, Persisted)> {
        let mut state = self.state.lock();
        state.check_content(&self.shared)?;
        // Planted: a snapshot is of a state that is not persisted.
        if !planted(Mutant::SnapshotOfUnpersisted) {
            state.persist(&self.shared);
        }
        let garbage = state.garbage();
        let hold = state.holds.add(garbage.saturating_add(garbage_max));
        let persisted = state.persisted(&self.shared);
        Ok((hold, persisted))
    }

    pub(crate) fn release(&self, hold: &Arc<Hold>) {
        self.state.lock().holds.remove(hold);
        self.shared.wake.stir();
    }
}

impl Snapshot {
    pub(crate) fn take<I: Index>(core: &Arc<Core<I>>, garbage_max: u64) -> Result<Snapshot> {
        let (hold, persisted) = core.hold(garbage_max)?;
        Ok(Snapshot { held: Arc::new(Held { map: core.clone(), hold, persisted }) })
    }

    /// The map's timestamps at the moment of the snapshot.
    pub fn timestamps(&self) -> Timestamps {
        self.held.persisted.times
    }

    /// Whether the snapshot has ended because it held more garbage than its limit.
    pub fn has_expired(&self) -> bool {
        self.held.hold.has_ended()
    }

    /// Streams the whole snapshot in chunks of at most `bytes_max` bytes (at least 64). Each call
    /// begins a new stream.
    pub fn chunks(&self, bytes_max: usize) -> Chunks {
        self.resume(&Position::default(), bytes_max)
    }

    /// Goes on with a stream of this snapshot where [`Chunks::position`] was taken.
    pub fn resume(&self, position: &Position, bytes_max: usize) -> Chunks {
        let bytes_max = bytes_max.max(CHUNK_BYTES_MIN);
        Chunks { held: self.held.clone(), bytes_max, position: position.clone() }
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("timestamps", &self.timestamps()).finish_non_exhaustive()
    }
}

/// Progress of a stream: between two of its chunks. It means something to its snapshot only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    number: u32,
    /// Checksum of the last chunk.
    crc: u32,
    items: u64,
    at: At,
    /// Bytes of the part there that are in chunks.
    sent: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Header,
    /// B+-tree: before the tags, or at one of them; how many records of the chain are left with it.
    Tags(u64, u64),
    /// List: a record of the chain, by offset.
    Chain(u64),
    /// List: the tag that a record of the chain bears.
    Borne(u64),
    /// B+-tree: a version of a key, by offset. 0: all versions of the key are sent; with no key,
    /// nothing is.
    Version(Option<Vec<u8>>, u64),
    End,
    Over,
}

/// The chunks of a snapshot, in order. After an error or the end there are none.
pub struct Chunks {
    held: Arc<Held>,
    bytes_max: usize,
    position: Position,
}

impl Chunks {
    /// Whether the last chunk was given.
    pub fn is_over(&self) -> bool {
        self.position.at == At::Over
    }

    /// Position of the stream: after the last chunk that it gave.
    pub fn position(&self) -> Position {
        self.position.clone()
    }
}

impl Iterator for Chunks {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        if self.position.at == At::Over {
            return None;
        }
        let found = self.held.map.chunk(&self.held, &mut self.position, self.bytes_max);
        if found.is_err() {
            self.position.at = At::Over;
        }
        Some(found)
    }
}

impl<I: Index> Source for Core<I> {
    fn chunk(&self, held: &Held, position: &mut Position, bytes_max: usize) -> Result<Vec<u8>> {
        self.shared.chunk(held, position, bytes_max)
    }

    fn release(&self, hold: &Arc<Hold>) {
        Core::release(self, hold);
    }
}

impl<I: Index> Shared<I> {
    /// The next chunk of a stream, from a position on.
    fn chunk(&self, held: &Held, position: &mut Position, bytes_max: usize) -> Result<Vec<u8>> {
        let _pin = self.pins.pin();
        self.check_held(held)?;
        let mut chunk = vec![0; FRAME_BYTES];
        let mut walk = None;
        while position.at != At::Over && self.send(held, position, bytes_max, &mut chunk)? {
            position.sent = 0;
            position.at = self.after(&held.persisted, &position.at, &mut walk)?;
            position.items += u64::from(!matches!(position.at, At::End | At::Over));
        }
        // If the hold ended meanwhile, the collector may have been there.
        self.check_held(held)?;
        position.crc = stream::frame(&mut chunk, position.number, position.crc);
        position.number += 1;
        Ok(chunk)
    }

    /// Error: `Expired`.
    fn check_held(&self, held: &Held) -> Result<()> {
        if held.hold.has_ended() {
            let what = "the snapshot held more garbage than its limit; take another, or with a higher limit";
            return Err(self.records.error(ErrorKind::Expired, what.into()));
        }
        Ok(())
    }

    /// Moves bytes of the part at a position into the chunk while there is room. Returns whether
    /// all are moved.
    fn send(&self, held: &Held, position: &mut Position, bytes_max: usize, chunk: &mut Vec<u8>) -> Result<bool> {
        let mut small = Vec::new();
        let mut parts: [&[u8]; 2] = [&[], &[]];
        match &position.at {
            At::Header => {
                let Persisted { times, forgotten_tag, .. } = &held.persisted;
                let Timestamps { last, applied, forgotten, .. } = *times;
                let tag = forgotten_tag.clone();
                Header { last, applied, forgotten, tag_ts: tag.ts, tag: tag.tag }.write(&mut small);
            }
            At::Tags(offset, _) | At::Borne(offset) => {
                let (_, record) = self.records.at(*offset)?;
                let tag = record.tag().unwrap_or_default();
                stream::write_tag(&mut small, record.header.ts, tag);
                parts = [&[], tag];
            }
            At::Chain(offset) | At::Version(_, offset) => {
                let (_, Record { header, key, value, .. }) = self.records.at(*offset)?;
                stream::write_item(&mut small, &header);
                parts = [key, value];
            }
            At::End => stream::write_end(&mut small, position.items),
            At::Over => {}
        }
        let mut before = 0;
        for part in [&small[..], parts[0], parts[1]] {
            let rest = &part[position.sent.saturating_sub(before).min(part.len())..];
            let taken = rest.len().min(bytes_max - chunk.len());
            chunk.extend_from_slice(&rest[..taken]);
            position.sent += taken;
            before += part.len();
            if taken < rest.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The part after one of a stream. `walk` is kept from part to part of a chunk.
    fn after<'m>(&'m self, persisted: &Persisted, at: &At, walk: &mut Option<Box<dyn Walk + 'm>>) -> Result<At> {
        Ok(match at {
            At::Header if I::LINKS_ALL => chain(persisted.head),
            At::Header => self.tag_from(persisted, persisted.head, persisted.pending, walk)?,
            At::Tags(offset, left) => {
                let next = if *left > 1 { self.records.next(*offset)? } else { 0 };
                self.tag_from(persisted, next, *left - 1, walk)?
            }
            // Planted: a stream leaves out the tags that changes bear.
            At::Chain(offset) if self.bears_tag(persisted, *offset)? && !planted(Mutant::BorneTagNotSent) => {
                At::Borne(*offset)
            }
            At::Chain(offset) | At::Borne(offset) => chain(self.records.next(*offset)?),
            At::Version(key, offset) => {
                let (_, found) = self.records.at(*offset)?;
                let goes_on = found.header.ts > persisted.times.forgotten;
                match if goes_on { self.records.older(*offset, &found)? } else { None } {
                    Some((older, _)) => At::Version(key.clone(), older.offset()),
                    None => self.key_after(persisted, key.as_deref(), walk)?,
                }
            }
            At::End | At::Over => At::Over,
        })
    }

    /// Whether a record of the chain is a change that bears a tag which is not forgotten.
    fn bears_tag(&self, persisted: &Persisted, offset: u64) -> Result<bool> {
        let (_, Record { header, .. }) = self.records.at(offset)?;
        Ok(header.borne_bytes.is_some() && header.ts > persisted.times.forgotten)
    }

    /// The first tag among `left` records of the chain from an offset on, or the first key.
    fn tag_from<'m>(
        &'m self,
        persisted: &Persisted,
        mut offset: u64,
        mut left: u64,
        walk: &mut Option<Box<dyn Walk + 'm>>,
    ) -> Result<At> {
        while left > 0 {
            let (_, found) = self.records.at(offset)?;
            if found.tag().is_some() {
                return Ok(At::Tags(offset, left));
            }
            left -= 1;
            offset = if left > 0 { self.records.next(offset)? } else { 0 };
        }
        self.key_after(persisted, None, walk)
    }

    /// The newest version of the first key after `key`.
    fn key_after<'m>(
        &'m self,
        persisted: &Persisted,
        key: Option<&[u8]>,
        walk: &mut Option<Box<dyn Walk + 'm>>,
    ) -> Result<At> {
        let walk = match walk {
            Some(walk) => walk,
            None => walk.insert(self.index.walk(Some(persisted.root), key.unwrap_or_default())?),
        };
        while let Some(record) = walk.next()? {
            let found = self.records.get(record)?;
            // A deletion that is forgotten has only not been swept.
            let is_over = found.header.deletion && found.header.ts <= persisted.times.forgotten;
            if key != Some(found.key) && !is_over {
                return Ok(At::Version(Some(found.key.to_vec()), record.offset()));
            }
        }
        Ok(At::End)
    }
}

/// The part of a list's stream at an offset of the chain.
fn chain(offset: u64) -> At {
    if offset == 0 { At::End } else { At::Chain(offset) }
}
