//! A snapshot of a map that is given away chunk by chunk.

use std::collections::VecDeque;

use bytes::Bytes;
use perdura_map::{Position, Snapshot};
use raft::eraftpb::SnapshotMetadata;

use super::super::Outgoing;
use super::super::error::{Error, ErrorKind, Result};

/// Chunks that can be asked for again, besides the first.
const AGAIN_MAX: usize = 8;

/// A snapshot of a map.
pub(super) struct OfMap {
    snapshot: Snapshot,
    metadata: SnapshotMetadata,
    chunk_bytes: usize,
    /// Where the latest chunks begin, by number.
    begins: VecDeque<(u32, Position)>,
}

impl OfMap {
    pub(super) fn new(snapshot: Snapshot, metadata: SnapshotMetadata, chunk_bytes: usize) -> Self {
        Self { snapshot, metadata, chunk_bytes, begins: VecDeque::new() }
    }

    fn begin(&self, number: u32) -> Result<Position> {
        if number == 0 {
            return Ok(Position::default());
        }
        let found = self.begins.iter().find(|(of, _)| *of == number).map(|(_, position)| position.clone());
        found.ok_or_else(|| {
            Error::new(ErrorKind::Expired, format!("chunk {number} of a snapshot is not at hand; begin with the first"))
        })
    }
}

impl Outgoing for OfMap {
    fn metadata(&self) -> &SnapshotMetadata {
        &self.metadata
    }

    fn chunk(&mut self, number: u32) -> Result<(Bytes, bool)> {
        let mut chunks = self.snapshot.resume(&self.begin(number)?, self.chunk_bytes);
        let chunk = match chunks.next() {
            Some(chunk) => chunk?,
            None => return Err(Error::new(ErrorKind::Expired, format!("a snapshot has no chunk {number}"))),
        };
        let is_last = chunks.is_over();
        if !is_last && self.begins.iter().all(|(of, _)| *of != number + 1) {
            if self.begins.len() == AGAIN_MAX {
                self.begins.pop_front();
            }
            self.begins.push_back((number + 1, chunks.position()));
        }
        Ok((chunk.into(), is_last))
    }
}
