//! Purge: cells and RIDs that no snapshot and no redo can need any more are free again (I8).
//!
//! A version superseded by commit C is unreachable once every snapshot is at or above C, and unneeded by redo once a durable
//! checkpoint covers C. A tombstone is then taken out of its directory word first, fenced, and the RID gets its next incarnation.

use crate::format::{Rid, Word};
use perdura_log::Csn;
use perdura_pmem::sync::Mutex;
use std::collections::VecDeque;

/// Versions taken out of the queue at a time.
const BATCH: usize = 1024;

/// A version that a commit put out of use.
#[derive(Clone, Copy, Debug)]
pub struct Superseded {
    /// The commit.
    pub csn: Csn,
    /// Its row.
    pub rid: Rid,
    /// The version; with the tombstone flag when it is the deletion itself.
    pub word: Word,
}

/// The superseded versions of a table, in the order of their commits.
#[derive(Default)]
pub struct PurgeQueue(Mutex<VecDeque<Superseded>>);

impl PurgeQueue {
    /// Adds what a commit superseded.
    pub fn push(&self, items: impl IntoIterator<Item = Superseded>) {
        self.0.lock().extend(items);
    }

    /// Adds what a commit before this run superseded.
    pub fn push_first(&self, item: Superseded) {
        self.0.lock().push_front(item);
    }

    /// Takes some of what was superseded at or below `limit`; nothing if there is no more of it.
    pub fn take(&self, limit: Csn) -> Vec<Superseded> {
        let mut queue = self.0.lock();
        let count = queue.iter().take(BATCH).take_while(|item| item.csn <= limit).count();
        let batch = queue.drain(..count).collect();
        // Gives back the memory that a large transaction needed.
        if queue.capacity() > 4 * BATCH && queue.len() * 8 < queue.capacity() {
            let kept = queue.len() * 2;
            queue.shrink_to(kept);
        }
        batch
    }

    /// Number of versions in it.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Number of versions in it that `counts` counts.
    pub fn count(&self, counts: impl Fn(&Superseded) -> bool) -> usize {
        self.0.lock().iter().filter(|item| counts(item)).count()
    }
}
