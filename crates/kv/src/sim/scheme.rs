//! Something that is under way against leaders (plot.rs): which, and how far it has come.

/// Ways to make two replicas believe that they lead, while clients still ask the one that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// It is cut off from all.
    Part,
    /// What the others answer comes late; then it is cut off from all.
    Late,
    /// It hands over, and is cut off before it hears of it.
    HandOver,
    /// One replica does not hear it while nothing is written; then all others are started anew, and it is cut off.
    Forget,
    /// It is cut off, and its process stopped until another leads.
    Stop,
    /// Figure 8 of Raft's paper: an entry of an earlier term comes to a quorum, and is replaced then.
    Figure8,
}

/// Something that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scheme {
    pub(super) how: How,
    /// The place of the leader that it began with.
    pub(super) leader: usize,
    /// When it goes on.
    pub(super) at: u64,
    /// Parts that are done.
    pub(super) done: u32,
    /// When the part that is under way is given up.
    pub(super) until: u64,
}
