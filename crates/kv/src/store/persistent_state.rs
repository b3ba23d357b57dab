//! Identity, hard state and membership of a replica: small, and durable before anything that rests
//! on it.
//!
//! | bytes | |
//! |---|---|
//! | 1 | version of the layout |
//! | 16 | id of the cluster |
//! | 8 | id of the replica |
//! | 8 | term |
//! | 8 | the replica it has voted for in the term, or 0 |
//! | 8 | index of the entry that made the members |
//! | rest | the members (codec/members.rs) |

use bytes::{BufMut, Bytes, BytesMut};
use raft::eraftpb::{ConfState, SnapshotMetadata};

use super::error::{Error, ErrorKind, Result};
use crate::codec::{MEMBERS_MAX, Malformed, Read, Reader, get_members, put_members};

/// Index and term of the entry that every cluster begins with. It is never sent: who lacks it gets
/// a snapshot, which also says who the members are.
pub const FOUNDING: u64 = 1;

const VERSION: u8 = 1;

/// Identity, hard state and membership of a replica.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PersistentState {
    /// The cluster, drawn at random when it was founded.
    pub cluster: u128,
    /// The replica, drawn at random when it was made. Never 0. One that has lost its memory gets
    /// another.
    pub replica: u64,
    /// The newest term that it knows of.
    pub term: u64,
    /// The replica it has voted for in that term, or 0.
    pub vote: u64,
    /// Index of the entry that made the members.
    pub members_at: u64,
    /// The members.
    pub members: ConfState,
}

impl PersistentState {
    /// One of those that found a cluster together.
    pub fn founder(cluster: u128, replica: u64, voters: Vec<u64>) -> Self {
        let members = ConfState { voters, ..ConfState::default() };
        Self { cluster, replica, term: FOUNDING, vote: 0, members_at: FOUNDING, members }
    }

    /// State of a replica that gets its members by a snapshot.
    pub fn joiner(cluster: u128, replica: u64) -> Self {
        Self { cluster, replica, ..Self::default() }
    }

    /// Whether it founds the cluster.
    pub fn is_founder(&self) -> bool {
        self.members_at == FOUNDING
    }

    /// Whether it has no more members than fit.
    pub(crate) fn fits(&self) -> bool {
        let ConfState { voters, learners, voters_outgoing, learners_next, .. } = &self.members;
        let lists = [voters, learners, voters_outgoing, learners_next];
        let count: usize = lists.iter().map(|list| list.len()).sum();
        lists.iter().all(|list| list.len() <= MEMBERS_MAX) && count <= 3 * MEMBERS_MAX
    }

    /// With the members that the entry at an index makes. Error: `Order` if they do not fit.
    pub(super) fn with_members(&self, index: u64, members: &ConfState) -> Result<Self> {
        let persistent_state = Self { members_at: index, members: members.clone(), ..self.clone() };
        if !persistent_state.fits() {
            return Err(Error::order(format!("the entry at {index} makes more members than a replica can note")));
        }
        Ok(persistent_state)
    }

    /// After a snapshot was received. Error: `Refused` if its members do not fit.
    pub(super) fn received(&self, metadata: &SnapshotMetadata) -> Result<Self> {
        let (members_at, members) = (metadata.index, metadata.get_conf_state().clone());
        let mut persistent_state = Self { members_at, members, ..self.clone() };
        if metadata.term > persistent_state.term {
            (persistent_state.term, persistent_state.vote) = (metadata.term, 0);
        }
        if !persistent_state.fits() {
            return Err(Error::refused("more members than a replica can note"));
        }
        Ok(persistent_state)
    }

    /// Of a snapshot of what is applied, up to an entry. Error: `Unready` if the members are those
    /// of a later one.
    pub(super) fn metadata(&self, index: u64, term: u64) -> Result<SnapshotMetadata> {
        let Self { members_at, members, .. } = self;
        if *members_at > index {
            let what = format!("the members are those of {members_at}, and only {index} is applied");
            return Err(Error::new(ErrorKind::Unready, what));
        }
        let conf_state = Some(members.clone()).into();
        Ok(SnapshotMetadata { conf_state, index, term, ..SnapshotMetadata::default() })
    }

    /// The persistent state as it is kept.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(256);
        out.put_u8(VERSION);
        out.put_u128_le(self.cluster);
        [self.replica, self.term, self.vote, self.members_at].into_iter().for_each(|word| out.put_u64_le(word));
        put_members(&self.members, &mut out);
        out.freeze()
    }

    /// The persistent state that was kept.
    pub fn from_bytes(bytes: Bytes) -> Read<Self> {
        let mut reader = Reader::new(bytes);
        if reader.u8("the version")? != VERSION {
            return Err(Malformed::of_other_version());
        }
        let cluster = reader.u128("the cluster")?;
        let mut word = |field| reader.u64(field);
        let (replica, term) = (word("the replica")?, word("the term")?);
        let (vote, members_at) = (word("the vote")?, word("the index of the members")?);
        let members = get_members(&mut reader)?;
        reader.end()?;
        let persistent_state = Self { cluster, replica, term, vote, members_at, members };
        if replica == 0 || !persistent_state.fits() {
            return Err(Malformed { field: "the replica" });
        }
        Ok(persistent_state)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, ConfState, MEMBERS_MAX, PersistentState};
    use proptest::prelude::*;

    fn ids() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec(any::<u64>(), 0..20)
    }

    proptest! {
        #[test]
        fn a_persistent_state_comes_back(
            cluster: u128, words: [u64; 4], lists in [ids(), ids(), ids(), ids()], auto_leave: bool, at: prop::sample::Index,
        ) {
            let [replica, term, vote, members_at] = words;
            let [voters, learners, voters_outgoing, learners_next] = lists;
            let members = ConfState { voters, learners, voters_outgoing, learners_next, auto_leave, ..ConfState::default() };
            let persistent_state = PersistentState { cluster, replica: replica.max(1), term, vote, members_at, members };
            let whole = persistent_state.to_bytes();
            prop_assert!(PersistentState::from_bytes(whole.slice(..at.index(whole.len()))).is_err());
            prop_assert_eq!(PersistentState::from_bytes(whole), Ok(persistent_state));
        }

        #[test]
        fn any_bytes_are_a_persistent_state_or_an_error(mut bytes in proptest::collection::vec(0..3_u8, 0..90)) {
            if let Some(first) = bytes.first_mut() {
                *first = 1;
            }
            let bytes = Bytes::from(bytes);
            if let Ok(persistent_state) = PersistentState::from_bytes(bytes.clone()) {
                prop_assert_eq!(persistent_state.to_bytes(), bytes);
            }
        }
    }

    #[test]
    fn the_most_members_fit_a_maps_meta() {
        let all: Vec<u64> = (1..=MEMBERS_MAX as u64).collect();
        let (voters, voters_outgoing, learners_next) = (all.clone(), all.clone(), all);
        let members = ConfState { voters, voters_outgoing, learners_next, ..ConfState::default() };
        let persistent_state = PersistentState { replica: 1, members, ..PersistentState::default() };
        assert!(persistent_state.fits() && persistent_state.to_bytes().len() <= perdura_map::META_BYTES_MAX);
    }
}
