//! Raft's messages, field by field.
//!
//! Only messages between replicas go over the network. Those that Raft has a replica send to itself
//! are refused, and so are proposals: the leader evaluates commands itself (entry.rs).

use bytes::{BufMut, Bytes, BytesMut};
use raft::eraftpb::{Entry, Message, MessageType, Snapshot, SnapshotMetadata};

use super::send_queue::SendQueue;
use crate::codec::{ENTRY_BYTES_LEAST, get_entry, get_members, put_entry_front, put_members};
use crate::codec::{Malformed, Read, Reader, put_bytes, put_length};

/// The types that go over the network, by the number that they have there.
const TYPES: [MessageType; 13] = [
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgSnapshot,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgTransferLeader,
    MessageType::MsgTimeoutNow,
    MessageType::MsgReadIndex,
    MessageType::MsgReadIndexResp,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
];

/// Appends a message.
///
/// # Panics
/// If it is one that a replica has for itself.
pub(super) fn put_message(message: &Message, queue: &mut SendQueue) {
    let out = queue.copied();
    let kind = TYPES.iter().position(|kind| *kind == message.msg_type).expect("a message for another replica");
    out.put_u8(kind as u8);
    let numbers = [
        message.to,
        message.from,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.request_snapshot,
        message.reject_hint,
    ];
    numbers.into_iter().for_each(|number| out.put_u64_le(number));
    out.put_i64_le(message.priority);
    out.put_u8(u8::from(message.reject));
    put_bytes(out, &message.context);
    out.put_u32_le(message.entries.len() as u32);
    for entry in &message.entries {
        // As `codec::put_entry` does; long data are shared.
        put_entry_front(entry, queue.copied());
        put_length(queue.copied(), entry.data.len());
        queue.put(&entry.data);
        put_bytes(queue.copied(), &entry.context);
    }
    if message.msg_type == MessageType::MsgSnapshot {
        put_snapshot(message.get_snapshot().get_metadata(), queue.copied());
    }
}

/// The message that was put.
pub(super) fn get_message(bytes: Bytes) -> Read<Message> {
    let mut reader = Reader::new(bytes);
    let kind = usize::from(reader.u8("the type")?);
    let mut message =
        Message { msg_type: *TYPES.get(kind).ok_or(Malformed { field: "the type" })?, ..Message::default() };
    for number in [
        &mut message.to,
        &mut message.from,
        &mut message.term,
        &mut message.log_term,
        &mut message.index,
        &mut message.commit,
        &mut message.commit_term,
        &mut message.request_snapshot,
        &mut message.reject_hint,
    ] {
        *number = reader.u64("a number")?;
    }
    message.priority = reader.u64("the priority")? as i64;
    message.reject = reader.flag("whether it rejects")?;
    message.context = reader.bytes("the context")?;
    let count = reader.count("the number of entries", ENTRY_BYTES_LEAST)?;
    let entries: Vec<Entry> = (0..count).map(|_| get_entry(&mut reader)).collect::<Read<_>>()?;
    let follows = |(before, after): (&Entry, &Entry)| before.index.checked_add(1) == Some(after.index);
    if !entries.iter().zip(entries.iter().skip(1)).all(follows) {
        return Err(Malformed { field: "the order of the entries" });
    }
    message.entries = entries.into();
    if message.msg_type == MessageType::MsgSnapshot {
        let metadata = get_snapshot(&mut reader)?;
        message.set_snapshot(Snapshot { metadata: Some(metadata).into(), ..Snapshot::default() });
    }
    reader.end()?;
    Ok(message)
}

/// Metadata of a snapshot. Its content goes another way.
fn put_snapshot(metadata: &SnapshotMetadata, out: &mut BytesMut) {
    out.put_u64_le(metadata.index);
    out.put_u64_le(metadata.term);
    put_members(metadata.get_conf_state(), out);
}

fn get_snapshot(reader: &mut Reader) -> Read<SnapshotMetadata> {
    let (index, term) = (reader.u64("the index of a snapshot")?, reader.u64("the term of a snapshot")?);
    let members = get_members(reader)?;
    Ok(SnapshotMetadata { conf_state: Some(members).into(), index, term, ..SnapshotMetadata::default() })
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Entry, Message, SendQueue, Snapshot, SnapshotMetadata, TYPES, get_message, put_message};
    use bytes::Buf;
    use proptest::prelude::*;
    use raft::eraftpb::{ConfState, EntryType};

    fn bytes() -> impl Strategy<Value = Bytes> {
        proptest::collection::vec(any::<u8>(), 0..12).prop_map(Bytes::from)
    }

    fn put(message: &Message) -> Bytes {
        let mut queue = SendQueue::default();
        put_message(message, &mut queue);
        queue.copy_to_bytes(queue.len())
    }

    fn ids() -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::vec(any::<u64>(), 0..4)
    }

    prop_compose! {
        fn entries()(first in 1..u64::MAX / 2, parts in proptest::collection::vec((0..3, any::<u64>(), bytes(), bytes()), 0..4)) -> Vec<Entry> {
            let kinds = [EntryType::EntryNormal, EntryType::EntryConfChange, EntryType::EntryConfChangeV2];
            let entry = |(index, (kind, term, data, context)): (u64, (i32, u64, Bytes, Bytes))| Entry {
                entry_type: kinds[kind as usize], term, index, data, context, ..Entry::default()
            };
            (first..).zip(parts).map(entry).collect()
        }
    }

    prop_compose! {
        fn snapshot()(index: u64, term: u64, lists in [ids(), ids(), ids(), ids()], auto_leave: bool) -> Snapshot {
            let [voters, learners, voters_outgoing, learners_next] = lists;
            let members = ConfState { voters, learners, voters_outgoing, learners_next, auto_leave, ..ConfState::default() };
            let metadata = SnapshotMetadata { conf_state: Some(members).into(), index, term, ..SnapshotMetadata::default() };
            Snapshot { metadata: Some(metadata).into(), ..Snapshot::default() }
        }
    }

    prop_compose! {
        fn message()(
            kind in 0..TYPES.len(), numbers: [u64; 9], priority: i64, reject: bool, context in bytes(), entries in entries(),
            snapshot in snapshot(),
        ) -> Message {
            let [to, from, term, log_term, index, commit, commit_term, request_snapshot, reject_hint] = numbers;
            let mut message = Message {
                msg_type: TYPES[kind], to, from, term, log_term, index, commit, commit_term, request_snapshot, reject_hint,
                priority, reject, context, entries: entries.into(), ..Message::default()
            };
            if kind == 4 {
                message.set_snapshot(snapshot);
            }
            message
        }
    }

    proptest! {
        #[test]
        fn a_message_comes_back(message in message()) {
            prop_assert_eq!(get_message(put(&message)), Ok(message));
        }

        #[test]
        fn a_message_cut_or_changed_is_an_error_or_another(message in message(), at: prop::sample::Index, with: u8) {
            let whole = put(&message);
            let cut = whole.slice(..at.index(whole.len()));
            prop_assert!(get_message(cut).is_err());
            let mut changed = whole.to_vec();
            let at = at.index(changed.len());
            changed[at] = with;
            if let Ok(other) = get_message(changed.clone().into()) {
                prop_assert_eq!(put(&other), changed);
            }
        }
    }
}
