//! The live snapshots of a pool, which tell purge what nobody can reach any more (I8).
//!
//! A session owns slots, and stores in a slot the CSN that its snapshot reads at. Purge announces
//! the CSN up to which it wants to go, then looks at the slots. A session stores its CSN, then
//! looks at what is announced. Both sides are sequentially consistent, so one of them sees the
//! other: either purge sees a snapshot below what it announced, or the session takes its snapshot
//! again. So once purge has looked, no snapshot comes below what it announced, not even between two
//! others.

use crate::shadow::purge_horizon::PurgeHorizon;
use perdura_pmem::Mutant;
use perdura_pmem::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Content of a slot without a snapshot.
const NONE: u64 = u64::MAX;

#[repr(align(128))]
struct Slot {
    /// The CSN that the snapshot reads at, or [`NONE`].
    csn: AtomicU64,
    /// When the snapshot was taken, in milliseconds, for reports.
    taken: AtomicU64,
}

/// A live snapshot, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Live {
    /// The CSN that it reads at.
    pub csn: u64,
    /// When it was taken.
    pub taken: Duration,
}

/// The live snapshots of a pool.
pub(crate) struct SnapshotList {
    slots: boxcar::Vec<Slot>,
    unowned: Mutex<Vec<usize>>,
    /// No snapshot is taken below it any more.
    announced: AtomicU64,
    /// How far the last round of purge went.
    purged: AtomicU64,
}

/// A slot that a session owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotId(usize);

impl Default for SnapshotList {
    fn default() -> Self {
        let (announced, purged) = (AtomicU64::new(0), AtomicU64::new(0));
        SnapshotList { slots: boxcar::Vec::new(), unowned: Mutex::new(Vec::new()), announced, purged }
    }
}

impl SnapshotList {
    /// Gives a slot, without a snapshot, to a session.
    pub(crate) fn acquire_slot(&self) -> SlotId {
        let reused = self.unowned.lock().pop();
        SlotId(reused.unwrap_or_else(|| self.slots.push(Slot { csn: AtomicU64::new(NONE), taken: AtomicU64::new(0) })))
    }

    /// Takes a slot back, and closes its snapshot.
    pub(crate) fn release_slot(&self, slot: SlotId) {
        self.close(slot);
        self.unowned.lock().push(slot.0);
    }

    /// Opens a snapshot at the CSN that `visible` returns, and returns that CSN. It asks again as
    /// long as purge has announced more than the answer. `now` is the time for reports.
    pub(crate) fn open(&self, slot: SlotId, now: Duration, visible: impl Fn() -> u64) -> u64 {
        let slot = &self.slots[slot.0];
        slot.taken.store(now.as_millis() as u64, Ordering::Relaxed);
        loop {
            let csn = visible();
            // Planted: a snapshot is taken behind what purge has announced.
            let is_behind = perdura_pmem::planted(Mutant::SnapshotBehindPurge);
            slot.csn.store(csn, Ordering::SeqCst);
            if self.announced.load(Ordering::SeqCst) <= csn || is_behind {
                return csn;
            }
        }
    }

    /// Closes the snapshot in the slot.
    pub(crate) fn close(&self, slot: SlotId) {
        self.slots[slot.0].csn.store(NONE, Ordering::Release);
    }

    /// The purge horizon of this round, if `covered`, at most visible_csn, is the last
    /// checkpoint. One thread at a time may call this. Its limit never falls: a slot below it
    /// belongs to a snapshot that is about to be taken again.
    pub(crate) fn horizon(&self, covered: u64) -> PurgeHorizon {
        self.announced.fetch_max(covered, Ordering::SeqCst);
        // Planted: purge ignores live snapshots.
        let below = |csn: &u64| *csn < covered && !perdura_pmem::planted(Mutant::PurgeIgnoresSnapshots);
        let snapshots: Vec<u64> = self.live().filter(below).collect();
        let purged = self.purged.load(Ordering::Relaxed);
        let limit = snapshots.iter().min().map_or(covered, |oldest| *oldest).max(purged);
        self.purged.store(limit, Ordering::Relaxed);
        PurgeHorizon::new(limit, covered, snapshots)
    }

    /// Tells what snapshots tell apart of the commits up to `visible`, the visible CSN: no snapshot
    /// is taken below that any more. Any thread may call this.
    pub(crate) fn seen(&self, visible: u64) -> PurgeHorizon {
        self.announced.fetch_max(visible, Ordering::SeqCst);
        let snapshots: Vec<u64> = self.live().filter(|csn| *csn < visible).collect();
        let limit = snapshots.iter().min().map_or(visible, |oldest| *oldest);
        PurgeHorizon::new(limit, visible, snapshots)
    }

    fn live(&self) -> impl Iterator<Item = u64> + '_ {
        self.slots.iter().map(|(_, slot)| slot.csn.load(Ordering::SeqCst)).filter(|csn| *csn != NONE)
    }

    /// The snapshot in the slot; `None` without one.
    pub(crate) fn live_in(&self, slot: SlotId) -> Option<Live> {
        let slot = &self.slots[slot.0];
        let csn = slot.csn.load(Ordering::Acquire);
        let taken = Duration::from_millis(slot.taken.load(Ordering::Relaxed));
        (csn != NONE).then_some(Live { csn, taken })
    }

    /// The limit that purge has come to.
    pub(crate) fn purged(&self) -> u64 {
        self.purged.load(Ordering::Relaxed)
    }

    /// CSN of the oldest live snapshot; `None` without any.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.live().min()
    }

    /// Number of live snapshots.
    pub(crate) fn count(&self) -> usize {
        self.slots.iter().filter(|(_, slot)| slot.csn.load(Ordering::Relaxed) != NONE).count()
    }
}
