//! Snapshots: the structure itself, held.
//!
//! A snapshot names a confirmed root (B+-tree) or head (list). While it is held no page is freed and no node's place is
//! used again that the confirmation reaches; the list's collector waits. Everything else goes on. The stream of a B+-tree
//! is in the order of its keys, that of a list newest first, superseded records included; who loads takes the first
//! of each (key, timestamp).

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

/// Fewest bytes a chunk may be limited to.
const CHUNK_BYTES_MIN: usize = 64;

/// Who is told that a snapshot is not held any more.
trait Holder: Sync {
    fn let_go(&self);
}

impl<I: Index> Holder for Core<I> {
    fn let_go(&self) {
        self.state.lock().snapshots -= 1;
        self.stir();
    }
}

/// A map as it was at one moment.
pub struct Snapshot<'m> {
    kind: Kind,
    times: Timestamps,
    pub(crate) root: u64,
    pub(crate) head: u64,
    /// Number the next confirmation has.
    pub(crate) number: u64,
    /// Rollback records from the head.
    pub(crate) pending: u64,
    /// Entries of the index.
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
    /// Where the map stood.
    pub fn timestamps(&self) -> Timestamps {
        self.times
    }

    /// The whole snapshot as a stream, in chunks of at most `bytes_max` bytes (64 if that is less). Each call begins anew.
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

/// The chunks of a snapshot, in order. After an error or the end there is nothing more.
pub struct Chunks<'s> {
    source: Source<'s>,
    bytes_max: usize,
    /// Header, item header or end, not yet in a chunk from `small_at` on.
    small: Vec<u8>,
    small_at: usize,
    /// Key and value not yet in a chunk.
    rest: [&'s [u8]; 2],
    items: u64,
    number: u32,
    /// Checksum of the last chunk.
    crc: u32,
    is_over: bool,
}

impl Chunks<'_> {
    /// Takes the next record, or the end, when all before it is in chunks.
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

    /// Moves bytes into the chunk as far as there is room; whether all there were are in it.
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
