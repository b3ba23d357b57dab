//! What waits until it is durable.

use raft::Ready;
use raft::eraftpb::Message;

/// What waits for the store.
#[derive(Default)]
pub(super) struct Unpersisted {
    /// Number of the last that Raft wants to be told of.
    pub(super) number: Option<u64>,
    /// Entries that are not durable.
    pub(super) entries: usize,
    /// Messages that leave then.
    pub(super) late: Vec<Message>,
    /// What the store had no room for.
    pub(super) stalled: Option<Ready>,
}

impl Unpersisted {
    pub(super) fn is_stalled(&self) -> bool {
        self.stalled.is_some()
    }
}
