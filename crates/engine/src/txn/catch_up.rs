//! Catching up: a statement sees what is committed now instead of what was committed when it began.
//!
//! The server wakes a worker of parallel replication as soon as the transaction before it has its
//! place in the commit order. That transaction becomes visible a moment later, and the worker must
//! find its rows as that transaction left them.

use super::session::Session;
use crate::error::Result;
use perdura_log::Csn;

impl Session {
    /// Waits until every commit that has a CSN is visible, and closes the statement's snapshot: its
    /// next read sees them. Rows that the statement has read are no longer valid. A transaction
    /// that has a snapshot of its own keeps reading at it. Returns the last CSN waited for.
    ///
    /// # Errors
    /// ReadOnlyPool if a commit will never become visible because the pool failed stop.
    pub fn catch_up(&mut self) -> Result<Csn> {
        let csn = self.pool.log.last_csn();
        if !self.pool.log.wait_visible(csn) {
            self.pool.check_writable()?;
        }
        self.snapshots.close_statement(&self.pool);
        Ok(csn)
    }

    /// Whether a CSN above `seen` has been given out.
    pub fn is_behind(&self, seen: Csn) -> bool {
        self.pool.log.last_csn() > seen
    }
}
