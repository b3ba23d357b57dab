//! The allocator of a table: it hands out cells and extents for versions, and RIDs and pages of the row directory.
//!
//! Sessions allocate from it, commits and rollbacks free to it, purge reclaims through it, and a sweep rebuilds it
//! after a restart.

use super::directory_space::DirectorySpace;
use super::purge::{PurgeQueue, Superseded};
use super::segments::Segments;
use super::shard::Shard;
use crate::error::{ErrorKind, Result};
use crate::files::cells;
use crate::files::chain::Chain;
use crate::files::directory::Directory;
use crate::format::{Rid, Word};
use perdura_log::Csn;
use perdura_pmem::sync::{Mutex, MutexGuard};
use std::sync::Arc;

/// Number of shards, over which sessions are spread by their numbers.
const SHARDS: usize = 4;

/// The allocator of a table, which owns the table's files.
pub struct Allocator {
    segments: Segments,
    directory_space: DirectorySpace,
    superseded: Arc<PurgeQueue>,
    shards: [Mutex<Shard>; SHARDS],
}

impl Allocator {
    fn new(segments: Segments, directory_space: DirectorySpace, superseded: Arc<PurgeQueue>) -> Allocator {
        let shards = std::array::from_fn(|_| Mutex::new(Shard::default()));
        Allocator { segments, directory_space, superseded, shards }
    }

    /// The allocator of a new table, whose only file is all free.
    pub fn create(chain: Chain) -> Allocator {
        let superseded = Arc::<PurgeQueue>::default();
        Allocator::new(Segments::create(chain), DirectorySpace::create(superseded.clone()), superseded)
    }

    /// Opens the allocator of an existing table. It reads descriptors and page states; segments with content stay
    /// unswept.
    pub fn open(chain: Chain) -> Result<Allocator> {
        let (segments, directory) = Segments::open(chain)?;
        let superseded = Arc::<PurgeQueue>::default();
        let directory_space = DirectorySpace::open(&segments, directory, superseded.clone())?;
        Ok(Allocator::new(segments, directory_space, superseded))
    }

    /// The chain of the table's files.
    #[inline]
    pub fn chain(&self) -> &Chain {
        self.segments.chain()
    }

    /// The table's row directory.
    #[inline]
    pub fn directory(&self) -> &Directory {
        self.chain().directory()
    }

    /// The table's segments, for a bulk insert, which fills segments of its own.
    #[inline]
    pub fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Allocates a cell or extent for a version of `bytes`, header included, for session `session`. The word has
    /// incarnation 0.
    pub fn allocate(&self, session: u64, bytes: u64) -> Result<Word> {
        let Some(units) = cells::class_for(bytes, self.chain().segment_bytes()) else {
            return self.segments.take_extent(bytes);
        };
        let claimed = self.shard(session).claim(&self.segments, units);
        match claimed {
            // What is left may be small segments, and granules beside extents.
            Err(error) if error.kind() == ErrorKind::DeviceFull && units > cells::UNITS_MIN => {
                self.segments.take_extent(bytes).map_err(|_| error)
            }
            claimed => claimed,
        }
    }

    /// Allocates a RID for session `session`. Its word is empty, in a page published durably.
    pub fn allocate_rid(&self, session: u64) -> Result<Rid> {
        self.shard(session).claim_rid(&self.segments, &self.directory_space)
    }

    fn shard(&self, session: u64) -> MutexGuard<'_, Shard> {
        self.shards[session as usize % SHARDS].lock()
    }

    /// Frees the cell or extent that `word` names. No reader, record or directory word may name it any more (I8).
    pub fn free(&self, word: Word) {
        self.segments.free(word);
    }

    /// Frees RIDs that no published row uses.
    pub fn free_rids(&self, rids: impl IntoIterator<Item = Rid>) {
        self.directory_space.put_rids(rids);
    }

    /// Whether so many RIDs are free that inserts should use them up before the directory grows.
    pub fn has_many_free_rids(&self) -> bool {
        self.directory_space.has_many_rids(&self.segments)
    }

    /// Takes an unpublished directory page, whose words are durably 0.
    pub fn take_page(&self) -> Result<u64> {
        self.directory_space.take_page(&self.segments)
    }

    /// Frees a page that was taken and not published. Its words need not be 0.
    pub fn free_page(&self, page: u64) {
        self.directory_space.put_page(page);
    }

    /// Sweeps the segment of the version that `word` names, unless that is done, and checks that a cell begins there.
    pub fn ensure_swept(&self, word: Word) -> Result<()> {
        self.segments.ensure_swept(word)
    }

    /// Takes the cell or extent of a version that a prepared transaction wrote, after sweeping its segment.
    pub fn keep_cell(&self, word: Word) -> Result<()> {
        self.segments.keep_cell(word)
    }

    /// Reserves a row that a prepared transaction inserted, so that its RID goes to nobody else.
    pub fn keep_row(&self, row: u64) {
        self.directory_space.reserve_row(row);
    }

    /// Reserves a page that a prepared transaction filled, so that it goes to nobody else.
    pub fn keep_page(&self, page: u64) {
        self.directory_space.reserve_page(page);
    }

    /// Sweeps up to `segments` segments and `pages` directory pages. Returns whether there were any.
    pub fn sweep(&self, segments: usize, pages: usize) -> Result<bool> {
        let swept = self.directory_space.sweep(pages, &self.segments)?;
        Ok(self.segments.sweep_some(segments)? || swept > 0)
    }

    /// Number of segments and directory pages still to be swept.
    pub fn unswept(&self) -> usize {
        self.segments.free_segments().unswept_count() + self.directory_space.unswept_count()
    }

    /// Queues what a commit superseded for [`Allocator::purge`].
    pub fn supersede(&self, items: impl IntoIterator<Item = Superseded>) {
        self.superseded.push(items);
    }

    /// Reclaims what commits up to `limit` superseded, and returns the number of versions. One thread at a time may
    /// call this.
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

    /// The queue of superseded versions that wait for purge.
    pub fn superseded(&self) -> &PurgeQueue {
        &self.superseded
    }

    /// Bytes in free segments.
    pub fn free_bytes(&self) -> u64 {
        self.segments.free_segments().bytes()
    }

    /// The free RIDs, in the lists and at hand in the shards. For the audit of a table at rest.
    pub fn rids(&self) -> Vec<Rid> {
        let at_hand = self.shards.iter().flat_map(|shard| shard.lock().rids_at_hand());
        self.directory_space.rids().into_iter().chain(at_hand).collect()
    }
}
