//! Something that is under way against leaders (plot.rs): which, and how far it has come.

/// Ways to make two replicas believe that they lead, while clients still ask the one that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// It is cut off from all.
    Part,
    /// Answers of the others come late; then it is cut off from all.
    Late,
    /// It hands over, and is cut off before it hears of it.
    HandOver,
    /// One replica does not hear it while nothing is written; then all others are started anew, and
    /// it is cut off.
    Forget,
    /// It is cut off, and its process stopped until another leads.
    Stop,
    /// A candidate that nobody hears comes to a later term. Then the others hear the leader, and
    /// after that the candidate, which asks for votes of the term after next.
    Twice,
    /// It is cut off, and one that has long not heard it tries in each step to be elected, while
    /// clients write there and read here.
    Sharp,
    /// It is cut off while clients compare there, another is elected and writes; then it hears of
    /// that, and has not answered yet.
    Deposed,
    /// Figure 8 of Raft's paper: an entry of an earlier term comes to a quorum, and is replaced
    /// then.
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
