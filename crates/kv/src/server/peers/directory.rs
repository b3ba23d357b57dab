//! Addresses of the replicas.
//!
//! The members' addresses are entries of the log, under a key of the system for each. The addresses
//! that a replica announces when it connects are newer; the leader makes an entry of them where the
//! two differ. A replica that joins knows only the addresses that it was given.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::{Bytes, BytesMut};

use super::handshake::Addresses;
use crate::client::Name;
use crate::codec::{Reader, all_members};
use crate::machine::key;
use crate::node::{Node, Rejection, Role};
use crate::store::{self, ReadLevel};

/// Replicas of which addresses are kept that are no members that are known.
const NON_MEMBERS_MAX: usize = 64;
/// Milliseconds after which the leader removes the address of one that is no member: one that joins
/// has its address persisted before it is a member.
const NON_MEMBER_MS: u64 = 30_000;

/// The addresses.
#[derive(Debug, Default)]
pub(crate) struct PeerDirectory {
    persisted: BTreeMap<u64, Addresses>,
    announced: BTreeMap<u64, Addresses>,
    /// Replicas with persisted addresses that are no members, and since when this leader knows.
    non_members: BTreeMap<u64, u64>,
    /// Whether an address has changed since clients got names.
    has_changed: bool,
    /// The index of the entry that made the members whose names clients have.
    named_at: u64,
}

impl PeerDirectory {
    /// Reads the persisted addresses. Those that another replica has announced before any was
    /// persisted count no more then: nothing could be held against them.
    pub(crate) fn read(&mut self, node: &Node) -> store::Result<()> {
        let (store, own) = (node.store(), node.id());
        if store.is_partial() {
            return Ok(());
        }
        let mut persisted = BTreeMap::new();
        let prefix = key::members();
        store.scan(ReadLevel::Applied, &prefix, Bound::Included(&prefix), &mut |place, value| {
            let id = place.strip_prefix(&prefix[..]).and_then(|id| id.try_into().ok()).map(u64::from_be_bytes);
            let addresses = Addresses::get(&mut Reader::new(Bytes::copy_from_slice(value)));
            if let (Some(id), Ok(addresses)) = (id, addresses) {
                persisted.insert(id, addresses);
            }
            true
        })?;
        if persisted != self.persisted {
            let is_known = |id: &u64| self.persisted.contains_key(id) || !persisted.contains_key(id);
            self.announced.retain(|id, _| *id == own || is_known(id));
            self.has_changed = true;
            self.persisted = persisted;
        }
        Ok(())
    }

    /// A replica has announced its addresses. If too many non-members have, one of them is
    /// forgotten, but none that `keeps` names.
    pub(crate) fn announce(&mut self, replica: u64, addresses: Addresses, keeps: impl Fn(u64) -> bool) {
        self.announced.insert(replica, addresses);
        let non_members = || self.announced.keys().copied().filter(|id| *id != replica && !keeps(*id));
        if non_members().count() >= NON_MEMBERS_MAX
            && let Some(non_member) = non_members().next()
        {
            self.announced.remove(&non_member);
        }
        self.has_changed = true;
    }

    /// Persists addresses of a replica that is to join.
    pub(crate) fn persist(
        &mut self,
        replica: u64,
        addresses: Addresses,
        ticket: u64,
        node: &mut Node,
    ) -> store::Result<Result<(), Rejection>> {
        let bytes = to_bytes(&addresses);
        let persisted = node.evaluate(ticket, |draft| {
            draft.put_system(&key::member(replica), Some(bytes));
            Ok::<_, ()>(())
        })?;
        let members = all_members(node.members());
        self.announce(replica, addresses, |id| id == node.id() || members.contains(&id));
        Ok(persisted.map(drop))
    }

    /// Addresses of a replica, if they are known.
    pub(crate) fn find(&self, replica: u64) -> Option<&Addresses> {
        self.announced.get(&replica).or_else(|| self.persisted.get(&replica))
    }

