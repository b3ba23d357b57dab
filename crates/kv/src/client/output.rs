//! Output of a connection: bytes to be written to it, their protocol, and which replies the client
//! wants.

use bytes::BytesMut;

use crate::resp::{Protocol, Reply};

/// Replies that a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wanted {
    /// All.
    #[default]
    All,
    /// None.
    None,
    /// All behind the next request, which has not been read yet.
    SkipNext,
    /// All but that to the present request.
    AllButThis,
}

/// Output of a connection.
#[derive(Debug, Default)]
pub(super) struct Output {
    buffer: BytesMut,
    protocol: Protocol,
    wanted: Wanted,
}

impl Output {
    /// Bytes to be written.
    pub(super) fn buffer(&self) -> &BytesMut {
        &self.buffer
    }

    /// The buffer from whose front is taken what is written.
    pub(super) fn buffer_mut(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Gives up what is not written.
    pub(super) fn clear(&mut self) {
        self.buffer = BytesMut::new();
    }

    /// Appends a reply, unless it is not wanted.
    pub(super) fn say(&mut self, reply: &Reply) {
        if !self.is_mute() {
            reply.write(self.protocol, &mut self.buffer);
        }
    }

    /// Protocol of the next reply.
    pub(super) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the protocol.
    pub(super) fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Whether the next reply is not wanted.
    pub(super) fn is_mute(&self) -> bool {
        self.wanted != Wanted::All
    }

    /// CLIENT REPLY. Returns its reply, if one is wanted.
    pub(super) fn set_wanted(&mut self, mode: &[u8]) -> Option<Reply> {
        match &mode.to_ascii_lowercase()[..] {
            b"on" => {
                self.wanted = Wanted::All;
                return Some(Reply::OK);
            }
            b"off" => self.wanted = Wanted::None,
            b"skip" if self.wanted != Wanted::None => self.wanted = Wanted::SkipNext,
            b"skip" => {}
            _ => return Some(Reply::error("syntax error")),
        }
        None
    }

    /// A request begins.
    pub(super) fn begin_request(&mut self) {
        if self.wanted == Wanted::SkipNext {
            self.wanted = Wanted::AllButThis;
        }
    }

    /// A request is done.
    pub(super) fn end_request(&mut self) {
        if self.wanted == Wanted::AllButThis {
            self.wanted = Wanted::All;
        }
    }

    /// RESET: the protocol and the wanted replies are those of a new connection.
    pub(super) fn reset(&mut self) {
        (self.protocol, self.wanted) = Default::default();
    }
}
