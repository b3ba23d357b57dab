//! Requests of operators and responses to them: JSON in the frames of a handshake.

use serde::{Deserialize, Serialize};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AdminRequest {
    /// The replica's status.
    Status,
    /// Take a new replica in, as a learner.
    Join {
        /// Its id.
        replica: u64,
        /// Its address for replicas.
        peer: String,
        /// Its address for clients.
        client: String,
    },
    /// Let a replica go.
    Remove {
        /// Its id.
        replica: u64,
    },
    /// Make a learner a voter.
    Promote {
        /// Its id.
        replica: u64,
    },
    /// Hand leadership over.
    Transfer {
        /// The next leader.
        replica: u64,
    },
    /// Send a snapshot of what is applied.
    Backup,
}

/// A response. A backup's first is [`AdminResponse::Snapshot`]; its chunks follow as frames without
/// JSON, an empty one at the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminResponse {
    /// The replica's status.
    Status(Box<State>),
    /// It is done, and on the media of a quorum.
    Done,
    /// Ask the leader.
    Elsewhere {
        /// Its id, or 0 if none is known.
        leader: u64,
        /// Its address for replicas.
        peer: String,
    },
    /// Not now: ask again.
    Busy {
        /// Why.
        why: String,
    },
    /// It cannot be done.
    Failed {
        /// Why, and what helps.
        why: String,
    },
    /// A snapshot follows.
    Snapshot {
        /// Its last index.
        index: u64,
        /// The term of that.
        term: u64,
        /// The store that it is for: `map` or `wal`.
        format: String,
        /// The cluster that it is of.
        cluster: String,
    },
}

/// Status of a replica, as operators see it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// The program's version.
    pub version: String,
    /// The cluster's id, in hexadecimal.
    pub cluster: String,
    /// The replica's id.
    pub replica: u64,
    /// Its role: leader, follower, candidate, learner or receiving.
    pub role: String,
    /// The newest term that it knows of.
    pub term: u64,
    /// The leader's id, or 0.
    pub leader: u64,
    /// The last index that it knows to be committed.
    pub committed: u64,
    /// The last index that it has applied.
    pub applied: u64,
    /// The last index of its log.
    pub last: u64,
    /// Whether its store has no room.
    pub is_stalled: bool,
    /// Whether its store takes little or nothing more: what /health says.
    pub is_full: bool,
    /// Bytes that its store has, as far as that is known.
    pub store_size: u64,
    /// Bytes of that which are free.
    pub store_free: u64,
    /// Whether clients can be served: what /ready says.
    pub is_ready: bool,
    /// Whether the leader has entries that this replica's program cannot read.
    pub is_outdated: bool,
    /// Its store: list, btree or wal.
    pub store: String,
    /// Seconds since its start.
    pub uptime_s: u64,
    /// Clients that are connected.
    pub clients: u64,
    /// By how many milliseconds its time of day is ahead of the time of the log.
    pub clock_skew_ms: i64,
    /// Number of times that the difference was too large to be corrected.
    pub clock_refusals: u64,
    /// All members.
    pub members: Vec<Member>,
}

/// A member as a replica sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// Its id.
    pub replica: u64,
    /// voter, learner, or leaving.
    pub kind: String,
    /// Whether it leads.
    pub leads: bool,
    /// Its address for replicas.
    pub peer: String,
    /// Its address for clients.
    pub client: String,
    /// Up to which index it has the log. Known to the leader only.
    pub matched: Option<u64>,
    /// Whether it has answered lately. Known to the leader only.
    pub is_active: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::{AdminRequest, AdminResponse, Member, State};

    #[test]
    fn questions_and_answers_come_back() {
        let questions = [
            AdminRequest::Status,
            AdminRequest::Join { replica: 3, peer: "a:1".into(), client: "b:2".into() },
            AdminRequest::Transfer { replica: 4 },
        ];
        for question in questions {
            let text = serde_json::to_vec(&question).expect("JSON");
            assert_eq!(serde_json::from_slice::<AdminRequest>(&text).expect("JSON"), question);
        }
        let members = vec![Member { replica: 1, matched: Some(7), ..Member::default() }];
        let answer = AdminResponse::Status(Box::new(State { term: 3, members, ..State::default() }));
        let text = serde_json::to_vec(&answer).expect("JSON");
        assert_eq!(serde_json::from_slice::<AdminResponse>(&text).expect("JSON"), answer);
        assert!(serde_json::from_slice::<AdminRequest>(b"{\"remove\":{\"replica\":1,\"all\":true}}").is_err());
    }
}
