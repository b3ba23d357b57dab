//! The allocator of a table: it hands out cells and extents for versions, and RIDs and pages of the
//! row directory.
//!
//! Sessions allocate from it, commits and rollbacks free to it, purge reclaims through it, and a
//! sweep rebuilds it after a restart.

use super::directory_space::DirectorySpace;
use super::emptying::Emptying;
use super::file_return::FileReturn;
use super::purge::{BATCH, PurgeQueue, Reclaimed, Retired};
use super::segments::{Opened, Segments};
use super::shard::Shard;
use crate::error::{ErrorKind, Result};
use crate::files::cells;
use crate::files::chain::{Chain, SegmentId};
use crate::files::directory::Directory;
use crate::format::{Rid, Word};
use crate::shadow::page::PageShadow;
use crate::shadow::purge_horizon::PurgeHorizon;
use crate::shadow::slots::Shadows;
use crate::shadow::undo_record::Superseded;
use perdura_log::Csn;
use perdura_pmem::Mutant;
use perdura_pmem::sync::{Mutex, MutexGuard, yield_now};

/// Number of shards, over which sessions are spread by their numbers.
const SHARDS: usize = 4;

/// The allocator of a table, which owns the table's files.
pub(crate) struct Allocator {
    segments: Segments,
    directory_space: DirectorySpace,
    shadows: Shadows,
    retired: PurgeQueue,
    file_return: FileReturn,
    emptying: Mutex<Emptying>,
    shards: [Mutex<Shard>; SHARDS],
}

impl Allocator {
    fn new(segments: Segments, directory_space: DirectorySpace) -> Allocator {
        let shards = std::array::from_fn(|_| Mutex::new(Shard::default()));
        Allocator {
            segments,
            directory_space,
            shadows: Shadows::default(),
            retired: PurgeQueue::default(),
            file_return: FileReturn::default(),
            emptying: Mutex::default(),
            shards,
        }
    }

    /// The allocator of a new table, whose only file is all free.
    pub(crate) fn create(chain: Chain) -> Allocator {
        Allocator::new(Segments::create(chain), DirectorySpace::create())
    }

    /// Opens the allocator of an existing table. It reads descriptors and page states; segments
    /// with content stay unswept. Returns with it the segments with leaves of indexes, each with
    /// their size in units of 256 bytes.
    pub(crate) fn open(chain: Chain) -> Result<(Allocator, Vec<(u32, SegmentId)>)> {
        let Opened { segments, directory, leaves } = Segments::open(chain)?;
        let directory_space = DirectorySpace::open(&segments, directory)?;
        Ok((Allocator::new(segments, directory_space), leaves))
    }

    /// The chain of the table's files.
    #[inline]
    pub(crate) fn chain(&self) -> &Chain {
        self.segments.chain()
    }

    /// The table's row directory.
    #[inline]
    pub(crate) fn directory(&self) -> &Directory {
        self.chain().directory()
    }

    /// The shadows of the directory's pages.
    #[inline]
    pub(crate) fn shadows(&self) -> &Shadows {
        &self.shadows
    }

    /// The table's segments, for a bulk insert, which fills segments of its own.
    #[inline]
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// Allocates a cell or extent for a version of `bytes`, header included, for session `session`:
    /// in the segment of the version that `near` names, if a cell is free there, so that rows keep
    /// their neighbourhood. The word has incarnation 0.
    pub(crate) fn allocate(&self, session: u64, bytes: u64, near: Word) -> Result<Word> {
        let Some(units) = cells::class_for(bytes, self.chain().segment_bytes()) else {
            return self.segments.take_extent(bytes);
        };
        if !near.is_empty()
            && let Some(word) = self.segments.claim_near(near, units)
        {
            return Ok(word);
        }
        let claimed = self.shard(session).claim(&self.segments, units);
        match claimed {
            // The rest may be small segments, and granules beside extents.
            Err(error) if error.kind() == ErrorKind::DeviceFull && units > cells::UNITS_MIN => {
                self.segments.take_extent(bytes).map_err(|_| error)
            }
            claimed => claimed,
        }
    }

