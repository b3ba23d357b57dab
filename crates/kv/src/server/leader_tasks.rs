//! Tasks of the leader besides Raft's: it writes down where members are reached.

use std::collections::BTreeMap;

use super::peer_directory::{self, PeerDirectory};
use crate::codec::all_members;
use crate::machine::key;
use crate::node::{Node, Role};
use crate::store;

/// Milliseconds after which the address of one that is no member is given up: one that joins is
/// written down before it is a member.
const NON_MEMBER_MS: u64 = 30_000;

/// State of the leader's tasks.
#[derive(Default)]
pub struct LeaderTasks {
    /// Replicas written down that are no members, and since when.
    non_members: BTreeMap<u64, u64>,
}

impl LeaderTasks {
    /// Does what is due, if the replica leads. `ticket` is nobody's.
    pub fn tick(&mut self, node: &mut Node, directory: &PeerDirectory, ticket: u64, now_ms: u64) -> store::Result<()> {
        if node.status().role == Role::Leader {
            return self.write_down(node, directory, ticket, now_ms);
        }
        self.non_members.clear();
        Ok(())
    }

    /// `now_ms` by the server's clock.
    fn write_down(
        &mut self,
        node: &mut Node,
        directory: &PeerDirectory,
        ticket: u64,
        now_ms: u64,
    ) -> store::Result<()> {
        let members = all_members(&node.store().persistent_state().members);
        let new = directory.unwritten(|id| members.contains(&id));
        self.non_members.retain(|id, _| !members.contains(id));
        for id in directory.written().filter(|id| !members.contains(id)) {
            self.non_members.entry(id).or_insert(now_ms);
        }
        let gone: Vec<u64> =
            self.non_members.iter().filter(|(_, since)| now_ms - *since > NON_MEMBER_MS).map(|(id, _)| *id).collect();
        self.non_members.retain(|id, _| !gone.contains(id));
        if new.is_empty() && gone.is_empty() {
            return Ok(());
        }
        // If it is not taken now, the next tick tries again.
        let _ = node.evaluate(ticket, |draft| {
            new.iter().for_each(|(id, addresses)| {
                draft.put_system(&key::member(*id), Some(peer_directory::to_bytes(addresses)))
            });
            gone.iter().for_each(|id| draft.put_system(&key::member(*id), None));
            Ok::<_, ()>(())
        })?;
        Ok(())
    }
}
