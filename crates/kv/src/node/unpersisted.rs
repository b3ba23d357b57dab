//! Output that waits until its entries are durable.

use raft::eraftpb::Message;

/// Output that waits for the store.
#[derive(Default)]
pub(super) struct Unpersisted {
    /// Number of the last Ready whose persist Raft waits for.
    number: Option<u64>,
    /// Whether members are noted that are not durable.
    has_members: bool,
    /// Entries that are not durable.
    entries: usize,
    /// Whether the store had no room to make them durable: the next tick tries again.
    is_blocked: bool,
    /// Messages that leave then.
    late: Vec<Message>,
}

impl Unpersisted {
    /// Whether something waits.
    pub(super) fn is_any(&self) -> bool {
        self.is_numbered() || self.has_members
    }

    /// Whether Raft waits for a persist.
    pub(super) fn is_numbered(&self) -> bool {
        self.number.is_some()
    }

    /// Entries that are not durable.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// Whether the store had no room.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// The store had no room. `has_members`: also for noted members.
    pub(super) fn block(&mut self, has_members: bool) {
        self.is_blocked = true;
        self.has_members |= has_members;
    }

    /// Whether the store had no room, and is tried again now.
    pub(super) fn unblock(&mut self) -> bool {
        std::mem::take(&mut self.is_blocked)
    }

    /// Entries came.
    pub(super) fn add_entries(&mut self, count: usize) {
        self.entries += count;
    }

    /// Messages wait until what Raft calls by a number is durable.
    pub(super) fn wait(&mut self, number: u64, late: Vec<Message>) {
        self.number = Some(number);
        self.late.extend(late);
    }

    /// All is durable: returns Raft's number and the messages that have waited, if any do.
    pub(super) fn persisted(&mut self) -> Option<(u64, Vec<Message>)> {
        (self.has_members, self.entries) = (false, 0);
        Some((self.number.take()?, std::mem::take(&mut self.late)))
    }
}
