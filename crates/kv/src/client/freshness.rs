//! Freshness of a connection's reads: the entries that they must have seen, and whether the leader
//! is asked.

/// Freshness of a connection's reads.
#[derive(Debug, Default)]
pub(super) struct Freshness {
    newest: u64,
    is_readonly: bool,
}

impl Freshness {
    /// The newest entry that the connection's commands have made or rest on.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Notes that entry.
    pub(super) fn set_newest(&mut self, index: u64) {
        self.newest = index;
    }

    /// Whether the connection reads what is applied here, without asking the leader.
    pub(super) fn is_readonly(&self) -> bool {
        self.is_readonly
    }

    /// READONLY, READWRITE.
    pub(super) fn set_readonly(&mut self, is_readonly: bool) {
        self.is_readonly = is_readonly;
    }
}
