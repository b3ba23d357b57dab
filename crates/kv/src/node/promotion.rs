//! Learners become voters when they have caught up, by themselves or as operators ask, and no voter
//! goes that a quorum needs.

use raft::eraftpb::ConfChangeType;
use raft::{ProgressState, RawNode, StateRole};

use super::{Node, Part};
use crate::codec::change_of;
use crate::store::{self, Log};

/// Entries that a learner may lack when it is promoted, beside those of the last tick: under load,
/// some are always on their way.
const LAG_MAX: u64 = 64;

/// Whether a learner may vote now: one that was heard of late, and lacks little. In a cluster in
/// which nobody writes it is not sent anything after a snapshot, and so is not in the state in
/// which Raft sends ahead.
fn is_in_sync(raw: &RawNode<Log>, id: u64, last_at_tick: u64) -> bool {
    let last = raw.raft.raft_log.last_index().min(last_at_tick);
    raw.raft.prs().get(id).is_some_and(|progress| {
        progress.recent_active
            && progress.state != ProgressState::Snapshot
            && progress.matched > 0
            && progress.matched + LAG_MAX >= last
    })
}

impl Node {
    /// Whether a learner has what this leader has, but for the last entries, and answers: one that
    /// has not would be a voter that never votes, and cost the cluster its quorum.
    pub fn is_in_sync(&self, learner: u64) -> bool {
        self.leading().is_some_and(|raw| is_in_sync(raw, learner, self.last_at_tick))
    }

    /// How many of some voters this leader has heard of late.
    pub fn active_of(&self, voters: &[u64]) -> usize {
        let Some(raw) = self.leading() else { return 0 };
        let is_active =
            |id: &&u64| **id == self.id || raw.raft.prs().get(**id).is_some_and(|other| other.recent_active);
        voters.iter().filter(is_active).count()
    }

    /// Proposes that a learner that has caught up be a voter, if this is the leader and no change
    /// of members is under way.
    pub(super) fn promote(&mut self) -> store::Result<()> {
        let Part::Member(raw) = &self.part else { return Ok(()) };
        let last_at_tick = std::mem::replace(&mut self.last_at_tick, raw.raft.raft_log.last_index());
        if !self.settings.promotes_learners || raw.raft.state != StateRole::Leader {
            return Ok(());
        }
        let members = raw.raft.prs().conf().to_conf_state();
        let Some(node_id) = members.learners.into_iter().find(|id| is_in_sync(raw, *id, last_at_tick)) else {
            return Ok(());
        };
        // Refused while another change is under way: it is tried again at the next tick.
        let _ = self.propose_members(&change_of(&[(ConfChangeType::AddNode, node_id)]))?;
        self.turn()
    }
}
