//! A connection as a stream of bytes, encrypted or not, that never waits.
//!
//! The kernel reports only changes. So a channel remembers whether there may be bytes to read, and
//! whether bytes may be written, until a call says otherwise. A read that brings less than it could
//! has taken all there was, unless the other side has closed.

use std::io::{self, IoSlice, Read, Write};

use bytes::Buf;
use mio::event::Event;
use mio::{Registry, Token};
use rustls::Connection;
use rustls::pki_types::CertificateDer;

use super::socket::Socket;

/// Most pieces that are written by one system call.
const PIECES_MAX: usize = 64;

/// A connection.
#[derive(Debug)]
pub(super) struct Channel {
    socket: Socket,
    tls: Option<Box<Connection>>,
    may_read: bool,
    may_write: bool,
    /// Whether the other side sends nothing more.
    is_closing: bool,
}

impl Channel {
    /// A channel over a socket, whose events come under a token.
    pub(super) fn new(
        mut socket: Socket,
        tls: Option<Connection>,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        socket.register(registry, token)?;
        Ok(Self { socket, tls: tls.map(Box::new), may_read: true, may_write: true, is_closing: false })
    }

    /// Something has happened to the socket.
    pub(super) fn happened(&mut self, event: &Event) {
        self.may_read |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.may_write |= event.is_writable() || event.is_error();
        self.is_closing |= event.is_read_closed();
    }

    /// The socket.
    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// The certificate that the other side has shown.
    pub(super) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificates()?.first()
    }

    /// Whether there may be something to read.
    pub(super) fn may_read(&self) -> bool {
        self.may_read || self.tls.as_ref().is_some_and(|tls| tls.wants_write() && self.may_write)
    }

    /// Reads what is there into `bytes`: how much, 0 at the end of the stream, or `None` if there
    /// is nothing now.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        match &mut self.tls {
            None => read_socket(&mut self.socket, &mut self.may_read, self.is_closing, bytes),
            Some(tls) => loop {
                match tls.reader().read(bytes) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // A stream that is cut off is as good as a closed one: requests have lengths.
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Some(0)),
                    read => return read.map(Some),
                }
                if !self.may_read {
                    return Ok(None);
                }
                match tls.read_tls(&mut self.socket) {
                    Ok(0) => return Ok(Some(0)),
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.may_read = false;
                        return Ok(None);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                }
                if let Err(error) = tls.process_new_packets() {
                    // Sends the alert to the other side, if it still reads.
                    let _ = tls.write_tls(&mut self.socket);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, error));
                }
            },
        }
    }

    /// Writes as much of `output` as the socket takes, and removes that from it. Returns whether
    /// nothing is left to be written.
    pub(super) fn write(&mut self, output: &mut impl Buf) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else {
            while self.may_write && output.has_remaining() {
                match write_some(&mut self.socket, &mut self.may_write, |socket| write_pieces(socket, output))? {
                    Some(written) => output.advance(written),
                    None => break,
                }
            }
            return Ok(!output.has_remaining());
        };
        loop {
            while self.may_write && tls.wants_write() {
                write_some(&mut self.socket, &mut self.may_write, |socket| tls.write_tls(socket))?;
            }
            if tls.wants_write() || tls.is_handshaking() || !output.has_remaining() {
                return Ok(!output.has_remaining() && !tls.wants_write());
            }
            // It takes what its buffer has room for.
            let taken = tls.writer().write(output.chunk())?;
            output.advance(taken);
        }
    }
}

fn read_socket(
    socket: &mut Socket,
    may_read: &mut bool,
    is_closing: bool,
    bytes: &mut [u8],
) -> io::Result<Option<usize>> {
    if !*may_read {
        return Ok(None);
    }
    loop {
        match socket.read(bytes) {
            Ok(count) => {
                *may_read = count == bytes.len() || is_closing || count == 0;
                return Ok(Some(count));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                *may_read = false;
                return Ok(None);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes what a socket takes of some bytes, however many pieces they are in.
fn write_pieces(socket: &mut Socket, output: &impl Buf) -> io::Result<usize> {
    if output.chunk().len() == output.remaining() {
        return socket.write(output.chunk());
    }
    let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
    let count = output.chunks_vectored(&mut pieces);
    socket.write_vectored(&pieces[..count])
}

fn write_some(
    socket: &mut Socket,
    may_write: &mut bool,
    write: impl FnOnce(&mut Socket) -> io::Result<usize>,
) -> io::Result<Option<usize>> {
    match write(socket) {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            *may_write = false;
            Ok(None)
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Some(0)),
        Err(error) => Err(error),
    }
}