    /// Allocates a RID for session `session`. Its word is empty, in a page published durably.
    pub(crate) fn allocate_rid(&self, session: u64) -> Result<Rid> {
        let rid = self.shard(session).claim_rid(&self.segments, &self.directory_space, &self.shadows)?;
        self.reclaim_old()?;
        Ok(rid)
    }

    fn shard(&self, session: u64) -> MutexGuard<'_, Shard> {
        self.shards[session as usize % SHARDS].lock()
    }

    /// Frees the cell or extent that `word` names. No reader, record or directory word may name it
    /// any more (I8).
    pub(crate) fn free(&self, word: Word) {
        self.segments.free(word);
    }

    /// Frees the cells and extents that `words` name, like [`Allocator::free`].
    pub(crate) fn free_all(&self, words: impl IntoIterator<Item = Word>) {
        self.segments.free_all(words.into_iter());
    }

    /// Frees RIDs that no published row uses.
    pub(crate) fn free_rids(&self, rids: impl IntoIterator<Item = Rid>) {
        self.directory_space.put_rids(self.directory(), rids);
    }

    /// Whether so many RIDs are free that inserts should use them up before the directory grows.
    pub(crate) fn has_many_free_rids(&self) -> bool {
        self.directory_space.has_many_rids(&self.segments)
    }

    /// Takes an unpublished directory page, whose words are durably empty before the next commit.
    pub(crate) fn take_page(&self) -> Result<u64> {
        let page = self.directory_space.take_page(&self.segments, &self.shadows, true)?;
        self.reclaim_old()?;
        Ok(page)
    }

    /// Frees a page that was taken and not published. Its words need not be 0.
    pub(crate) fn free_page(&self, page: u64) {
        self.directory_space.put_page(page);
    }

    /// Sweeps the segment of the version that `word` names, unless that is done, and checks that a
    /// cell begins there.
    pub(crate) fn ensure_swept(&self, word: Word) -> Result<()> {
        self.segments.ensure_swept(word)
    }

    /// Takes the cell or extent of a version that a prepared transaction wrote, after sweeping its
    /// segment. `room` bytes behind the version belong to it.
    pub(crate) fn keep_cell(&self, word: Word, room: u64) -> Result<()> {
        self.segments.keep_cell(word, room)
    }

    /// Reserves a row that a prepared transaction inserted, so that its RID goes to nobody else.
    pub(crate) fn keep_row(&self, row: u64) {
        self.directory_space.reserve_row(row);
    }

    /// Reserves a page that a prepared transaction filled, so that it goes to nobody else.
    pub(crate) fn keep_page(&self, page: u64) {
        self.directory_space.reserve_page(page);
    }

    /// Sweeps up to `segments` segments and `pages` directory pages. Returns whether there were
    /// any.
    pub(crate) fn sweep(&self, segments: usize, pages: usize) -> Result<bool> {
        let swept = self.directory_space.sweep(pages, &self.segments, &self.shadows)?;
        self.reclaim_old()?;
        Ok(self.segments.sweep_some(segments)? || swept > 0)
    }

    /// Reclaims rows that an earlier run deleted, as far as sweeps of the directory have found
    /// them.
    fn reclaim_old(&self) -> Result<()> {
        let Some(mut deleted) = self.directory_space.take_deleted() else { return Ok(()) };
        // A damaged word names nothing that could be freed.
        deleted.retain(|(rid, word)| self.chain().header(*word, *rid).is_ok());
        deleted.retain(|(_, word)| self.segments.ensure_swept(*word).is_ok());
        self.free_reclaimed(Reclaimed { deleted, ..Reclaimed::default() });
        Ok(())
    }

    /// Number of segments and directory pages still to be swept.
    pub(crate) fn unswept(&self) -> usize {
        // One lock after the other: those who hold the directory's may wait for the segments'.
        let segments = self.segments.free_segments().unswept_count();
        segments + self.directory_space.unswept_count()
    }

    /// Queues the pages in which a commit replaced rows, for [`Allocator::purge`].
    pub(crate) fn retire(&self, retired: Retired) {
        self.retired.push(retired);
    }

    /// Reclaims what commits up to the limit of `horizon` replaced, and what those above it
    /// replaced between them; gives back directory pages that have no row left, and the last file
    /// if it is empty. Returns the number of versions. One thread at a time may call this.
    pub(crate) fn purge(&self, horizon: &PurgeHorizon) -> usize {
        let mut freed = 0;
        while let Some(of_batch) = self.purge_batch(horizon) {
            freed += of_batch;
            yield_now();
        }
        let mut left = Vec::new();
        for pages in self.retired.take_crowded().chunks(BATCH) {
            let _span = perdura_pmem::trace::span("merge");
            freed += self.purge_pages(pages, |page, reclaimed| {
                if self.merge(page, horizon, reclaimed) {
                    left.push(page);
                }
            });
            yield_now();
        }
        self.retired.put_crowded(left);
        self.directory_space.give_back(horizon.limit(), &self.segments, &self.shadows);
        self.file_return.round(&self.segments, &self.directory_space, |file| self.let_go(file));
        freed
    }

    /// Reclaims what commits up to the limit of `horizon` replaced in the pages that have waited
    /// longest, at most `batches` of [`BATCH`]. Like [`Allocator::purge`] for one thread at a time.
    pub(crate) fn purge_oldest(&self, horizon: &PurgeHorizon, batches: usize) {
        for _ in 0..batches {
            if self.purge_batch(horizon).is_none() {
                break;
            }
        }
    }

    /// Reclaims what commits up to the limit of `horizon` replaced in a batch of pages. Returns the
    /// number of versions; `None` if no page waits.
    fn purge_batch(&self, horizon: &PurgeHorizon) -> Option<usize> {
        let pages = self.retired.take(horizon.limit());
        if pages.is_empty() {
            return None;
        }
        let _span = perdura_pmem::trace::span("purge");
        Some(self.purge_pages(&pages, |page, reclaimed| self.take_undo_records(page, horizon.limit(), reclaimed)))
    }

    /// Reclaims what `take` takes from the shadow of each page. Returns the number of versions.
    fn purge_pages(&self, pages: &[u64], mut take: impl FnMut(u64, &mut Reclaimed)) -> usize {
        let mut reclaimed = Reclaimed::default();
        for page in pages {
            take(*page, &mut reclaimed);
        }
        self.retired.count_purged(reclaimed.changes);
        let emptied = reclaimed.deleted.iter().map(|(rid, _)| self.directory().page_of(rid.row()));
        let mut emptied: Vec<u64> = emptied.collect();
        emptied.dedup();
        let freed = self.free_reclaimed(reclaimed);
        for page in emptied {
            if let Some(mut shadow) = self.shadows.slot(page).lock_existing() {
                shadow.end_purge();
            }
        }
        freed
    }

    /// Has the shards let go of what they have at hand in file `file`.
    fn let_go(&self, file: u32) {
        for shard in &self.shards {
            shard.lock().let_go(&self.segments, &self.directory_space, file);
        }
    }

    /// Unmaps the files that were given back: nobody else uses the table.
    pub(crate) fn forget_given_back(&mut self) {
        self.segments.forget_given_back();
    }

    /// Takes what commits up to `limit` replaced in page `page` from its shadow.
    fn take_undo_records(&self, page: u64, limit: Csn, reclaimed: &mut Reclaimed) {
        let Some(mut shadow) = self.shadows.slot(page).lock_existing() else { return };
        self.take_from(&mut shadow, page, limit, reclaimed);
        if let Some(csn) = shadow.requeue() {
            self.retired.push_page(csn, page);
        }
    }

    fn take_from(&self, shadow: &mut PageShadow, page: u64, limit: Csn, reclaimed: &mut Reclaimed) {
        for undo in shadow.take_undo_records(limit) {
            reclaimed.changes += undo.changes() as u64;
            reclaimed.versions.extend(undo.before.spilled());
            reclaimed.versions.extend(undo.before.iter().map(|(_, word)| word).filter(|word| !word.is_empty()));
            reclaimed.deleted.extend(undo.deleted.iter().map(|position| self.last_version(page, position)));
        }
    }

    /// Merges commits in the shadow of page `page`, and takes what they replaced between them.
    /// Takes all of those that only snapshots from before the page do not see. Returns whether
    /// there is more to do once the next checkpoint covers it.
    fn merge(&self, page: u64, horizon: &PurgeHorizon, reclaimed: &mut Reclaimed) -> bool {
        let Some(mut shadow) = self.shadows.slot(page).lock_existing() else { return false };
        let published = self.directory().state(page).csn();
        self.take_from(&mut shadow, page, horizon.limit_in(published), reclaimed);
        let mut superseded = Superseded::default();
        let is_crowded = shadow.merge(horizon, published, &mut superseded);
        reclaimed.changes += superseded.changes;
        reclaimed.versions.append(&mut superseded.versions);
        reclaimed.deleted.extend(superseded.gone.iter().map(|position| self.last_version(page, *position)));
        is_crowded
    }

    /// RID and word of a deleted row: the word names its last version.
    fn last_version(&self, page: u64, position: u16) -> (Rid, Word) {
        let row = self.directory().page_base(page) + u64::from(position);
        let word = self.directory().raw_word(row);
        (Rid::new(row, word.incarnation()), word)
    }

    /// Empties the words of deleted rows, fences, and frees versions and RIDs. Returns the number
    /// of versions.
    fn free_reclaimed(&self, reclaimed: Reclaimed) -> usize {
        let Reclaimed { mut versions, deleted, .. } = reclaimed;
        versions.extend(deleted.iter().map(|(_, word)| word));
        let freed = versions.len();
        // Planted: the versions of deleted rows are free before the words that name them are empty.
        if perdura_pmem::planted(Mutant::DeletedVersionFreedEarly) {
            self.segments.free_all(versions.drain(..));
        }
        self.directory_space.clear_deleted(&self.segments, &deleted);
        self.segments.free_all(versions.into_iter());
        freed
    }

    /// The rows that are to be moved out of sparse segments next. They lie in cells of about half
    /// of `bytes`, which are taken off. What commits up to `purged` replaced is reclaimed.
    pub(crate) fn rows_to_move(&self, bytes: &mut u64, purged: Csn) -> Vec<(Rid, Word)> {
        self.emptying.lock().next_rows(&self.segments, bytes, purged)
    }

    /// Notes that commit `csn` has moved rows.
    pub(crate) fn note_moved(&self, csn: Csn) {
        self.emptying.lock().note_moved(csn);
    }

    /// The pages that wait for purge.
    pub(crate) fn retired(&self) -> &PurgeQueue {
        &self.retired
    }

    /// Bytes in free segments.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.segments.free_segments().bytes()
    }

    /// The rows of the free RIDs, in the list and at hand in the shards. For the audit of a table
    /// at rest.
    pub(crate) fn free_rows(&self) -> Vec<u64> {
        let at_hand = self.shards.iter().flat_map(|shard| shard.lock().rows_at_hand());
        self.directory_space.free_rows(self.directory()).into_iter().chain(at_hand).collect()
    }

    /// The free places in the row directory. For the audit of a table at rest.
    pub(crate) fn directory_space(&self) -> &DirectorySpace {
        &self.directory_space
    }
}
