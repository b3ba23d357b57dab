//! One shard of a table's allocation: open segments by class of cells, and RIDs at hand.
//!
//! Sessions are spread over a table's shards, so that two of them seldom meet at one lock. Lock order: shard, then space.

use crate::cells;
use crate::error::Result;
use crate::format::{PageState, Rid, VERSION_HEADER, VersionHeader, Word};
use crate::open_cells::{OpenSet, Owner};
use crate::space::OpenSegment;
use crate::table::Table;
use perdura_pmem::Region;
use std::ops::Range;

/// RIDs moved from the table's pool at a time.
const RIDS_AT_ONCE: usize = 64;

/// A shard.
#[derive(Default)]
pub struct Shard {
    open: OpenSet<RowWise>,
    rids: Vec<Rid>,
    fresh_rows: Range<u64>,
}

/// A shard as an owner of segments.
enum RowWise {}

impl Owner for RowWise {
    type Segment = OpenSegment;

    fn open(_: &Table, segment: OpenSegment) -> OpenSegment {
        segment
    }

    fn close(table: &Table, segment: OpenSegment) {
        table.release(&segment);
    }
}

impl Shard {
    /// RIDs it can give out without asking the table.
    pub(crate) fn rids_at_hand(&self) -> Vec<Rid> {
        self.rids.iter().copied().chain(self.fresh_rows.clone().map(|row| Rid::new(row, 0))).collect()
    }
}

impl Table {
    /// Space for a version of `bytes` with its header, from shard `shard`. The word has incarnation 0.
    pub(crate) fn allocate(&self, shard: usize, bytes: u64) -> Result<Word> {
        let Some(units) = cells::class_for(bytes, self.context.geometry.segment_bytes) else {
            return self.take_run(bytes);
        };
        let mut shard = self.shards[shard].lock();
        shard.open.claim(self, units).map(|(word, _)| word)
    }

    /// A RID whose word is empty in a published page.
    pub(crate) fn allocate_rid(&self, shard: usize) -> Result<Rid> {
        let mut shard = self.shards[shard].lock();
        loop {
            if let Some(rid) = shard.rids.pop() {
                return Ok(rid);
            }
            if let Some(row) = shard.fresh_rows.next() {
                return Ok(Rid::new(row, 0));
            }
            shard.rids = self.space.lock().take_rids(RIDS_AT_ONCE);
            if shard.rids.is_empty() {
                let page = self.take_page()?;
                self.directory.publish(page, PageState::OPEN);
                self.files.get(0).expect("a first file").region().fence();
                shard.fresh_rows = self.directory.page_rows(page);
            }
        }
    }

    /// Writes a version at `word`, neither flushed nor fenced; returns its mapping and offset.
    pub(crate) fn write_version(
        &self,
        word: Word,
        header: &VersionHeader,
        row: &[u8],
        sequence: u64,
    ) -> (&Region, u64) {
        let region = self.file(word.file()).expect("allocated in a file of the chain").region();
        write_at(region, word.offset(), header, row, sequence);
        (region, word.offset())
    }
}

impl Table {
    /// Makes `prev` what the version at `word`, which nobody else can reach, replaces. Flushed, not fenced.
    pub(crate) fn relink(&self, word: Word, rid: Rid, prev: Word) -> Result<()> {
        let (region, at, mut header) = self.header(word, rid)?;
        header.prev = prev;
        // SAFETY: the version is the caller's own and unpublished: nobody stores there, nobody frees it.
        header.crc = header.checksum(unsafe { Table::row(region, at, &header) });
        region.write(at + 8, &header.encode(0)[8..]);
        region.flush(at, VERSION_HEADER);
        Ok(())
    }
}

/// Writes a version at offset `at`, neither flushed nor fenced.
#[inline]
pub(crate) fn write_at(region: &Region, at: u64, header: &VersionHeader, row: &[u8], sequence: u64) {
    region.write(at, &header.encode(sequence));
    if !row.is_empty() {
        region.write(at + VERSION_HEADER, row);
    }
}
