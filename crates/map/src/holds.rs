//! Holds on garbage: snapshots, and a traversal under way, for which nothing is freed.
//!
//! A hold with a limit ends by itself when the garbage it may be keeping exceeds that. Whoever
//! reads under it looks at it after pinning: what an ended hold had kept is freed only when no pin
//! is as old as its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One hold, shared with who reads under it.
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
}

impl Holds {
    pub(crate) fn any(&self) -> bool {
        !self.held.is_empty()
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

    /// Ends the holds whose limit is below `garbage` bytes. Returns whether there were any.
    #[inline]
    pub(crate) fn limit(&mut self, garbage: u64) -> bool {
        let before = self.held.len();
        self.held.retain(|hold| {
            let stays = hold.garbage_max >= garbage;
            if !stays {
                hold.has_ended.store(true, Ordering::Release);
            }
            stays
        });
        self.held.len() < before
    }
}
