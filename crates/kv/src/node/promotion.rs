//! Learners become voters by themselves when they have caught up.

use raft::eraftpb::ConfChangeType;
use raft::{ProgressState, RawNode, StateRole};

use super::{Node, Part};
use crate::codec::change_of;
use crate::store::{self, Log};

/// Entries that a learner may lack when it is promoted, beside those of the last tick: under load, some are always on their way.
const LAG_MAX: u64 = 64;

/// The learner that may vote now, if any: one that was heard of late, and lacks little. In a cluster in which nobody writes it is not sent
/// anything after a snapshot, and so is not in the state in which Raft sends ahead.
fn caught_up(raw: &RawNode<Log>, last_at_tick: u64) -> Option<u64> {
    let tracker = raw.raft.prs();
    let last = raw.raft.raft_log.last_index().min(last_at_tick);
    let members = tracker.conf().to_conf_state();
    let is_ready = |id: &u64| {
        let progress = tracker.get(*id);
        progress.is_some_and(|progress| {
            progress.recent_active
                && progress.state != ProgressState::Snapshot
                && progress.matched > 0
                && progress.matched + LAG_MAX >= last
        })
    };
    members.learners.into_iter().find(is_ready)
}

impl Node {
    /// Proposes that a learner that has caught up be a voter, if this is the leader and no change of members is under way.
    pub(super) fn promote(&mut self) -> store::Result<()> {
        let Part::Member(raw) = &self.part else { return Ok(()) };
        let last_at_tick = std::mem::replace(&mut self.last_at_tick, raw.raft.raft_log.last_index());
        if !self.settings.promotes_learners || raw.raft.state != StateRole::Leader {
            return Ok(());
        }
        let Some(node_id) = caught_up(raw, last_at_tick) else { return Ok(()) };
        // Refused while another change is under way: it is tried again at the next tick.
        let _ = self.propose_members(&change_of(&[(ConfChangeType::AddNode, node_id)]))?;
        self.turn()
    }
}
