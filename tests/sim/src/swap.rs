//! Replacing a replica whose memory is lost: another with a new id joins as a learner, catches up,
//! and takes its place in one joint change.

use perdura_kv::codec::change_of;
use perdura_kv::node::{Node, Role};
use perdura_kv::store;
use raft::eraftpb::{ConfChangeType, ConfState};

/// Entries that a learner may lack when it is promoted.
const LAG_MAX: u64 = 5;

/// A replacement that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Swap {
    /// Replica that is gone.
    pub(super) old: u64,
    /// Replica that comes in its place.
    pub(super) new: u64,
    /// The next ticket. Clients have small ones.
    ticket: u64,
}

impl Swap {
    pub(super) fn new(old: u64, new: u64) -> Self {
        Self { old, new, ticket: u64::MAX / 2 }
    }

    /// Whether the members of a replica are those after the replacement.
    pub(super) fn is_done(&self, members: &ConfState) -> bool {
        let ConfState { voters, voters_outgoing, .. } = members;
        voters.contains(&self.new) && !voters.contains(&self.old) && voters_outgoing.is_empty()
    }

    /// Asks the leader for the next change, if it can be made. `caught_up` is what the new replica
    /// has applied.
    pub(super) fn ask(&mut self, leader: &mut Node, caught_up: u64) -> store::Result<()> {
        let status = leader.status();
        if status.role != Role::Leader {
            return Ok(());
        }
        let members = leader.store().persistent_state().members.clone();
        let changes = if members.learners.contains(&self.new) {
            if caught_up + LAG_MAX < status.applied {
                return Ok(());
            }
            vec![(ConfChangeType::AddNode, self.new), (ConfChangeType::RemoveNode, self.old)]
        } else if !members.voters.contains(&self.new) {
            vec![(ConfChangeType::AddLearnerNode, self.new)]
        } else if members.voters.contains(&self.old) {
            // It was promoted by itself.
            vec![(ConfChangeType::RemoveNode, self.old)]
        } else {
            return Ok(());
        };
        self.ticket += 1;
        leader.change_members(self.ticket, &change_of(&changes)).map(drop)
    }
}
