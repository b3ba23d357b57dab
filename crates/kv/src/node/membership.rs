//! The other members as the leader sees them. Learners become voters when they have caught up, by
//! themselves or as operators ask, and no voter goes that a quorum needs.

use raft::{Progress, ProgressState, RawNode};

use super::output::Holders;
use crate::store::Log;

/// Entries that a learner may lack when it is promoted, beside those of the last tick: under load,
/// some are always on their way.
const LAG_MAX: u64 = 64;

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

/// State by which a leader judges learners.
#[derive(Debug, Default)]
pub(super) struct Membership {
    /// The last index of its log at the last tick.
    last_at_tick: u64,
}

impl Membership {
    /// Whether a learner has what the leader has, but for the last entries, and answers: one that
    /// has not would be a voter that never votes, and cost the cluster its quorum. In a cluster in
    /// which nobody writes it is not sent anything after a snapshot, and so is not in the state in
    /// which Raft sends ahead.
    pub(super) fn is_in_sync(&self, raw: &RawNode<Log>, learner: u64) -> bool {
        let last = raw.raft.raft_log.last_index().min(self.last_at_tick);
        raw.raft.prs().get(learner).is_some_and(|progress| {
            progress.recent_active
                && progress.state != ProgressState::Snapshot
                && progress.matched > 0
                && progress.matched + LAG_MAX >= last
        })
    }

    /// A learner that has caught up, if there is one.
    pub(super) fn in_sync(&self, raw: &RawNode<Log>) -> Option<u64> {
        let members = raw.raft.prs().conf().to_conf_state();
        members.learners.into_iter().find(|id| self.is_in_sync(raw, *id))
    }

    /// A tick ends.
    pub(super) fn tick(&mut self, raw: &RawNode<Log>) {
        self.last_at_tick = raw.raft.raft_log.last_index();
    }
}

/// The other members.
pub(super) fn followers(raw: &RawNode<Log>) -> Vec<Follower> {
    let others = raw.raft.prs().iter().filter(|(id, _)| **id != raw.raft.id);
    let follower = |(id, progress): (&u64, &Progress)| Follower {
        id: *id,
        matched: progress.matched,
        is_active: progress.recent_active,
    };
    others.map(follower).collect()
}

/// Number of some voters that the leader has heard of late.
pub(super) fn active_of(raw: &RawNode<Log>, voters: &[u64]) -> usize {
    let is_active =
        |id: &&u64| **id == raw.raft.id || raw.raft.prs().get(**id).is_some_and(|other| other.recent_active);
    voters.iter().filter(is_active).count()
}

/// Replicas that have an entry on their medium, as replica `at` counts them.
pub(super) fn holders(raw: &RawNode<Log>, index: u64, at: u64) -> Holders {
    let mut holders = Holders::default();
    for (member, progress) in raw.raft.prs().iter() {
        let has_it = progress.matched >= index;
        if *member == at {
            holders.is_here = has_it;
        } else {
            holders.others += usize::from(has_it);
            holders.members += 1;
        }
    }
    holders
}
