//! How far the others are, as the leader knows.

use super::replica::Node;

/// Another member, as the leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follower {
    /// Its id.
    pub id: u64,
    /// Up to which index it has the log.
    pub matched: u64,
    /// Whether it has answered since the leader last looked.
    pub is_active: bool,
}

impl Node {
    /// The other members, if this is the leader.
    pub fn followers(&self) -> Vec<Follower> {
        let Some(raw) = self.leading() else { return Vec::new() };
        let others = raw.raft.prs().iter().filter(|(id, _)| **id != self.id);
        let follower = |(id, progress): (&u64, &raft::Progress)| Follower {
            id: *id,
            matched: progress.matched,
            is_active: progress.recent_active,
        };
        others.map(follower).collect()
    }
}
