//! Snapshots: a confirmed state of the map, held in place.
//!
//! A snapshot names a confirmed root (B+-tree) or head (list). While it is held, no page is freed, no place of a node
//! that the confirmation reaches is reused, and the list's collector waits. Everything else goes on. The stream of a
//! B+-tree is in key order; that of a list is newest first and includes superseded records, so the receiver takes the
//! first of each key and timestamp.

use crate::config::Kind;
use crate::error::Result;
use crate::index::Index;
use crate::record::{Record, Records};
use crate::scan::Cursor;
use crate::state::Core;
use crate::stream::{self, FRAME_BYTES, Header};
use crate::timestamps::{Timestamps, Ts};
use crate::tree::ReadNodes;
use perdura_pmem::planted;

/// Lower bound of a chunk's length, in bytes.
const CHUNK_BYTES_MIN: usize = 64;

/// The map, which counts its snapshots.
trait Holder: Sync {
    fn let_go(&self);
}

impl<I: Index> Holder for Core<I> {
    fn let_go(&self) {
        self.state.lock().snapshots -= 1;
        self.stir();
    }
}

/// A map as it was at one moment. Dropping it lets the collector go on.
pub struct Snapshot<'m> {
    kind: Kind,
    times: Timestamps,
    pub(crate) root: u64,
    pub(crate) head: u64,
    /// Number of the next confirmation.
    pub(crate) number: u64,
    /// Count of the rollback records from the head on.
    pub(crate) pending: u64,
    /// Count of the entries of the index.
    pub(crate) versions: u64,
    nodes: &'m dyn ReadNodes,
    records: &'m Records,
    holder: &'m dyn Holder,
}

impl<I: Index> Core<I> {
    pub(crate) fn snapshot(&self) -> Result<Snapshot<'_>> {
        let mut state = self.state.lock();
        self.check_writable(&state)?;
        // Planted: a snapshot is of a state that is not confirmed.
        if !planted(137) {
            self.confirm(&mut state);
        }
        state.snapshots += 1;
        Ok(Snapshot {
            kind: I::KIND,
            times: state.times,
            root: state.root,
            head: state.head,
            number: state.pages.number,
            pending: state.pending.len(),
            versions: state.versions,
            nodes: &self.reader,
            records: &self.records,
            holder: self,
        })
    }
}

impl Snapshot<'_> {
    /// The map's timestamps at the moment of the snapshot.
    pub fn timestamps(&self) -> Timestamps {
        self.times
    }

    /// Streams the whole snapshot in chunks of at most `bytes_max` bytes (at least 64). Each call begins a new stream.
    pub fn chunks(&self, bytes_max: usize) -> Chunks<'_> {
        let mut pending = Vec::new();
        let Timestamps { last, applied, forgotten, .. } = self.times;
        Header { last, applied, forgotten }.write(&mut pending);
        Chunks {
            source: Source::Unopened(self),
            bytes_max: bytes_max.max(CHUNK_BYTES_MIN),
            small: pending,
            small_at: 0,
            rest: [&[], &[]],
            items: 0,
            number: 0,
            crc: 0,
            is_over: false,
        }
    }

    fn open(&self) -> Result<Source<'_>> {
        match self.kind {
            Kind::List => Ok(Source::Chain(self.records, self.head)),
            Kind::BTree => Ok(Source::Tree(Cursor::seek(self.nodes, self.records, self.root, None)?)),
        }
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.holder.let_go();
    }
}

enum Source<'s> {
    Unopened(&'s Snapshot<'s>),
    Tree(Cursor<'s>),
    Chain(&'s Records, u64),
}

impl<'s> Source<'s> {
    fn next(&mut self) -> Result<Option<Record<'s>>> {
        if let Source::Unopened(snapshot) = self {
            *self = snapshot.open()?;
        }
        match self {
            Source::Tree(cursor) => Ok(cursor.next()?.map(|(_, record)| record)),
            Source::Chain(_, 0) => Ok(None),
            Source::Chain(records, offset) => {
                let (_, record) = records.at(*offset)?;
                *offset = records.next(*offset)?;
                Ok(Some(record))
            }
            Source::Unopened(_) => Ok(None),
        }
    }
}

/// The chunks of a snapshot, in order. After an error or the end there are none.
pub struct Chunks<'s> {
    source: Source<'s>,
    bytes_max: usize,
    /// A header, item header or end; from `small_at` on not yet in a chunk.
    small: Vec<u8>,
    small_at: usize,
    /// What is left of the key and of the value, not yet in a chunk.
    rest: [&'s [u8]; 2],
    items: u64,
    number: u32,
    /// Checksum of the last chunk.
    crc: u32,
    is_over: bool,
}

impl Chunks<'_> {
    /// Takes the next record, or the end. Everything before it is in chunks.
    fn refill(&mut self) -> Result<()> {
        self.small.clear();
        self.small_at = 0;
        match self.source.next()? {
            Some(record) => {
                let ts: Ts = record.header.ts;
                stream::write_item(&mut self.small, ts, record.key, record.value, record.header.deletion);
                self.rest = [record.key, record.value];
                self.items += 1;
            }
            None => {
                stream::write_end(&mut self.small, self.items);
                self.is_over = true;
            }
        }
        Ok(())
    }

    /// Moves pending bytes into the chunk while there is room. Returns whether all are moved.
    fn drain(&mut self, chunk: &mut Vec<u8>) -> bool {
        let room = self.bytes_max - chunk.len();
        let taken = room.min(self.small.len() - self.small_at);
        chunk.extend_from_slice(&self.small[self.small_at..self.small_at + taken]);
        self.small_at += taken;
        if self.small_at < self.small.len() {
            return false;
        }
        for part in &mut self.rest {
            let taken = (self.bytes_max - chunk.len()).min(part.len());
            chunk.extend_from_slice(&part[..taken]);
            *part = &part[taken..];
            if !part.is_empty() {
                return false;
            }
        }
        true
    }
}

impl Iterator for Chunks<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        let mut chunk = vec![0; FRAME_BYTES];
        while self.drain(&mut chunk) && !self.is_over {
            if let Err(error) = self.refill() {
                self.is_over = true;
                self.small.clear();
                self.small_at = 0;
                return Some(Err(error));
            }
        }
        if chunk.len() == FRAME_BYTES {
            return None;
        }
        self.crc = stream::frame(&mut chunk, self.number, self.crc);
        self.number += 1;
        Some(Ok(chunk))
    }
}
