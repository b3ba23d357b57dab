//! Prepared transactions that no session holds: found at recovery, or left by a session that ended.
//!
//! They keep what it takes to decide them by name: write set, row locks and log handle. Dropping the list leaves them to the
//! pool on the medium, where the next start finds them.

use super::owner::{Owner, RowKey};
use crate::changes::write_set::WriteSet;
use perdura_log::LogTxn;
use perdura_pmem::sync::Mutex;
use std::sync::Arc;

/// A prepared transaction without a session.
pub struct Detached {
    /// Its name.
    pub xid: Vec<u8>,
    /// What it wrote.
    pub writes: WriteSet,
    /// Its part of the log, with a prepare record.
    pub log: LogTxn,
    /// Who holds its locks.
    pub owner: Arc<Owner>,
    /// The rows it has locked.
    pub locks: Vec<RowKey>,
}

/// The prepared transactions of a pool that no session holds.
#[derive(Default)]
pub struct PreparedList(Mutex<Vec<Detached>>);

impl PreparedList {
    /// Keeps one until it is decided by name.
    pub fn add(&self, detached: Detached) {
        self.0.lock().push(detached);
    }

    /// Takes the one of this name, to decide it.
    pub fn take(&self, xid: &[u8]) -> Option<Detached> {
        let mut list = self.0.lock();
        let position = list.iter().position(|detached| detached.xid == xid)?;
        Some(list.swap_remove(position))
    }

    /// Whether one of them wrote to the table.
    pub fn touches(&self, table: u32) -> bool {
        self.0.lock().iter().any(|detached| detached.writes.touches(table))
    }

    /// Their names.
    pub fn xids(&self) -> Vec<Vec<u8>> {
        self.0.lock().iter().map(|detached| detached.xid.clone()).collect()
    }
}