    /// Persisted addresses of a replica.
    pub(crate) fn persisted(&self, replica: u64) -> Option<&Addresses> {
        self.persisted.get(&replica)
    }

    /// Replicas that are persisted with this address for replicas.
    pub(crate) fn at_peer(&self, peer: &str) -> Vec<u64> {
        self.persisted.iter().filter(|(_, addresses)| addresses.peer == peer).map(|(id, _)| *id).collect()
    }

    /// Persists what members have announced, and removes addresses of non-members in time, if this
    /// replica leads. `ticket` is nobody's.
    pub(crate) fn tick(&mut self, node: &mut Node, ticket: u64, now_ms: u64) -> store::Result<()> {
        if node.status().role != Role::Leader {
            self.non_members.clear();
            return Ok(());
        }
        let members = all_members(node.members());
        let differs =
            |(id, announced): &(&u64, &Addresses)| self.persisted.get(id) != Some(announced) && members.contains(id);
        let new: Vec<(u64, Bytes)> =
            self.announced.iter().filter(differs).map(|(id, addresses)| (*id, to_bytes(addresses))).collect();
        self.non_members.retain(|id, _| !members.contains(id));
        for id in self.persisted.keys().filter(|id| !members.contains(id)) {
            self.non_members.entry(*id).or_insert(now_ms);
        }
        let is_gone = |(_, since_ms): &(&u64, &u64)| now_ms - **since_ms > NON_MEMBER_MS;
        let gone: Vec<u64> = self.non_members.iter().filter(is_gone).map(|(id, _)| *id).collect();
        self.non_members.retain(|id, _| !gone.contains(id));
        if new.is_empty() && gone.is_empty() {
            return Ok(());
        }
        // If it is not taken now, the next tick tries again.
        let _ = node.evaluate(ticket, |draft| {
            new.into_iter().for_each(|(id, bytes)| draft.put_system(&key::member(id), Some(bytes)));
            gone.iter().for_each(|id| draft.put_system(&key::member(*id), None));
            Ok::<_, ()>(())
        })?;
        Ok(())
    }

    /// Names of the members by which clients reach them, if they may have changed since the last
    /// call.
    pub(crate) fn take_names(&mut self, node: &Node) -> Option<BTreeMap<u64, Name>> {
        let members_at = node.store().persistent_state().members_at;
        let has_new_members = std::mem::replace(&mut self.named_at, members_at) != members_at;
        if !std::mem::take(&mut self.has_changed) && !has_new_members {
            return None;
        }
        let name = |id: u64| {
            let (host, port) = self.find(id)?.client.rsplit_once(':')?;
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            Some((id, Name { host, port: port.parse().ok()? }))
        };
        Some(all_members(node.members()).into_iter().filter_map(name).collect())
    }
}

/// Addresses as they are persisted.
fn to_bytes(addresses: &Addresses) -> Bytes {
    let mut out = BytesMut::new();
    addresses.put(&mut out);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::{Addresses, NON_MEMBERS_MAX, PeerDirectory};

    /// Hazard: connections with unknown ids fill the memory, or push out where members are.
    #[test]
    fn non_members_are_forgotten_and_members_are_not() {
        let (mut directory, members) = (PeerDirectory::default(), [1, 1000]);
        for id in (1..500).chain([1000]).chain(2000..2500) {
            let addresses = Addresses { peer: id.to_string(), ..Addresses::default() };
            directory.announce(id, addresses, |id| members.contains(&id));
        }
        assert_eq!(directory.announced.len(), NON_MEMBERS_MAX + members.len());
        let newest = [1, 1000, 2499].map(|id| directory.find(id).map(|addresses| addresses.peer.clone()));
        assert_eq!(newest, ["1", "1000", "2499"].map(|peer| Some(peer.to_owned())));
    }
}
