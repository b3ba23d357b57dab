//! Where replicas are reached.
//!
//! The members' addresses are entries of the log, under a key of the system for each. What a
//! replica says of itself when it connects is newer; the leader makes an entry of it where the two
//! differ. A replica that joins knows only what it is told.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::{Bytes, BytesMut};

use super::handshake::Addresses;
use crate::codec::Reader;
use crate::machine::key;
use crate::store::{self, ReadLevel, Store};

/// Replicas of which addresses are kept that are no members that are known.
const UNAUTHENTICATED_MAX: usize = 64;

/// The addresses.
#[derive(Debug, Default)]
pub struct PeerDirectory {
    written: BTreeMap<u64, Addresses>,
    heard: BTreeMap<u64, Addresses>,
}

impl PeerDirectory {
    /// Reads what is applied, at the replica `own`. Returns whether it is another than before. What
    /// another replica has said before it was known where it is counts no more then: nobody could
    /// hold it against anything.
    pub fn read(&mut self, store: &dyn Store, own: u64) -> store::Result<bool> {
        if store.is_partial() {
            return Ok(false);
        }
        let mut written = BTreeMap::new();
        let prefix = key::members();
        store.scan(ReadLevel::Applied, &prefix, Bound::Included(&prefix), &mut |place, value| {
            let id = place.strip_prefix(&prefix[..]).and_then(|id| id.try_into().ok()).map(u64::from_be_bytes);
            let addresses = Addresses::get(&mut Reader::new(Bytes::copy_from_slice(value)));
            if let (Some(id), Ok(addresses)) = (id, addresses) {
                written.insert(id, addresses);
            }
            true
        })?;
        let is_new = written != self.written;
        if is_new {
            self.heard.retain(|id, _| *id == own || self.written.contains_key(id) || !written.contains_key(id));
        }
        self.written = written;
        Ok(is_new)
    }

    /// A replica has said where it is reached. If too many non-members have, one of them is
    /// forgotten, and none that `keeps` says is none.
    pub fn hear(&mut self, replica: u64, addresses: Addresses, keeps: impl Fn(u64) -> bool) {
        self.heard.insert(replica, addresses);
        let non_members = || self.heard.keys().copied().filter(|id| *id != replica && !keeps(*id));
        if non_members().count() >= UNAUTHENTICATED_MAX
            && let Some(non_member) = non_members().next()
        {
            self.heard.remove(&non_member);
        }
    }

    /// Where a replica is reached, if that is known.
    pub fn find(&self, replica: u64) -> Option<&Addresses> {
        self.heard.get(&replica).or_else(|| self.written.get(&replica))
    }

    /// Where a replica is reached, as it is written down.
    pub fn written_of(&self, replica: u64) -> Option<&Addresses> {
        self.written.get(&replica)
    }

    /// Replicas written down with this address for replicas.
    pub fn at_peer(&self, peer: &str) -> Vec<u64> {
        self.written.iter().filter(|(_, addresses)| addresses.peer == peer).map(|(id, _)| *id).collect()
    }

    /// Replicas written down.
    pub fn written(&self) -> impl Iterator<Item = u64> {
        self.written.keys().copied()
    }

    /// Addresses that replicas have announced and that are not written down, of those that are
    /// members by `is_member`.
    pub fn unwritten(&self, is_member: impl Fn(u64) -> bool) -> Vec<(u64, Addresses)> {
        let differs = |(id, heard): &(&u64, &Addresses)| self.written.get(id) != Some(heard) && is_member(**id);
        self.heard.iter().filter(differs).map(|(id, heard)| (*id, heard.clone())).collect()
    }
}

/// Addresses as they are written down.
pub fn to_bytes(addresses: &Addresses) -> Bytes {
    let mut out = BytesMut::new();
    addresses.put(&mut out);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::{Addresses, PeerDirectory, UNAUTHENTICATED_MAX};

    /// Hazard: whoever connects with ids that nobody knows fills the memory, or pushes out where
    /// members are.
    #[test]
    fn non_members_are_forgotten_and_members_are_not() {
        let (mut directory, members) = (PeerDirectory::default(), [1, 1000]);
        for id in (1..500).chain([1000]).chain(2000..2500) {
            directory.hear(id, Addresses { peer: id.to_string(), ..Addresses::default() }, |id| members.contains(&id));
        }
        assert_eq!(directory.heard.len(), UNAUTHENTICATED_MAX + members.len());
        let newest = [1, 1000, 2499].map(|id| directory.find(id).map(|addresses| addresses.peer.clone()));
        assert_eq!(newest, ["1", "1000", "2499"].map(|peer| Some(peer.to_owned())));
    }
}
