//! Elections: how long a replica waits before it begins one, and its promise to the leader.

use raft::{RawNode, StateRole};

use super::lease::Promise;
use super::settings::Settings;
use crate::store::Log;

/// State of a replica's elections.
pub(super) struct Elections {
    promise: Promise,
    /// Number of those that it has begun, so that each waits for another time.
    begun: u64,
}

impl Elections {
    /// The state at a start, in a term.
    pub(super) fn new(term: u64, settings: &Settings) -> Self {
        Self { promise: Promise::new(term, settings.election_ticks), begun: 0 }
    }

    /// Number of elections that the replica has begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// A leader was heard.
    pub(super) fn hear_leader(&mut self, settings: &Settings) {
        self.promise.hear(settings.election_ticks);
    }

    /// Whether no vote may be given now.
    pub(super) fn binds(&self) -> bool {
        self.promise.binds()
    }

    /// A tick of Raft has passed.
    pub(super) fn tick(&mut self, raw: &mut RawNode<Log>, may_lead: bool, settings: &Settings) {
        self.promise.tick();
        // Raft draws it at random each time; a seed must decide it.
        let timeout = settings.election_timeout(raw.raft.id, raw.raft.term, self.begun);
        raw.raft.set_randomized_election_timeout(timeout);
        let was_leader = raw.raft.state == StateRole::Leader;
        if !may_lead && !was_leader {
            // It is never long enough without a leader, but as long as it has to be to vote for
            // one.
            let ticks = settings.election_ticks;
            raw.raft.set_randomized_election_timeout(2 * ticks - 1);
            raw.raft.election_elapsed = raw.raft.election_elapsed.min(ticks - 1);
        }
        if raw.tick() && !was_leader {
            self.begun += 1;
        }
    }
}

/// Whether a replica is the only one that votes: then it has heard no other lead.
pub(super) fn is_alone(raw: &RawNode<Log>) -> bool {
    let members = raw.raft.prs().conf().to_conf_state();
    members.voters == [raw.raft.id] && members.voters_outgoing.is_empty()
}
