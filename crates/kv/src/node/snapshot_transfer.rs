//! A snapshot that another replica fetches.

use crate::store::Outgoing;

/// A snapshot that is fetched.
pub(super) struct SnapshotTransfer {
    pub(super) snapshot: Box<dyn Outgoing>,
    pub(super) idle_ticks: usize,
}

impl SnapshotTransfer {
    pub(super) fn new(snapshot: Box<dyn Outgoing>) -> Self {
        Self { snapshot, idle_ticks: 0 }
    }
}
