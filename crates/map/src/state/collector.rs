//! The collector's memory from round to round, and the requests to it.

use crate::state::milestones::Milestones;
use perdura_pmem::sync::{Mutex, MutexGuard};
use rustc_hash::FxHashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Rounds that are left out for a load that found one running: those of some seconds, for the
/// background thread comes once an interval.
pub(crate) const ROUNDS_LEFT_OUT: u32 = 256;

/// Memory of the collector from round to round.
#[derive(Default)]
pub(crate) struct Memory {
    /// List: dead deletions, by offset, that no longer hide a linked version (see
    /// [`crate::upkeep::list_round`]).
    pub(crate) aged: FxHashSet<u64>,
    pub(crate) milestones: Milestones,
    /// Records of the chain that the last round has looked at.
    #[cfg(test)]
    pub(crate) walked: usize,
}

/// The collector of a map.
#[derive(Default)]
pub(crate) struct Collector {
    /// Held for the length of a collection round.
    memory: Mutex<Memory>,
    /// Whether the background thread was asked for a round that has not ended.
    asked: AtomicBool,
    /// Rounds that are not run, for a load that found one running begins first.
    left_out: AtomicU32,
    /// Garbage, in bytes, that the last round could not free.
    garbage_left: AtomicU64,
}

impl Collector {
    /// Waits for a round to end, and keeps the next from starting.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }

    /// [`Collector::lock`], or none while a round runs.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Memory>> {
        self.memory.try_lock()
    }

    /// Notes whether a round was asked for that has not ended.
    pub(crate) fn set_asked(&self, is_asked: bool) {
        self.asked.store(is_asked, Ordering::SeqCst);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Ends the round that runs early, and leaves out the next ones.
    pub(crate) fn leave_rounds_out(&self) {
        self.left_out.store(ROUNDS_LEFT_OUT, Ordering::Relaxed);
    }

    /// Runs rounds again.
    pub(crate) fn resume_rounds(&self) {
        self.left_out.store(0, Ordering::Relaxed);
    }

    /// Whether rounds are left out.
    pub(crate) fn leaves_rounds_out(&self) -> bool {
        self.left_out.load(Ordering::Relaxed) > 0
    }

    /// Leaves out one round, if any are to be. A load that is not begun after all holds rounds off
    /// no longer than that.
    pub(crate) fn leaves_one_out(&self) -> bool {
        self.left_out.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |rounds| rounds.checked_sub(1)).is_ok()
    }

    pub(crate) fn garbage_left(&self) -> u64 {
        self.garbage_left.load(Ordering::Relaxed)
    }

    pub(crate) fn set_garbage_left(&self, bytes: u64) {
        self.garbage_left.store(bytes, Ordering::Relaxed);
    }
}
