//! Holds on garbage: snapshots, a traversal under way, and a load, for which nothing is collected.
//!
//! A hold with a limit ends by itself when the garbage it may be keeping exceeds that. Its readers
//! look at it after pinning: garbage that an ended hold had kept is freed only when no pin is as
//! old as its end. Keeps (I8).

use crate::memory::pin::Pins;
use perdura_pmem::{Mutant, planted};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One hold, shared with its readers.
pub(crate) struct Hold {
    has_ended: AtomicBool,
    /// The garbage of the map, in bytes, beyond which the hold ends.
    garbage_max: u64,
}

impl Hold {
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

/// All holds of a map. Owned by the writer's lock.
#[derive(Default)]
pub(crate) struct Holds {
    held: Vec<Arc<Hold>>,
    /// The epoch in which a hold has ended by itself, until no reader is as old.
    ending: Option<u64>,
    is_loading: bool,
}

impl Holds {
    pub(crate) fn any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether a snapshot or a load keeps the collector away.
    pub(crate) fn keep_collector_away(&self) -> bool {
        // Planted: a snapshot does not hold off the collector.
        self.any() && !planted(Mutant::SnapshotHoldsNoCollector) || self.is_loading
    }

    /// Whether memory that persists do not reach any more may still be read: under a snapshot, or
    /// under one that has ended.
    #[inline]
    pub(crate) fn keep_garbage(&self) -> bool {
        self.any() || self.ending.is_some()
    }

    pub(crate) fn is_loading(&self) -> bool {
        self.is_loading
    }

    pub(crate) fn set_loading(&mut self, is_loading: bool) {
        self.is_loading = is_loading;
    }

    /// Adds a hold that ends when the map has more than `garbage_max` bytes of garbage.
    pub(crate) fn add(&mut self, garbage_max: u64) -> Arc<Hold> {
        let hold = Arc::new(Hold { has_ended: AtomicBool::new(false), garbage_max });
        self.held.push(hold.clone());
        hold
    }

    /// Removes a hold, unless it has ended by itself.
    pub(crate) fn remove(&mut self, hold: &Arc<Hold>) {
        self.held.retain(|held| !Arc::ptr_eq(held, hold));
    }

    /// Ends the holds whose limit is below `garbage` bytes.
    #[inline]
    pub(crate) fn limit(&mut self, garbage: u64, pins: &Pins) {
        let before = self.held.len();
        self.held.retain(|hold| {
            let stays = hold.garbage_max >= garbage;
            if !stays {
                hold.has_ended.store(true, Ordering::Release);
            }
            stays
        });
        if self.held.len() < before {
            // Garbage that an ended hold has kept waits for the readers under it when it ended.
            self.ending = Some(pins.advance());
        }
    }

    /// Forgets a hold that has ended by itself once no reader is as old as its end.
    #[inline]
    pub(crate) fn end(&mut self, pins: &Pins) {
        if self.ending.is_some_and(|epoch| pins.oldest() > epoch) {
            self.ending = None;
        }
    }
}
