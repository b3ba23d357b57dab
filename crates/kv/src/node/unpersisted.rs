//! What waits until it is durable.

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
}
