//! The live snapshots of a pool, which tell purge what nobody can reach any more (I8).
//!
//! A session owns slots, and stores in a slot the CSN that its snapshot reads at. Purge announces the limit up to which
//! it wants to purge, then looks at the slots. A session stores its CSN, then looks at the announced limit. Both sides
//! are sequentially consistent, so one of them sees the other: either purge sees a snapshot below the limit, or the
//! session takes its snapshot again.

use perdura_pmem::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// What a slot without a snapshot holds.
const NONE: u64 = u64::MAX;

#[repr(align(128))]
struct Slot(AtomicU64);

/// The live snapshots of a pool.
pub struct SnapshotList {
    slots: boxcar::Vec<Slot>,
    unowned: Mutex<Vec<usize>>,
    limit: AtomicU64,
}

/// A slot that a session owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotId(usize);

impl Default for SnapshotList {
    fn default() -> Self {
        SnapshotList { slots: boxcar::Vec::new(), unowned: Mutex::new(Vec::new()), limit: AtomicU64::new(0) }
    }
}

impl SnapshotList {
    /// Gives a slot, without a snapshot, to a session.
    pub fn acquire_slot(&self) -> SlotId {
        let reused = self.unowned.lock().pop();
        SlotId(reused.unwrap_or_else(|| self.slots.push(Slot(AtomicU64::new(NONE)))))
    }

    /// Takes a slot back, and closes its snapshot.
    pub fn release_slot(&self, slot: SlotId) {
        self.close(slot);
        self.unowned.lock().push(slot.0);
    }

    /// Opens a snapshot at the CSN that `visible` returns, and returns that CSN. It asks again as long as purge has
    /// passed the answer.
    pub fn open(&self, slot: SlotId, visible: impl Fn() -> u64) -> u64 {
        loop {
            let csn = visible();
            self.slots[slot.0].0.store(csn, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if self.limit.load(Ordering::SeqCst) <= csn {
                return csn;
            }
        }
    }

    /// Closes the snapshot in the slot.
    pub fn close(&self, slot: SlotId) {
        self.slots[slot.0].0.store(NONE, Ordering::Release);
    }

    /// Raises the limit towards `wanted`, at most visible_csn, as far as live snapshots allow, and returns it: purge
    /// may go up to it. One thread at a time may call this. The limit never falls: a slot below it belongs to a
    /// snapshot that is about to be taken again.
    pub fn purge_limit(&self, wanted: u64) -> u64 {
        let purged = self.limit.load(Ordering::SeqCst);
        let wanted = wanted.max(purged);
        self.limit.store(wanted, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // Planted: purge ignores live snapshots.
        let limit =
            self.oldest().filter(|_| !perdura_pmem::planted(56)).map_or(wanted, |oldest| oldest.clamp(purged, wanted));
        self.limit.store(limit, Ordering::SeqCst);
        limit
    }

    /// The limit that purge has come to.
    pub fn purged(&self) -> u64 {
        self.limit.load(Ordering::SeqCst)
    }

    /// CSN of the oldest live snapshot; `None` without any.
    pub fn oldest(&self) -> Option<u64> {
        self.slots.iter().map(|(_, slot)| slot.0.load(Ordering::SeqCst)).filter(|csn| *csn != NONE).min()
    }

    /// Number of live snapshots.
    pub fn count(&self) -> usize {
        self.slots.iter().filter(|(_, slot)| slot.0.load(Ordering::Relaxed) != NONE).count()
    }
}
