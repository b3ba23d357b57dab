//! Purge reclaims the versions and RIDs that no snapshot and no redo can need any more (I8).
//!
//! What a commit replaced is unreachable once every snapshot is at or above its CSN, and redo cannot need it once a
//! durable checkpoint covers the commit. The shadows of the pages hold what was replaced; the queue here names the
//! pages, so that purge costs what there is to reclaim. Before purge frees the cell of a deleted row, it empties the
//! directory word, under the RID's next incarnation, and fences.

use crate::format::{Rid, Word};
use perdura_log::Csn;
use perdura_pmem::sync::Mutex;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Most pages purged in one batch.
const BATCH: usize = 64;

/// The pages of a table in which a commit of this run replaced or deleted rows.
pub struct Retired {
    /// CSN of the commit.
    pub csn: Csn,
    /// Numbers of the pages.
    pub pages: SmallVec<[u64; 1]>,
    /// Number of rows changed.
    pub rows: u64,
}

/// What purge has taken from the shadows of some pages.
#[derive(Default)]
pub struct Reclaimed {
    /// Versions that were replaced.
    pub versions: Vec<Word>,
    /// Rows that were deleted, with the words that name their last versions.
    pub deleted: Vec<(Rid, Word)>,
}

#[derive(Default)]
struct Queue {
    /// In about the order of CSNs, since several commits may end at once.
    retired: VecDeque<Retired>,
    rows: u64,
}

/// The commits whose replaced versions wait for purge.
#[derive(Default)]
pub struct PurgeQueue(Mutex<Queue>);

impl PurgeQueue {
    /// Adds a commit.
    pub fn push(&self, retired: Retired) {
        let mut queue = self.0.lock();
        queue.rows += retired.rows;
        queue.retired.push_back(retired);
    }

    /// Takes pages from the front of the queue, as long as their commits are at or below `limit`. Empty when the first
    /// one is not: an entry out of order only delays those behind it.
    pub fn take(&self, limit: Csn) -> Vec<u64> {
        let mut queue = self.0.lock();
        let mut pages = Vec::new();
        while pages.len() < BATCH {
            let Some(first) = queue.retired.front_mut().filter(|first| first.csn <= limit) else { break };
            while pages.len() < BATCH
                && let Some(page) = first.pages.pop()
            {
                pages.push(page);
            }
            if first.pages.is_empty() {
                let rows = first.rows;
                queue.rows -= rows;
                queue.retired.pop_front();
            }
        }
        // A busy time leaves no memory behind.
        if queue.retired.capacity() > 4096 && queue.retired.len() * 8 < queue.retired.capacity() {
            let kept = queue.retired.len() * 2;
            queue.retired.shrink_to(kept);
        }
        pages
    }

    /// Number of rows changed by the commits in the queue.
    pub fn rows(&self) -> u64 {
        self.0.lock().rows
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.0.lock().retired.is_empty()
    }
}
