//! An inbound connection at the address for replicas: of another replica, whose messages or
//! clients' requests come this way, or of an operator. Before authentication it gets little room
//! and little time. `connections` are all of them, `admission` says which are let in.

mod admission;
mod connections;

use std::collections::{BTreeMap, VecDeque};
use std::io;

use bytes::{Bytes, BytesMut};

use super::handshake::{Handshake, Hello, REQUEST_BYTES_MAX, UNAUTHENTICATED_BYTES_MAX, get_handshake, put_handshake};
use crate::server::channel::Channel;
use crate::server::tls::TlsAcceptor;
use crate::store::Outgoing;
use crate::wire::{
    FRAME_BYTES_MAX, Forward, Forwarded, FrameError, Frames, PeerMessage, get_forward, get_peer_message, put_forwarded,
};

/// Most connections that are not authenticated, or were refused.
pub(crate) const UNAUTHENTICATED_MAX: usize = 128;
/// Most operators.
pub(crate) const OPERATORS_MAX: usize = 64;
/// Most replicas that are not known as members. All of a cluster may be such to one that lags.
pub(crate) const UNKNOWN_MAX: usize = 32;
/// Milliseconds in which a connection must be authenticated.
pub(crate) const GREETING_MS: u64 = 5000;
/// Milliseconds that an operator may be silent.
pub(crate) const OPERATOR_MS: u64 = 60_000;
/// Bytes of a backup that wait to be sent, beyond which no further chunk is read.
const BACKUP_BYTES_MAX: usize = 1 << 20;
/// Chunks of a backup that are read before other events.
const CHUNKS_MAX: usize = 4;

/// Identity of the other side.
pub(crate) enum Kind {
    /// None yet.
    Unauthenticated,
    /// A replica, by its id and the number of its start.
    Peer(u64, u64),
    /// A replica that passes on requests of its clients, by its id.
    Forwarder(u64),
    /// An operator, and the backup that is sent to it: the snapshot, and the number of the next
    /// chunk.
    Operator(Option<(Box<dyn Outgoing>, u32)>),
    /// It was refused. What it sends is not looked at.
    Refused,
}

/// Frame from a connection.
pub(crate) enum PeerFrame {
    /// Identity of the other side.
    Hello(Hello),
    /// Identity of a replica that passes on requests.
    Forwards(Hello),
    /// A message for this replica.
    Message(PeerMessage),
    /// A request of a client of another replica.
    Forward(Forward),
    /// A request of an operator.
    AdminRequest(Bytes),
}

/// An inbound connection.
pub(crate) struct Inbound {
    channel: Channel,
    kind: Kind,
    /// When it was last heard, or took a chunk of a backup. Before authentication: when it came.
    heard_ms: u64,
    /// Address of the other side, as the network says.
    from: String,
    /// Whether it is not read from, for too much of it is under way.
    is_left: bool,
    /// Whether its frames wait: an operator has its answer first.
    is_held: bool,
    frames: Frames,
    output: BytesMut,
}

/// All inbound connections.
pub(crate) struct InboundConnections {
    tls: Option<TlsAcceptor>,
    connections: BTreeMap<u64, Inbound>,
    /// Those that have more to be read.
    readable: VecDeque<u64>,
}

impl Inbound {
    /// A connection that has just come.
    pub(crate) fn new(channel: Channel, now_ms: u64) -> Self {
        let from = channel.socket().remote();
        let (frames, output) = (Frames::default(), BytesMut::new());
        let (is_left, is_held) = (false, false);
        Self { channel, kind: Kind::Unauthenticated, heard_ms: now_ms, from, is_left, is_held, frames, output }
    }

