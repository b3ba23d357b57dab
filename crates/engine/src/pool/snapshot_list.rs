//! Which snapshots are alive, so that purge knows what nobody can reach.
//!
//! A session owns a slot and stores in it the CSN its snapshot reads at. Purge announces the limit it wants to purge up to, then
//! looks at the slots; a session stores its CSN, then looks at the announced limit. One of them sees the other (both sides
//! are sequentially consistent), so a snapshot below the limit is either seen by purge or taken again.

use perdura_pmem::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Content of a slot without a snapshot.
const NONE: u64 = u64::MAX;

#[repr(align(128))]
struct Slot(AtomicU64);

/// The live snapshots of a pool.
pub struct SnapshotList {
    slots: boxcar::Vec<Slot>,
    unowned: Mutex<Vec<usize>>,
    limit: AtomicU64,
}

/// A session's slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotId(usize);

impl Default for SnapshotList {
    fn default() -> Self {
        SnapshotList { slots: boxcar::Vec::new(), unowned: Mutex::new(Vec::new()), limit: AtomicU64::new(0) }
    }
}

impl SnapshotList {
    /// Gives a session a slot.
    pub fn acquire_slot(&self) -> SlotId {
        let reused = self.unowned.lock().pop();
        SlotId(reused.unwrap_or_else(|| self.slots.push(Slot(AtomicU64::new(NONE)))))
    }

    /// Takes the slot back.
    pub fn release_slot(&self, slot: SlotId) {
        self.close(slot);
        self.unowned.lock().push(slot.0);
    }

    /// Opens a snapshot at what `visible` returns; asked again until purge has not passed it.
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

    /// Ends the slot's snapshot.
    pub fn close(&self, slot: SlotId) {
        self.slots[slot.0].0.store(NONE, Ordering::Release);
    }

    /// Raises the limit towards `wanted` (at most visible_csn) as far as live snapshots allow; returns how far purge may go.
    /// One caller at a time. The limit never falls: a slot below it is of a snapshot that is about to be taken again.
    pub fn purge_limit(&self, wanted: u64) -> u64 {
        let purged = self.limit.load(Ordering::SeqCst);
        let wanted = wanted.max(purged);
        self.limit.store(wanted, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // Planted: purge does not look at snapshots.
        let limit =
            self.oldest().filter(|_| !perdura_pmem::planted(56)).map_or(wanted, |oldest| oldest.clamp(purged, wanted));
        self.limit.store(limit, Ordering::SeqCst);
        limit
    }

    /// CSN of the oldest live snapshot.
    pub fn oldest(&self) -> Option<u64> {
        self.slots.iter().map(|(_, slot)| slot.0.load(Ordering::SeqCst)).filter(|csn| *csn != NONE).min()
    }

    /// Number of live snapshots.
    pub fn count(&self) -> usize {
        self.slots.iter().filter(|(_, slot)| slot.0.load(Ordering::Relaxed) != NONE).count()
    }
}
