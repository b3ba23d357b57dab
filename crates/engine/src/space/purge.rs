//! Purge reclaims the versions and RIDs that no snapshot and no redo can need any more (I8).

use crate::format::{Rid, Word};
use perdura_log::Csn;
use perdura_pmem::sync::Mutex;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most pages purged in one batch, after which purge lets others have the core: some 0.4 ms for
/// full pages.
pub(crate) const BATCH: usize = 16;

/// Versions that a commit hands to purge.
#[derive(Default)]
pub(crate) struct Retired {
    /// CSN of the commit.
    pub csn: Csn,
    /// The pages in which it replaced or deleted rows, as far as purge does not know of them.
    pub pages: SmallVec<[u64; 1]>,
    /// The pages in which stored commits are to be merged.
    pub crowded: Vec<u64>,
    /// Number of rows changed.
    pub rows: u64,
}

/// Versions that purge has taken from the shadows of some pages.
#[derive(Default)]
pub(crate) struct Reclaimed {
    /// Versions that were replaced.
    pub versions: Vec<Word>,
    /// Rows that were deleted, with the words that name their last versions.
    pub deleted: Vec<(Rid, Word)>,
    /// Number of changes that are forgotten.
    pub changes: u64,
}

#[derive(Default)]
struct Queue {
    /// Pages, each with the CSN of its oldest commit or one soon after it; the lowest first.
    pages: BinaryHeap<Reverse<(Csn, u64)>>,
    crowded: Vec<u64>,
}

/// The pages whose replaced versions wait for purge.
///
/// Replaced versions are unreachable once every snapshot is at or above the commit's CSN, and redo
/// cannot need them once a durable checkpoint covers the commit. The shadows of the pages hold what
/// was replaced; the queue here names the pages, each once, so that purge costs what there is to
/// reclaim. Before purge frees the cell of a deleted row, it empties the directory word, under the
/// RID's next incarnation, and fences.
///
/// Beside a long snapshot, commits that no snapshot tells apart are merged, in the pages where many
/// have gathered: what they replaced between them is unreachable too. So neither memory nor space
/// grows with the number of commits.
#[derive(Default)]
pub(crate) struct PurgeQueue {
    queue: Mutex<Queue>,
    rows: AtomicU64,
}

impl PurgeQueue {
    /// Counts rows that a commit has changed, before the commit is stored: purge may take them from
    /// then on.
    pub(crate) fn count(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Counts changes that purge has forgotten.
    pub(crate) fn count_purged(&self, changes: u64) {
        self.rows.fetch_sub(changes, Ordering::Relaxed);
    }

    /// Adds the pages of a commit.
    pub(crate) fn push(&self, retired: Retired) {
        if retired.pages.is_empty() && retired.crowded.is_empty() {
            return;
        }
        let mut queue = self.queue.lock();
        queue.pages.extend(retired.pages.into_iter().map(|page| Reverse((retired.csn, page))));
        queue.crowded.extend(retired.crowded);
    }

    /// Adds a page whose oldest commit is `csn`.
    pub(crate) fn push_page(&self, csn: Csn, page: u64) {
        self.queue.lock().pages.push(Reverse((csn, page)));
    }

    /// Takes a batch of pages with commits at or below `limit`.
    pub(crate) fn take(&self, limit: Csn) -> Vec<u64> {
        let mut queue = self.queue.lock();
        let mut pages = Vec::new();
        while pages.len() < BATCH && queue.pages.peek().is_some_and(|Reverse((csn, _))| *csn <= limit) {
            pages.extend(queue.pages.pop().map(|Reverse((_, page))| page));
        }
        // A busy time leaves no memory behind.
        if queue.pages.capacity() > 4096 && queue.pages.len() * 8 < queue.pages.capacity() {
            let kept = queue.pages.len() * 2;
            queue.pages.shrink_to(kept);
        }
        pages
    }

    /// Takes the pages in which stored commits are to be merged.
    pub(crate) fn take_crowded(&self) -> Vec<u64> {
        std::mem::take(&mut self.queue.lock().crowded)
    }

    /// Puts back pages in which there is more to merge in the next round.
    pub(crate) fn put_crowded(&self, pages: Vec<u64>) {
        self.queue.lock().crowded.extend(pages);
    }

    /// Number of row changes that wait; several commits that are merged count as one.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Whether a page waits with a commit at or below `limit`.
    pub(crate) fn is_due(&self, limit: Csn) -> bool {
        self.queue.lock().pages.peek().is_some_and(|Reverse((csn, _))| *csn <= limit)
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.lock().pages.is_empty()
    }
}
