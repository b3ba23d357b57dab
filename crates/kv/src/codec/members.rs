//! Membership and changes of it, as bytes. Both are bounded by [`MEMBERS_MAX`].

use bytes::{BufMut, Bytes, BytesMut};
use raft::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState};

use super::fields::{Malformed, Read, Reader};

/// Most members of each role.
pub(crate) const MEMBERS_MAX: usize = 31;
const TRANSITIONS: [ConfChangeTransition; 3] =
    [ConfChangeTransition::Auto, ConfChangeTransition::Implicit, ConfChangeTransition::Explicit];
const TYPES: [ConfChangeType; 3] =
    [ConfChangeType::AddNode, ConfChangeType::RemoveNode, ConfChangeType::AddLearnerNode];

/// All that a configuration names, once each.
pub(crate) fn all_members(members: &ConfState) -> Vec<u64> {
    let lists = [&members.voters, &members.learners, &members.voters_outgoing, &members.learners_next];
    let mut all: Vec<u64> = lists.into_iter().flatten().copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// A change of single members.
pub fn change_of(singles: &[(ConfChangeType, u64)]) -> ConfChangeV2 {
    let single = |(change_type, node_id): &(ConfChangeType, u64)| ConfChangeSingle {
        change_type: *change_type,
        node_id: *node_id,
        ..ConfChangeSingle::default()
    };
    ConfChangeV2 { changes: singles.iter().map(single).collect::<Vec<_>>().into(), ..ConfChangeV2::default() }
}

/// Appends the members: four lists, each behind its count in a byte, then whether a joint
/// configuration is left by itself.
///
/// # Panics
/// If a list has more than [`MEMBERS_MAX`].
pub(crate) fn put_members(members: &ConfState, out: &mut BytesMut) {
    for list in [&members.voters, &members.learners, &members.voters_outgoing, &members.learners_next] {
        assert!(list.len() <= MEMBERS_MAX, "{} members of one role", list.len());
        out.put_u8(list.len() as u8);
        list.iter().for_each(|id| out.put_u64_le(*id));
    }
    out.put_u8(u8::from(members.auto_leave));
}

/// The members that were put.
pub fn get_members(reader: &mut Reader) -> Read<ConfState> {
    let mut members = ConfState::default();
    for list in [&mut members.voters, &mut members.learners, &mut members.voters_outgoing, &mut members.learners_next] {
        let count = usize::from(reader.u8("the number of members")?);
        if count > MEMBERS_MAX {
            return Err(Malformed { field: "the number of members" });
        }
        *list = (0..count).map(|_| reader.u64("a member")).collect::<Read<_>>()?;
    }
    members.auto_leave = reader.flag("whether members leave by themselves")?;
    Ok(members)
}

/// A change of members: the transition, then a type and an id for each that changes.
///
/// # Panics
/// If more than [`MEMBERS_MAX`] change.
pub(crate) fn put_change(change: &ConfChangeV2) -> Bytes {
    assert!(change.changes.len() <= MEMBERS_MAX, "{} members change", change.changes.len());
    let place = |found: Option<usize>| found.expect("one of the three there are") as u8;
    let mut out = BytesMut::with_capacity(1 + 9 * change.changes.len());
    out.put_u8(place(TRANSITIONS.iter().position(|transition| *transition == change.transition)));
    for single in &change.changes {
        out.put_u8(place(TYPES.iter().position(|kind| *kind == single.change_type)));
        out.put_u64_le(single.node_id);
    }
    out.freeze()
}

/// The change that was put.
pub fn get_change(bytes: Bytes) -> Read<ConfChangeV2> {
    const SINGLE_BYTES: usize = 9;
    let field = "a change of members";
    let mut reader = Reader::new(bytes);
    let transition = *TRANSITIONS.get(usize::from(reader.u8(field)?)).ok_or(Malformed { field })?;
    let count = reader.left() / SINGLE_BYTES;
    if count > MEMBERS_MAX {
        return Err(Malformed { field });
    }
    let mut changes = Vec::with_capacity(count);
    for _ in 0..count {
        let change_type = *TYPES.get(usize::from(reader.u8(field)?)).ok_or(Malformed { field })?;
        changes.push(ConfChangeSingle { change_type, node_id: reader.u64(field)?, ..ConfChangeSingle::default() });
    }
    reader.end()?;
    Ok(ConfChangeV2 { transition, changes: changes.into(), ..ConfChangeV2::default() })
}

#[cfg(test)]
mod tests {
    use super::{Bytes, BytesMut, ConfChangeSingle, ConfChangeV2, ConfState, MEMBERS_MAX, Reader, TRANSITIONS, TYPES};
    use super::{get_change, get_members, put_change, put_members};
    use proptest::prelude::*;

    fn ids() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec(any::<u64>(), 0..=MEMBERS_MAX)
    }

    proptest! {
        #[test]
        fn members_come_back(lists in [ids(), ids(), ids(), ids()], auto_leave: bool, at: prop::sample::Index) {
            let [voters, learners, voters_outgoing, learners_next] = lists;
            let members =
                ConfState { voters, learners, voters_outgoing, learners_next, auto_leave, ..ConfState::default() };
            let mut out = BytesMut::new();
            put_members(&members, &mut out);
            let whole = out.freeze();
            let mut reader = Reader::new(whole.clone());
            prop_assert_eq!(get_members(&mut reader), Ok(members));
            prop_assert_eq!(reader.end(), Ok(()));
            let cut = whole.slice(..at.index(whole.len()));
            prop_assert!(get_members(&mut Reader::new(cut)).is_err());
        }

        #[test]
        fn a_change_comes_back(transition in 0..3_usize, singles in proptest::collection::vec((0..3_usize, any::<u64>()), 0..=MEMBERS_MAX)) {
            let single = |(kind, node_id): (usize, u64)| {
                ConfChangeSingle { change_type: TYPES[kind], node_id, ..ConfChangeSingle::default() }
            };
            let changes: Vec<_> = singles.into_iter().map(single).collect();
            let change = ConfChangeV2 { transition: TRANSITIONS[transition], changes: changes.into(), ..ConfChangeV2::default() };
            prop_assert_eq!(get_change(put_change(&change)), Ok(change));
        }

        #[test]
        fn any_bytes_are_a_change_or_an_error(bytes in proptest::collection::vec(0..4_u8, 0..40)) {
            let bytes = Bytes::from(bytes);
            if let Ok(change) = get_change(bytes.clone()) {
                prop_assert_eq!(put_change(&change), bytes);
            }
        }
    }

    #[test]
    fn more_members_than_may_be_are_refused() {
        assert!(get_change(Bytes::from([&[0][..], &[0; 9 * 32]].concat())).is_err());
        assert!(get_members(&mut Reader::new(Bytes::from(vec![32; 400]))).is_err());
    }
}
