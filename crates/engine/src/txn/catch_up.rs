//! Reading what is committed now instead of what was when the statement began.
//!
//! The server wakes a worker of parallel replication as soon as the transaction before it has its place in the order of
//! commits. That transaction becomes visible a moment later, and the worker must find its rows as that transaction left
//! them.

use super::session::Session;
use crate::error::Result;
use perdura_log::Csn;

impl Session {
    /// Waits until all that has its place in the order of commits is visible, and lets the statement see it from here on. Rows the
    /// statement read before are no longer valid. Returns the last commit seen. A transaction that has a snapshot keeps to it.
    ///
    /// # Errors
    /// ReadOnlyPool if a commit will not become visible because the pool failed stop.
    pub fn catch_up(&mut self) -> Result<Csn> {
        let csn = self.pool.log.last_csn();
        if !self.pool.log.wait_visible(csn) {
            self.pool.check_writable()?;
        }
        self.snapshots.close_statement(&self.pool);
        Ok(csn)
    }

    /// Whether more has been committed than `seen`, or is about to be.
    pub fn is_behind(&self, seen: Csn) -> bool {
        self.pool.log.last_csn() > seen
    }
}