    /// Reads what is there, at most what fits `scratch`. Returns whether there was something.
    /// Error: the connection has ended.
    pub(crate) fn read(&mut self, scratch: &mut [u8], now_ms: u64) -> io::Result<bool> {
        match self.channel.read(scratch)? {
            None => Ok(false),
            Some(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(count) => {
                if matches!(self.kind, Kind::Peer(..) | Kind::Operator(_)) {
                    self.heard_ms = now_ms;
                }
                self.frames.input().extend_from_slice(&scratch[..count]);
                Ok(true)
            }
        }
    }

    /// The next frame, once it is whole.
    pub(crate) fn next(&mut self) -> Result<Option<PeerFrame>, FrameError> {
        self.is_held = matches!(&self.kind, Kind::Operator(backup) if backup.is_some() || !self.output.is_empty());
        if self.is_held {
            return Ok(None);
        }
        let bytes_max = match self.kind {
            Kind::Unauthenticated => UNAUTHENTICATED_BYTES_MAX,
            Kind::Peer(..) | Kind::Forwarder(_) => FRAME_BYTES_MAX,
            Kind::Operator(_) => REQUEST_BYTES_MAX,
            Kind::Refused => {
                self.frames.input().clear();
                return Ok(None);
            }
        };
        let Some((kind, bytes)) = self.frames.next(bytes_max)? else { return Ok(None) };
        match self.kind {
            Kind::Peer(..) => return Ok(Some(PeerFrame::Message(get_peer_message(kind, bytes)?))),
            Kind::Forwarder(_) => return Ok(Some(PeerFrame::Forward(get_forward(kind, bytes)?))),
            _ => {}
        }
        let misplaced = FrameError::Message(crate::codec::Malformed { field: "the order of frames" });
        match (get_handshake(kind, bytes)?, &self.kind) {
            (Handshake::Hello(hello), Kind::Unauthenticated) => Ok(Some(PeerFrame::Hello(hello))),
            (Handshake::Forwards(hello), Kind::Unauthenticated) => Ok(Some(PeerFrame::Forwards(hello))),
            (Handshake::AdminRequest(question), Kind::Operator(_)) => Ok(Some(PeerFrame::AdminRequest(question))),
            _ => Err(misplaced),
        }
    }

    /// Appends a frame to what is sent.
    pub(crate) fn say(&mut self, frame: &Handshake) {
        put_handshake(frame, &mut self.output);
    }

    /// Answers a request that was passed on.
    pub(crate) fn answer(&mut self, answer: &Forwarded) {
        put_forwarded(answer, &mut self.output);
    }

    /// Sends what waits, and some further chunks of a backup as they find room. Returns whether it
    /// is all sent.
    pub(crate) fn flush(&mut self, now_ms: u64) -> io::Result<bool> {
        for _ in 0..CHUNKS_MAX {
            if let Kind::Operator(backup) = &mut self.kind
                && self.output.len() < BACKUP_BYTES_MAX
                && let Some((snapshot, number)) = backup
            {
                let (chunk, is_last) = snapshot.chunk(*number).map_err(io::Error::other)?;
                put_handshake(&Handshake::AdminResponse(chunk), &mut self.output);
                *number += 1;
                self.heard_ms = now_ms;
                if is_last {
                    put_handshake(&Handshake::AdminResponse(Bytes::new()), &mut self.output);
                    *backup = None;
                }
            }
            let before = self.output.len();
            let is_sent = self.channel.write(&mut self.output)?;
            if let (Kind::Operator(_), true) = (&self.kind, self.output.len() < before) {
                self.heard_ms = now_ms;
            }
            let has_more = matches!(self.kind, Kind::Operator(Some(_)));
            if !has_more || self.output.len() == before || self.output.len() >= BACKUP_BYTES_MAX {
                return Ok(is_sent && !has_more);
            }
        }
        Ok(false)
    }

    /// Whether there is something to be done for it though nothing has happened.
    pub(crate) fn is_readable(&self) -> bool {
        self.output.is_empty() && (self.is_held || matches!(self.kind, Kind::Operator(Some(_))))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use bytes::{Bytes, BytesMut};
    use mio::{Poll, Token};
    use raft::eraftpb::SnapshotMetadata;

    use super::{BACKUP_BYTES_MAX, CHUNKS_MAX, Channel, Handshake, Inbound, Kind, PeerFrame, put_handshake};
    use crate::server::socket::Socket;
    use crate::store::{Outgoing, Result};

    const CHUNK_BYTES: usize = 1000;

    struct Endless(SnapshotMetadata);

    impl Outgoing for Endless {
        fn metadata(&self) -> &SnapshotMetadata {
            &self.0
        }

        fn chunk(&mut self, _number: u32) -> Result<(Bytes, bool)> {
            Ok((Bytes::from_static(&[1; CHUNK_BYTES]), false))
        }
    }

    fn operator(poll: &Poll) -> (Inbound, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let outside = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (inside, _) = listener.accept().expect("a connection");
        inside.set_nonblocking(true).expect("a socket");
        let socket = Socket::Tcp(mio::net::TcpStream::from_std(inside));
        let channel = Channel::new(socket, None, poll.registry(), Token(1)).expect("a channel");
        let mut connection = Inbound::new(channel, 0);
        connection.kind = Kind::Operator(None);
        (connection, outside)
    }

    /// Questions without end were all answered into memory.
    #[test]
    fn an_operator_has_its_answer_before_the_next_question_is_looked_at() {
        let (mut connection, mut outside) = operator(&Poll::new().expect("a poll"));
        let mut questions = BytesMut::new();
        (0..2).for_each(|_| put_handshake(&Handshake::AdminRequest(Bytes::from_static(b"status")), &mut questions));
        outside.write_all(&questions).expect("a socket");
        while !connection.read(&mut [0; 4096], 1).expect("a connection") {}
        for _ in 0..2 {
            assert!(matches!(connection.next(), Ok(Some(PeerFrame::AdminRequest(_)))));
            connection.say(&Handshake::AdminResponse(Bytes::from_static(b"answer")));
            assert!(matches!(connection.next(), Ok(None)) && connection.is_held && !connection.is_readable());
            assert!(connection.flush(2).expect("a connection") && connection.is_readable());
        }
        assert!(matches!(connection.next(), Ok(None)) && !connection.is_held && !connection.is_readable());
    }

    /// A backup that took longer than an operator may be silent was cut off; a fast reader held up
    /// all others.
    #[test]
    fn a_backup_goes_on_while_it_is_taken_and_lets_others_have_their_turn() {
        let (mut connection, mut outside) = operator(&Poll::new().expect("a poll"));
        connection.kind = Kind::Operator(Some((Box::new(Endless(SnapshotMetadata::default())), 0)));
        assert!(!connection.flush(5).expect("a connection") && connection.is_readable());
        assert_eq!(connection.heard_ms, 5);
        let Kind::Operator(Some((_, number))) = &connection.kind else { panic!("it is over") };
        assert_eq!(*number as usize, CHUNKS_MAX);
        // Nobody takes it: it waits, within its bound, and no progress is counted.
        while connection.is_readable() || connection.output.len() < BACKUP_BYTES_MAX {
            connection.flush(6).expect("a connection");
        }
        connection.flush(7).expect("a connection");
        assert!(connection.heard_ms <= 6 && connection.output.len() < BACKUP_BYTES_MAX + 2 * CHUNK_BYTES);
        outside.read_exact(&mut [0; 1000]).expect("what was sent");
    }
}
