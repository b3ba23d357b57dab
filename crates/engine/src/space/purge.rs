//! Purge reclaims cells and RIDs that no snapshot and no redo can need any more (I8).
//!
//! A version that commit C superseded is unreachable once every snapshot is at or above C, and redo cannot need it once
//! a durable checkpoint covers C. Before purge frees the cell of a tombstone, it empties the directory word, under the
//! RID's next incarnation, and fences.

use crate::format::{Rid, Word};
use perdura_log::Csn;
use perdura_pmem::sync::Mutex;
use std::collections::VecDeque;

/// Most versions taken from the queue at once.
const BATCH: usize = 1024;

/// A version that a commit superseded, or a tombstone that it published.
#[derive(Clone, Copy, Debug)]
pub struct Superseded {
    /// CSN of the commit; 0 if that was before this run.
    pub csn: Csn,
    /// RID of the row.
    pub rid: Rid,
    /// Place of the version, flagged if it is a tombstone.
    pub word: Word,
}

/// The superseded versions of a table. Commits add to it in about their order, since several may do so at once.
#[derive(Default)]
pub struct PurgeQueue(Mutex<VecDeque<Superseded>>);

impl PurgeQueue {
    /// Adds the versions that a commit of this run superseded.
    pub fn push(&self, items: impl IntoIterator<Item = Superseded>) {
        self.0.lock().extend(items);
    }

    /// Adds a tombstone from before this run, in front.
    pub fn push_first(&self, item: Superseded) {
        self.0.lock().push_front(item);
    }

    /// Takes versions from the front of the queue, as long as their commits are at or below `limit`. Empty when the
    /// first one is not: an entry out of order only delays those behind it.
    pub fn take(&self, limit: Csn) -> Vec<Superseded> {
        let mut queue = self.0.lock();
        let count = queue.iter().take(BATCH).take_while(|item| item.csn <= limit).count();
        let batch = queue.drain(..count).collect();
        // A large transaction leaves no memory behind.
        if queue.capacity() > 4 * BATCH && queue.len() * 8 < queue.capacity() {
            let kept = queue.len() * 2;
            queue.shrink_to(kept);
        }
        batch
    }

    /// Number of versions in the queue.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// Number of versions in the queue that `counts` accepts.
    pub fn count(&self, counts: impl Fn(&Superseded) -> bool) -> usize {
        self.0.lock().iter().filter(|item| counts(item)).count()
    }
}
