//! Prepared transactions without a session: recovery found them, or their session ended.
//!
//! Each keeps what it takes to decide it by name: write set, locks and log handle. Dropping the
//! list decides nothing; the next start finds them in the log again.

use super::held_locks::HeldLocks;
use super::owner::Owner;
use crate::changes::write_set::WriteSet;
use perdura_log::LogTxn;
use perdura_pmem::sync::Mutex;
use std::sync::Arc;

/// A prepared transaction without a session.
pub(crate) struct Detached {
    /// Name under which it was prepared.
    pub xid: Vec<u8>,
    /// Its writes.
    pub writes: WriteSet,
    /// Its log handle, with a durable prepare record.
    pub log: LogTxn,
    /// The owner that holds its locks.
    pub owner: Arc<Owner>,
    /// Its locks.
    pub held: HeldLocks,
}

/// The prepared transactions of a pool that have no session.
#[derive(Default)]
pub(crate) struct PreparedList(Mutex<Vec<Detached>>);

impl PreparedList {
    /// Keeps a transaction until it is decided by name.
    pub(crate) fn add(&self, detached: Detached) {
        self.0.lock().push(detached);
    }

    /// Takes the transaction named `xid` off the list, so that the caller decides it.
    pub(crate) fn take(&self, xid: &[u8]) -> Option<Detached> {
        let mut list = self.0.lock();
        let position = list.iter().position(|detached| detached.xid == xid)?;
        Some(list.swap_remove(position))
    }

    /// Whether any transaction on the list wrote to table `table`.
    pub(crate) fn touches(&self, table: u32) -> bool {
        self.0.lock().iter().any(|detached| detached.writes.touches(table))
    }

    /// The names of the transactions on the list.
    pub(crate) fn xids(&self) -> Vec<Vec<u8>> {
        self.0.lock().iter().map(|detached| detached.xid.clone()).collect()
    }
}
