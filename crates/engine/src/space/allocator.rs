//! The allocator of a table: cells and extents for versions, RIDs and pages of the row directory.
//!
//! Sessions ask it, commits and rollbacks give back to it, purge reclaims through it, and a sweep rebuilds it after a restart.

use super::directory_space::DirectorySpace;
use super::purge::{PurgeQueue, Superseded};
use super::segments::Segments;
use super::shard::Shard;
use crate::error::Result;
use crate::files::cells;
use crate::files::chain::{Chain, SegmentId};
use crate::files::directory::Directory;
use crate::format::{Rid, Word};
use perdura_log::Csn;
use perdura_pmem::sync::{Mutex, MutexGuard};

/// Shards of a table's allocator.
const SHARDS: usize = 4;

/// The allocator of a table. It owns the table's files.
pub struct Allocator {
    segments: Segments,
    directory_space: DirectorySpace,
    superseded: PurgeQueue,
    shards: [Mutex<Shard>; SHARDS],
}

impl Allocator {
    fn new(segments: Segments, directory_space: DirectorySpace) -> Allocator {
        let shards = std::array::from_fn(|_| Mutex::new(Shard::default()));
        Allocator { segments, directory_space, superseded: PurgeQueue::default(), shards }
    }

    /// The allocator of a new table.
    pub fn create(chain: Chain) -> Allocator {
        Allocator::new(Segments::create(chain), DirectorySpace::default())
    }

    /// The allocator of an existing table: reads descriptors, sweeps nothing yet.
    pub fn open(chain: Chain) -> Result<Allocator> {
        let (segments, directory) = Segments::open(chain)?;
        let directory_space = DirectorySpace::open(&segments, directory)?;
        Ok(Allocator::new(segments, directory_space))
    }

    /// The table's files.
    #[inline]
    pub fn chain(&self) -> &Chain {
        self.segments.chain()
    }

    /// The table's row directory.
    #[inline]
    pub fn directory(&self) -> &Directory {
        self.chain().directory()
    }

    /// The table's segments, for who fills them itself.
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Space for a version of `bytes` with its header, for session `session`. The word has incarnation 0.
    pub fn allocate(&self, session: u64, bytes: u64) -> Result<Word> {
        match cells::class_for(bytes, self.chain().segment_bytes()) {
            Some(units) => self.shard(session).claim(&self.segments, units),
            None => self.segments.take_extent(bytes),
        }
    }

    /// A RID for session `session` whose word is empty in a published page.
    pub fn allocate_rid(&self, session: u64) -> Result<Rid> {
        self.shard(session).claim_rid(&self.segments, &self.directory_space, &self.superseded)
    }

    fn shard(&self, session: u64) -> MutexGuard<'_, Shard> {
        self.shards[session as usize % SHARDS].lock()
    }

    /// Frees the cell or extent that `word` names. No reader, record or directory word may name it any more (I8).
    pub fn free(&self, word: Word) {
        self.segments.free(word);
    }

    /// Frees RIDs that were never published, or are no longer.
    pub fn free_rids(&self, rids: impl IntoIterator<Item = Rid>) {
        self.directory_space.put_rids(rids);
    }

    /// Whether so many RIDs are free that they are to be used before more of the directory is.
    pub fn has_many_free_rids(&self) -> bool {
        self.directory_space.has_many_rids(&self.segments)
    }

    /// Takes a directory page nothing was published in; all its words are 0 on the medium.
    pub fn take_page(&self) -> Result<u64> {
        self.directory_space.take_page(&self.segments, &self.superseded)
    }

    /// Frees a page that was taken and not published.
    pub fn free_page(&self, page: u64) {
        self.directory_space.put_page(page);
    }

    /// Makes sure that the segment of the version `word` names is swept, and that the version is in one of its cells.
    pub fn ensure_swept(&self, word: Word) -> Result<()> {
        self.segments.ensure_swept(word)
    }

    /// Keeps the version of a prepared transaction: its segment is swept and its cell taken.
    pub fn keep_cell(&self, word: Word) -> Result<()> {
        self.segments.keep_cell(word)
    }

    /// Keeps a row that a prepared transaction inserted from being given to others.
    pub fn keep_row(&self, row: u64) {
        self.directory_space.reserve_row(row);
    }

    /// Keeps a page that a prepared transaction filled from being given to others.
    pub fn keep_page(&self, page: u64) {
        self.directory_space.reserve_page(page);
    }

    /// Sweeps up to `segments` segments and `directory` directory segments; whether there were any.
    pub fn sweep(&self, segments: usize, directory: usize) -> Result<bool> {
        let swept = self.directory_space.sweep(directory, &self.segments, &self.superseded)?;
        Ok(self.segments.sweep_some(segments)? || swept > 0)
    }

    /// Segments and directory segments not swept yet.
    pub fn unswept(&self) -> usize {
        self.segments.free_segments().unswept_count() + self.directory_space.unswept_count()
    }

    /// Keeps what a commit superseded for [`Allocator::purge`].
    pub fn supersede(&self, items: impl IntoIterator<Item = Superseded>) {
        self.superseded.push(items);
    }

    /// Frees what was superseded at or below `limit`; returns how many versions. One thread at a time.
    pub fn purge(&self, limit: Csn) -> usize {
        let mut freed = 0;
        loop {
            let batch = self.superseded.take(limit);
            if batch.is_empty() {
                return freed;
            }
            let _span = perdura_pmem::trace::span("purge");
            self.directory_space.clear_tombstones(&self.segments, &batch);
            for item in &batch {
                self.free(item.word);
            }
            freed += batch.len();
        }
    }

    /// The superseded versions that wait for purge.
    pub fn superseded(&self) -> &PurgeQueue {
        &self.superseded
    }

    /// Bytes in segments that hold nothing.
    pub fn free_bytes(&self) -> u64 {
        self.segments.free_segments().count() as u64 * self.chain().segment_bytes()
    }

    /// RIDs that are free, in the lists and in the hands of shards.
    pub fn rids(&self) -> Vec<Rid> {
        let at_hand = self.shards.iter().flat_map(|shard| shard.lock().rids_at_hand());
        self.directory_space.rids().into_iter().chain(at_hand).collect()
    }

    /// Whether a segment is free.
    pub fn is_free(&self, id: SegmentId) -> bool {
        self.segments.free_segments().contains(id)
    }
}
