//! Purge: cells and RIDs that no snapshot and no redo can need any more are free again (I8).
//!
//! A version superseded by commit C is unreachable once every snapshot is at or above C, and unneeded by redo once a durable
//! checkpoint covers C. A tombstone is then taken out of its directory word first, fenced, and the RID gets its next incarnation.

use crate::engine::Inner;
use crate::format::{Rid, Word};
use crate::table::Table;
use perdura_log::Csn;

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

impl Table {
    /// Frees what was superseded at or below `limit`; returns how many versions. One thread at a time.
    pub(crate) fn purge(&self, limit: Csn) -> usize {
        const BATCH: usize = 1024;
        let mut freed = 0;
        loop {
            let batch: Vec<Superseded> = {
                let mut superseded = self.superseded.lock();
                let count = superseded.iter().take(BATCH).take_while(|item| item.csn <= limit).count();
                let batch = superseded.drain(..count).collect();
                // Gives back the memory that a large transaction needed.
                if superseded.capacity() > 4 * BATCH && superseded.len() * 8 < superseded.capacity() {
                    let kept = superseded.len() * 2;
                    superseded.shrink_to(kept);
                }
                batch
            };
            if batch.is_empty() {
                return freed;
            }
            let _span = perdura_pmem::trace::span("purge");
            self.clear_tombstones(&batch);
            for item in &batch {
                self.free(item.word);
            }
            freed += batch.len();
        }
    }

    /// Empties the words of purged deletions, and makes their RIDs free, under the space lock: a sweep of the directory finds each
    /// free RID itself or finds its segment swept before.
    fn clear_tombstones(&self, batch: &[Superseded]) {
        let mut space = self.space.lock();
        let mut cleared = Vec::new();
        for item in batch.iter().filter(|item| item.word.is_tombstone()) {
            // Planted: a row that is used again has its old incarnation.
            let next = Word::empty(item.rid.incarnation().wrapping_add(u16::from(!perdura_pmem::planted(55))));
            self.directory.store(item.rid.row(), next);
            self.directory.flush(item.rid.row());
            let row = item.rid.row();
            let reserved = space.is_reserved_row(row) || space.is_reserved_page(self.directory.page_of(row));
            if reserved || !space.is_unswept_directory(self.directory.segment_of(row)) {
                cleared.push(Rid::new(item.rid.row(), next.incarnation()));
            }
        }
        if batch.iter().any(|item| item.word.is_tombstone()) {
            self.files.get(0).expect("a first file").region().fence();
            space.put_rids(cleared);
        }
    }

    /// Versions waiting to be purged.
    pub(crate) fn purge_lag(&self) -> usize {
        self.superseded.lock().len()
    }
}

impl Inner {
    /// Purges all tables as far as snapshots and the checkpoint allow; returns how many versions were freed.
    pub(crate) fn purge(&self) -> usize {
        let _one = self.purging.lock();
        // Planted: purge goes beyond the checkpoint.
        let covered = if perdura_pmem::planted(54) { self.log.visible_csn() } else { self.log.checkpoint_csn() };
        let limit = self.snapshots.purge_limit(covered);
        self.table_list().iter().map(|table| table.purge(limit)).sum()
    }
}
