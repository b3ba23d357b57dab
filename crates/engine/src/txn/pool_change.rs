//! The change that a session is within: while it lasts the pool cannot be held (`pool/hold.rs`).

use crate::error::{Error, ErrorKind, Result};
use crate::pool::Pool;
use crate::pool::owner::Owner;
use perdura_pmem::Mutant;

/// A session's change.
#[derive(Default)]
pub(super) struct PoolChange {
    is_within: bool,
    /// The users of the session are within a change all the time, so it needs none of its own.
    is_covered: bool,
}

impl PoolChange {
    /// Whether the session is within a change.
    pub(super) fn is_within(&self) -> bool {
        self.is_within
    }

    /// Notes that the users of the session are within a change whenever they use it.
    pub(super) fn set_covered(&mut self) {
        self.is_covered = true;
    }

    /// Begins a change that no kill interrupts, unless session `id` is within one.
    pub(super) fn begin_ending(&mut self, pool: &Pool, id: u64) {
        // Planted: a commit or rollback goes on while the pool is held.
        if !self.is_within && !self.is_covered && !perdura_pmem::planted(Mutant::CommitDuringHold) {
            self.is_within = pool.hold.enter(id, || false);
        }
    }

    /// Begins a change as a write of the statement does, unless session `id` is within one.
    ///
    /// # Errors
    /// Killed if the statement is killed while the pool is held.
    #[inline]
    pub(super) fn enter(&mut self, pool: &Pool, id: u64, owner: &Owner) -> Result<()> {
        if self.is_within || self.is_covered { Ok(()) } else { self.begin(pool, id, owner) }
    }

    #[cold]
    fn begin(&mut self, pool: &Pool, id: u64, owner: &Owner) -> Result<()> {
        self.is_within = pool.hold.enter(id, || owner.is_killed());
        if self.is_within {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Killed, "the pool was held for a backup when the statement was killed"))
    }

    /// Ends the change, if session `id` is within one.
    pub(super) fn end(&mut self, pool: &Pool, id: u64) {
        if std::mem::take(&mut self.is_within) {
            pool.hold.leave(id);
        }
    }
}
