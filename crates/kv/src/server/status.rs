//! Status of the replica, as operators see it.

use super::admin::{Member, State};
use super::peers::directory::PeerDirectory;
use super::runtime::Runtime;
use crate::client::Clients;
use crate::codec::all_members;
use crate::config::StoreKind;
use crate::node::{Node, Role};

/// Entries that a replica may have to apply yet and be called ready.
const READY_LAG_MAX: u64 = 1000;

/// The status now.
pub(super) fn state(runtime: &Runtime, node: &Node, clients: &Clients, directory: &PeerDirectory) -> State {
    let (status, room, clock) = (node.status(), node.room(), node.clock());
    let lag = status.committed.saturating_sub(status.applied);
    let serves = matches!(status.role, Role::Leader | Role::Follower | Role::Learner) && status.leader != 0;
    let is_outdated = node.unread().is_some();
    let store = match runtime.config().store.kind {
        StoreKind::List => "list",
        StoreKind::Btree => "btree",
        StoreKind::Wal => "wal",
    };
    State {
        version: env!("CARGO_PKG_VERSION").into(),
        cluster: format!("{:032x}", node.store().persistent_state().cluster),
        replica: node.id(),
        role: format!("{:?}", status.role).to_lowercase(),
        term: status.term,
        leader: status.leader,
        committed: status.committed,
        applied: status.applied,
        last: status.last,
        is_stalled: status.is_stalled,
        is_full: room.is_full(),
        store_size: room.total,
        store_free: room.free,
        is_ready: serves && !status.is_stalled && !is_outdated && lag <= READY_LAG_MAX && clients.knows_users(),
        is_outdated,
        store: store.into(),
        uptime_s: runtime.now_ms() / 1000,
        clients: clients.connections() as u64,
        clock_skew_ms: clock.skew_ms,
        clock_refusals: clock.refusals,
        members: members(node, directory, status.leader),
    }
}

fn members(node: &Node, directory: &PeerDirectory, leader: u64) -> Vec<Member> {
    let (members, followers) = (node.members(), node.followers());
    let member = |replica: u64| {
        let addresses = directory.find(replica).cloned().unwrap_or_default();
        let follower = followers.iter().find(|other| other.id == replica);
        let kind = if members.voters.contains(&replica) {
            "voter"
        } else if members.voters_outgoing.contains(&replica) && !members.learners_next.contains(&replica) {
            "leaving"
        } else {
            "learner"
        };
        Member {
            replica,
            kind: kind.into(),
            leads: replica == leader,
            peer: addresses.peer,
            client: addresses.client,
            matched: follower.map(|other| other.matched),
            is_active: follower.map(|other| other.is_active),
        }
    };
    all_members(members).into_iter().map(member).collect()
}
