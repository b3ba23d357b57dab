//! The log writer's turn: what is taken from the stream goes from the log buffer to its lanes.

use super::ahead::{Ahead, Step};
use super::counts::Counts;
use super::ends::{Ends, Key};
use super::order::Extent;
use super::ring::Ring;
use perdura_pmem::{Mutant, Region, Result};
use std::ops::Range;

/// State of the log writer.
pub(super) struct Writer {
    ahead: Ahead,
    /// Copies past the cache, rather than writes of a file.
    persists: bool,
    /// The write-ahead buffer.
    buffer: Box<[u8]>,
    ends: Ends,
    /// Extents that are being written.
    pub(super) batch: Vec<Extent>,
}

impl Writer {
    pub(super) fn new(ahead: Ahead, persists: bool) -> Writer {
        let buffer = vec![0; ahead.buffer_bytes()].into();
        Writer { ahead, persists, buffer, ends: Ends::default(), batch: Vec::new() }
    }

    /// Notes that somebody else writes to a lane, up to `end`.
    pub(super) fn keep_off(&mut self, key: Key, end: u64) {
        self.ends.raise(key, end);
    }

    /// Writes the extents of the batch, and tells `wrote` of each write. Nothing is durable by it.
    pub(super) fn write(
        &mut self,
        ring: &Ring,
        counts: &Counts,
        mut wrote: impl FnMut(&Region, Range<u64>),
    ) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        let written = batch.iter().try_for_each(|extent| self.write_extent(extent, ring, counts, &mut wrote));
        self.batch = batch;
        written
    }

    fn write_extent(
        &mut self,
        extent: &Extent,
        ring: &Ring,
        counts: &Counts,
        wrote: &mut impl FnMut(&Region, Range<u64>),
    ) -> Result<()> {
        let limit = extent.region.len() / self.ahead.block() * self.ahead.block();
        let (mut lsn, mut at) = (extent.begin, extent.offset);
        while lsn < extent.end() {
            // Planted: what lies behind is taken to be empty.
            let is_empty = perdura_pmem::planted(Mutant::WriteAheadOverRecords);
            let end = if is_empty { at } else { self.ends.of(extent.key) };
            let step = self.ahead.step(at, extent.end() - lsn, end, limit);
            // SAFETY: the part is filled, and its place is not given away before it is written.
            let pieces = unsafe { ring.slices(lsn..lsn + step.bytes) };
            let to = at + step.bytes + step.padding + step.ahead;
            if step.is_copied() {
                self.gather(pieces, &step);
                self.put(&extent.region, at, &self.buffer[..(to - at) as usize])?;
                Counts::add(&counts.copied, step.bytes);
            } else {
                let [first, second] = pieces;
                self.put(&extent.region, at, first)?;
                self.put(&extent.region, at + first.len() as u64, second)?;
            }
            Counts::add(&counts.writes, 1);
            Counts::add(&counts.written, step.bytes);
            Counts::add(&counts.padding, step.padding);
            Counts::add(&counts.ahead, step.ahead);
            wrote(&extent.region, at..to);
            self.ends.raise(extent.key, to);
            (lsn, at) = (lsn + step.bytes, to);
        }
        Ok(())
    }

    /// Puts records and zeros together in the write-ahead buffer.
    fn gather(&mut self, pieces: [&[u8]; 2], step: &Step) {
        let mut rest = &mut self.buffer[..];
        for piece in pieces {
            let (target, behind) = rest.split_at_mut(piece.len());
            target.copy_from_slice(piece);
            rest = behind;
        }
        rest[..(step.padding + step.ahead) as usize].fill(0);
    }

    fn put(&self, region: &Region, at: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.persists {
            region.write_nt(at, bytes);
            return Ok(());
        }
        region.write_file(at, bytes)
    }
}
