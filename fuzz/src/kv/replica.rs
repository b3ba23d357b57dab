//! Messages that another replica made up: each is one that the wire lets through, and none may stop
//! a replica.

use bytes::Bytes;
use perdura_kv::entry::WriteBatch;
use perdura_kv::node::{Node, Settings};
use perdura_kv::sim::{Place, Variant};
use perdura_kv::store::{ErrorKind, PersistentState};
use perdura_kv::wire::{Chunk, Fetch, PeerMessage};
use raft::eraftpb::{ConfState, Entry, EntryType, Message, MessageType, Snapshot, SnapshotMetadata};

use super::input::Input;

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

/// A small number, most of the time.
fn number(input: &mut Input<'_>) -> u64 {
    match input.u8() {
        255 => u64::MAX,
        254 => 1 << 61,
        small => u64::from(small % 12),
    }
}

fn message(input: &mut Input<'_>, msg_type: MessageType, format: u8) -> Message {
    let mut message = Message { msg_type, to: 1, from: 2 + u64::from(input.u8() % 3), ..Message::default() };
    message.term = number(input);
    message.log_term = number(input);
    message.index = number(input);
    message.commit = number(input);
    message.commit_term = number(input);
    message.request_snapshot = if input.u8() > 250 { number(input) } else { 0 };
    message.reject_hint = number(input);
    message.reject = input.u8().is_multiple_of(3);
    message.context = Bytes::copy_from_slice(input.bytes(usize::from(message.reject)));
    let mut entries = Vec::new();
    for step in 1..=u64::from(input.u8() % 3) {
        let data = if input.u8().is_multiple_of(2) {
            WriteBatch::default().to_bytes()
        } else {
            Bytes::copy_from_slice(input.bytes(3))
        };
        let Some(index) = message.index.checked_add(step) else { break };
        let entry_type = match input.u8() {
            0..200 => EntryType::EntryNormal,
            200..230 => EntryType::EntryConfChange,
            _ => EntryType::EntryConfChangeV2,
        };
        let context = Bytes::copy_from_slice(input.bytes(usize::from(entry_type != EntryType::EntryNormal) * 9));
        entries.push(Entry { entry_type, term: number(input), index, data, context, ..Entry::default() });
    }
    message.entries = entries.into();
    if msg_type == MessageType::MsgSnapshot {
        let voters = (0..input.u8() % 4).map(|_| number(input)).collect();
        let conf_state = Some(ConfState { voters, ..ConfState::default() }).into();
        let metadata =
            SnapshotMetadata { conf_state, index: number(input), term: number(input), ..SnapshotMetadata::default() };
        message.context = [&[if input.u8() > 250 { 9 } else { format }][..], &[0; 8]].concat().into();
        message.set_snapshot(Snapshot { metadata: Some(metadata).into(), ..Snapshot::default() });
    }
    message
}

fn store_format(variant: Variant) -> u8 {
    match variant {
        Variant::Wal => 2,
        _ => 1,
    }
}

/// Clocks that stand.
struct Stopped;

impl perdura_kv::node::Clocks for Stopped {
    fn steady_us(&self) -> u64 {
        5000
    }

    fn wall_ms(&self) -> u64 {
        5
    }
}

/// The input decides what comes: messages, ticks, persists, requests.
pub fn replica(data: &[u8]) {
    let mut input = Input(data);
    let persistent_state = PersistentState::founder(7, 1, vec![1, 2, 3]);
    let variant = if input.u8().is_multiple_of(2) { Variant::List } else { Variant::Wal };
    let format = store_format(variant);
    let (_place, store) = Place::create(variant, 512 << 10, &persistent_state).expect("a new store");
    let settings = Settings { election_ticks: 3, heartbeat_ticks: 1, ..Settings::default() };
    let mut node = Node::open(store, settings, Box::new(Stopped)).expect("a replica");
    let mut ticket = 0;
    while !input.is_over() {
        let done = match input.u8() % 24 {
            kind @ 0..13 => {
                node.step(PeerMessage::Raft(message(&mut input, TYPES[usize::from(kind)], format))).map(drop)
            }
            13..17 => node.tick(),
            17 | 18 => node.persist(),
            19 => {
                ticket += 1;
                let put = |draft: &mut perdura_kv::node::Draft<'_>| {
                    draft.put(b"key", Bytes::from_static(b"value"), None).map_err(drop)
                };
                node.evaluate(ticket, put).map(drop)
            }
            20 => node.read(ticket + 1_000_000),
            21 => node.tidy().map(drop),
            22 => {
                let (index, term, number) = (number(&mut input), number(&mut input), u32::from(input.u8() % 3));
                node.step(PeerMessage::Fetch(Fetch { from: 2, to: 1, index, term, number })).map(drop)
            }
            _ => {
                let (index, term, number) = (number(&mut input), number(&mut input), u32::from(input.u8() % 3));
                let (is_last, bytes) = (input.u8().is_multiple_of(2), Bytes::copy_from_slice(input.bytes(20)));
                node.step(PeerMessage::Chunk(Chunk { from: 2, to: 1, index, term, number, is_last, bytes })).map(drop)
            }
        };
        let _ = node.take_output();
        // A replica whose store is at its end is closed. What others send must not be why.
        if let Err(error) = done {
            assert!(![ErrorKind::Entry, ErrorKind::Order].contains(&error.kind()), "{error}");
            return;
        }
    }
}
