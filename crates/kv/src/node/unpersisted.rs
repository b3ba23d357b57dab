//! Output that waits until its entries are durable.

use raft::eraftpb::Message;

/// Output that waits for the store.
#[derive(Default)]
pub(super) struct Unpersisted {
    /// Number of the last that Raft wants to be told of.
    pub(super) number: Option<u64>,
    /// Whether members are noted that are not durable.
    pub(super) has_members: bool,
    /// Entries that are not durable.
    pub(super) entries: usize,
    /// Whether the store had no room to make them durable: the next tick tries again.
    pub(super) is_blocked: bool,
    /// Messages that leave then.
    pub(super) late: Vec<Message>,
}

impl Unpersisted {
    /// Whether something waits.
    pub(super) fn is_any(&self) -> bool {
        self.number.is_some() || self.has_members
    }
}
