//! Messages: all that one replica sends another. Raft's messages, and the content of snapshots,
//! which the receiver fetches chunk by chunk, so that it sets the ticker and goes on where it was.

use bytes::{BufMut, Bytes, BytesMut};
use raft::eraftpb::Message;

use super::message::{get_message, put_message};
use super::send_queue::SendQueue;
use crate::codec::{Malformed, Read, Reader};

const RAFT: u8 = 1;
const FETCH: u8 = 2;
const CHUNK: u8 = 3;

/// Most bytes of a chunk.
pub(super) const CHUNK_BYTES_MAX: usize = 4 << 20;

/// Asks for a chunk of the snapshot that an earlier message of Raft has offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Asking replica.
    pub from: u64,
    /// Replica that has the snapshot.
    pub to: u64,
    /// The last index in the snapshot.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// The chunk's number, from 0 on.
    pub number: u32,
}

/// A chunk of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Replica that has the snapshot.
    pub from: u64,
    /// Replica that has asked.
    pub to: u64,
    /// The last index in the snapshot.
    pub index: u64,
    /// Its term.
    pub term: u64,
    /// The chunk's number.
    pub number: u32,
    /// Whether there are none after it.
    pub is_last: bool,
    /// Its content.
    pub bytes: Bytes,
}

/// Message of one replica to another.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerMessage {
    /// A message of Raft.
    Raft(Message),
    /// Asks for a chunk of a snapshot.
    Fetch(Fetch),
    /// A chunk of a snapshot.
    Chunk(Chunk),
}

impl PeerMessage {
    /// Sender.
    pub fn from(&self) -> u64 {
        match self {
            PeerMessage::Raft(message) => message.from,
            PeerMessage::Fetch(fetch) => fetch.from,
            PeerMessage::Chunk(chunk) => chunk.from,
        }
    }

    /// The replica it is to.
    pub fn to(&self) -> u64 {
        match self {
            PeerMessage::Raft(message) => message.to,
            PeerMessage::Fetch(fetch) => fetch.to,
            PeerMessage::Chunk(chunk) => chunk.to,
        }
    }
}

/// Appends the frame of a message.
///
/// # Panics
/// If a message of Raft is one that a replica has for itself, or the frame is longer than one may
/// be.
pub fn put_peer_message(message: &PeerMessage, out: &mut BytesMut) {
    let mut queue = SendQueue::default();
    queue_peer_message(message, &mut queue);
    out.put(queue);
}

/// Appends the frame of a message to what is sent. Long data are shared.
///
/// # Panics
/// As [`put_peer_message`].
pub fn queue_peer_message(message: &PeerMessage, queue: &mut SendQueue) {
    match message {
        PeerMessage::Raft(message) => queue.put_frame(RAFT, |queue| put_message(message, queue)),
        PeerMessage::Fetch(Fetch { from, to, index, term, number }) => queue.put_frame(FETCH, |queue| {
            let out = queue.copied();
            [from, to, index, term].into_iter().for_each(|word| out.put_u64_le(*word));
            out.put_u32_le(*number);
        }),
        PeerMessage::Chunk(Chunk { from, to, index, term, number, is_last, bytes }) => {
            queue.put_frame(CHUNK, |queue| {
                let out = queue.copied();
                [from, to, index, term].into_iter().for_each(|word| out.put_u64_le(*word));
                out.put_u32_le(*number);
                out.put_u8(u8::from(*is_last));
                queue.put(bytes);
            })
        }
    }
}

/// The message in a frame of a kind.
pub fn get_peer_message(kind: u8, bytes: Bytes) -> Read<PeerMessage> {
    if kind == RAFT {
        return get_message(bytes).map(PeerMessage::Raft);
    }
    let mut reader = Reader::new(bytes);
    let mut word = |field| reader.u64(field);
    let (from, to) = (word("who it is from")?, word("whom it is to")?);
    let (index, term) = (word("the index of a snapshot")?, word("the term of a snapshot")?);
    let number = reader.u32("the number of a chunk")?;
    match kind {
        FETCH => {
            reader.end()?;
            Ok(PeerMessage::Fetch(Fetch { from, to, index, term, number }))
        }
        CHUNK => {
            let is_last = reader.flag("whether a chunk is the last")?;
            let bytes = reader.rest();
            if bytes.len() > CHUNK_BYTES_MAX {
                return Err(Malformed { field: "a chunk" });
            }
            Ok(PeerMessage::Chunk(Chunk { from, to, index, term, number, is_last, bytes }))
        }
        _ => Err(Malformed { field: "the kind of a message" }),
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, BytesMut, CHUNK_BYTES_MAX, Chunk, Fetch, PeerMessage, get_peer_message, put_peer_message};
    use crate::wire::{FRAME_BYTES_MAX, FrameError, Frames};
    use proptest::prelude::*;
    use raft::eraftpb::{Message, MessageType};

    fn messages(index: u64, term: u64, number: u32, is_last: bool, bytes: Vec<u8>) -> [PeerMessage; 3] {
        let (from, to, bytes) = (1, 2, Bytes::from(bytes));
        let message = Message { from, to, term, index, msg_type: MessageType::MsgHeartbeat, ..Message::default() };
        let chunk = Chunk { from, to, index, term, number, is_last, bytes };
        [
            PeerMessage::Raft(message),
            PeerMessage::Fetch(Fetch { from, to, index, term, number }),
            PeerMessage::Chunk(chunk),
        ]
    }

    fn next(frames: &mut Frames) -> Result<Option<PeerMessage>, FrameError> {
        let Some((kind, bytes)) = frames.next(FRAME_BYTES_MAX)? else { return Ok(None) };
        Ok(Some(get_peer_message(kind, bytes)?))
    }

    proptest! {
        #[test]
        fn messages_come_back(index: u64, term: u64, number: u32, is_last: bool, bytes in proptest::collection::vec(any::<u8>(), 0..50)) {
            let mut frames = Frames::default();
            let sent = messages(index, term, number, is_last, bytes);
            sent.iter().for_each(|message| put_peer_message(message, frames.input()));
            for message in sent {
                prop_assert_eq!(next(&mut frames), Ok(Some(message)));
            }
            prop_assert_eq!(next(&mut frames), Ok(None));
        }
    }

    #[test]
    fn every_bit_flip_and_every_cut_of_a_message_is_refused() {
        for message in messages(7, 3, 1, false, vec![5; 20]) {
            let mut sent = BytesMut::new();
            put_peer_message(&message, &mut sent);
            for bit in 0..8 * sent.len() {
                let mut frames = Frames::default();
                frames.input().extend_from_slice(&sent);
                frames.input()[bit / 8] ^= 1 << (bit % 8);
                assert!(!matches!(next(&mut frames), Ok(Some(_))), "bit {bit} of {message:?}");
            }
            for cut in 0..sent.len() {
                let mut frames = Frames::default();
                frames.input().extend_from_slice(&sent[..cut]);
                assert_eq!(next(&mut frames), Ok(None), "{cut} bytes of {message:?}");
            }
        }
    }

    #[test]
    fn a_long_chunk_and_a_kind_that_is_not_known_are_refused() {
        let long = Bytes::from(vec![0; 37 + CHUNK_BYTES_MAX + 1]);
        assert!(get_peer_message(3, long.slice(..37 + CHUNK_BYTES_MAX)).is_ok());
        assert!(get_peer_message(3, long).is_err());
        assert!(get_peer_message(9, Bytes::from(vec![0; 36])).is_err());
        assert!(get_peer_message(2, Bytes::from(vec![0; 37])).is_err(), "a byte too many");
    }
}
