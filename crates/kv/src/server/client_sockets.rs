//! Sockets of clients: taking them in, reading from them, writing to them.

use std::collections::VecDeque;
use std::io;

use mio::event::Event;
use slog::warn;

use super::channel::Channel;
use super::clock::wall_us;
use super::histogram::Histogram;
use super::runtime::Port;
use super::runtime::{Runtime, Source};
use super::socket::Socket;
use super::tls::TlsAcceptor;
use crate::client::{Clients, Peer, TOO_MANY};
use crate::node::Node;
use crate::store;

/// Reads of a connection before others are read.
const READS_MAX: usize = 4;

/// A client's connection.
struct ClientSocket {
    channel: Channel,
    /// When the first bytes came that are not answered, or 0.
    since_us: u64,
    /// When something came last.
    active_ms: u64,
    /// Whether it is in the list of those that have more to be read.
    is_readable: bool,
}

/// The clients' connections.
pub(super) struct ClientSockets {
    tls: Option<TlsAcceptor>,
    /// By the client's token.
    sockets: Vec<Option<ClientSocket>>,
    /// Clients that have more to be read.
    readable: VecDeque<u32>,
    /// From a client's bytes to the last reply to them.
    latency: Histogram,
}

impl ClientSockets {
    /// No connections.
    pub(super) fn new(tls: Option<TlsAcceptor>) -> Self {
        Self { tls, sockets: Vec::new(), readable: VecDeque::new(), latency: Histogram::default() }
    }

    /// Uses other certificates for connections from now on.
    pub(super) fn set_tls(&mut self, tls: Option<TlsAcceptor>) {
        self.tls = tls;
    }

    /// Latencies of exchanges.
    pub(super) fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// Whether a connection has more to be read.
    pub(super) fn is_readable(&self) -> bool {
        !self.readable.is_empty()
    }

    /// Connections that have more to be read.
    pub(super) fn take_readable(&mut self) -> VecDeque<u32> {
        std::mem::take(&mut self.readable)
    }

    /// Takes a connection in.
    pub(super) fn accept(
        &mut self,
        mut socket: Socket,
        clients: &mut Clients,
        runtime: &mut Runtime,
    ) -> io::Result<()> {
        socket.tune(None);
        let config = runtime.config();
        // A client that has to show a certificate is known by it.
        let shows = config.clients.tls.as_ref().is_some_and(|tls| tls.authorities.is_some());
        let is_remote = config.clients.protected && !shows && !socket.is_local();
        let peer = Peer { address: socket.remote(), local: config.client_address(), is_remote };
        let tls = self.tls.as_ref().map(TlsAcceptor::connection).transpose()?;
        let Some(token) = clients.open(peer, wall_us()) else {
            runtime.refuse(Port::Client, &socket.remote(), "as many clients as clients.connections_max allows");
            // In clear or not at all: a handshake would cost what is to be saved.
            if tls.is_none() {
                io::Write::write(&mut socket, TOO_MANY)?;
            }
            return Ok(());
        };
        let place = token as usize;
        let opened = Channel::new(socket, tls, runtime.registry(), Source::Client.token(u64::from(token)));
        let channel = opened.inspect_err(|_| clients.close(token))?;
        if self.sockets.len() <= place {
            self.sockets.resize_with(place + 1, || None);
        }
        let active_ms = runtime.now_ms();
        self.sockets[place] = Some(ClientSocket { channel, since_us: 0, active_ms, is_readable: false });
        Ok(())
    }

    /// Something has happened to a socket. Returns whether there is one.
    pub(super) fn happened(&mut self, token: u32, event: &Event) -> bool {
        let Some(Some(socket)) = self.sockets.get_mut(token as usize) else { return false };
        socket.channel.happened(event);
        true
    }

    /// Reads from a client, and does what it asks for.
    pub(super) fn read(
        &mut self,
        token: u32,
        clients: &mut Clients,
        node: &mut Node,
        scratch: &mut [u8],
        runtime: &Runtime,
    ) -> store::Result<()> {
        let (wall_us, now_us) = (wall_us(), runtime.now_us());
        let Some(Some(socket)) = self.sockets.get_mut(token as usize) else { return Ok(()) };
        socket.is_readable = false;
        for _ in 0..READS_MAX {
            if !clients.wants_input(token) {
                break;
            }
            match socket.channel.read(scratch) {
                Ok(None) => break,
                Ok(Some(0)) => {
                    self.close(token, clients);
                    return Ok(());
                }
                Err(error) => {
                    // The client knows errors of the network; a handshake that fails concerns the
                    // operator.
                    if error.kind() == io::ErrorKind::InvalidData {
                        let from = socket.channel.socket().remote();
                        warn!(runtime.log(), "a client was refused"; "from" => from, "why" => error.to_string());
                    }
                    self.close(token, clients);
                    return Ok(());
                }
                Ok(Some(count)) => {
                    clients.input(token).extend_from_slice(&scratch[..count]);
                    socket.active_ms = now_us / 1000;
                    if socket.since_us == 0 {
                        socket.since_us = now_us;
                    }
                    clients.advance(token, node, wall_us)?;
                }
            }
        }
        if socket.channel.may_read() && clients.wants_input(token) {
            socket.is_readable = true;
            self.readable.push_back(token);
        }
        Ok(())
    }

    /// Writes to a client what there is.
    pub(super) fn flush(
        &mut self,
        token: u32,
        clients: &mut Clients,
        node: &mut Node,
        runtime: &Runtime,
    ) -> store::Result<()> {
        if clients.is_killed(token) {
            self.close(token, clients);
            return Ok(());
        }
        let Some(Some(socket)) = self.sockets.get_mut(token as usize) else { return Ok(()) };
        let output = clients.output(token);
        let had_bytes = output.len();
        let Ok(is_written) = socket.channel.write(output) else {
            self.close(token, clients);
            return Ok(());
        };
        let has_written = had_bytes > output.len();
        if has_written {
            clients.count(token);
        }
        if !is_written {
            return Ok(());
        }
        if clients.is_over(token) {
            self.close(token, clients);
            return Ok(());
        }
        if has_written {
            if socket.since_us > 0 {
                let now_us = runtime.now_us();
                self.latency.note(now_us / 1_000_000, now_us - socket.since_us);
                socket.since_us = 0;
            }
            if !clients.wants_input(token) {
                clients.advance(token, node, wall_us())?;
            }
        }
        if !socket.is_readable && socket.channel.may_read() && clients.wants_input(token) {
            socket.is_readable = true;
            self.readable.push_back(token);
        }
        Ok(())
    }

    /// Closes connections that have been silent for longer than the configuration allows.
    pub(super) fn close_idle(&mut self, now_ms: u64, clients: &mut Clients, runtime: &Runtime) {
        let idle_ms = runtime.config().clients.idle_s * 1000;
        if idle_ms == 0 {
            return;
        }
        let idle = |(token, socket): (usize, &Option<ClientSocket>)| {
            let is_idle = socket.as_ref().is_some_and(|socket| now_ms.saturating_sub(socket.active_ms) > idle_ms);
            is_idle.then_some(token as u32)
        };
        let idle: Vec<u32> = self.sockets.iter().enumerate().filter_map(idle).collect();
        idle.into_iter().for_each(|token| self.close(token, clients));
    }

    fn close(&mut self, token: u32, clients: &mut Clients) {
        clients.close(token);
        if let Some(socket) = self.sockets.get_mut(token as usize) {
            *socket = None;
        }
    }
}
