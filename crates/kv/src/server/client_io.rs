//! Clients: taking them in, reading from them, writing to them.

use std::io;

use slog::{debug, warn};

use super::channel::Channel;
use super::http::Browser;
use super::inbound::Inbound;
use super::socket::Socket;
use super::state::{BROWSERS_MAX, Line, Port, Server, Source};
use crate::client::{Peer, TOO_MANY};
use crate::store;

/// Reads of a connection before others have their turn.
const READS_MAX: usize = 4;
/// Connections that are taken in before others have their turn.
const ACCEPTS_MAX: usize = 128;
/// Milliseconds between two lines about connections that cannot be taken in.
const UNTAKEN_MS: u64 = 10_000;

impl Server {
    /// Takes in who has connected to a listener, up to a number: the rest has its turn after the
    /// others.
    pub fn accept(&mut self, key: usize) {
        self.readable_listeners.insert(key);
        for _ in 0..ACCEPTS_MAX {
            let Some((listener, port)) = self.listeners.get(key) else { return };
            let port = *port;
            match listener.accept() {
                Ok(None) => {
                    self.readable_listeners.remove(&key);
                    return;
                }
                Ok(Some(socket)) => {
                    let from = socket.remote();
                    if let Err(error) = self.take_in(socket, port) {
                        debug!(self.log, "a connection failed at once"; "from" => from, "why" => error.to_string());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Mostly there is no descriptor left. Others that close make room; the next
                    // tick looks again.
                    self.accepts_again = true;
                    self.readable_listeners.remove(&key);
                    let now_ms = self.clock.now_ms();
                    if self.untaken_ms.is_none_or(|told_ms| now_ms >= told_ms + UNTAKEN_MS) {
                        self.untaken_ms = Some(now_ms);
                        warn!(self.log, "a connection cannot be taken in"; "why" => error.to_string());
                    }
                    return;
                }
            }
        }
    }

    fn take_in(&mut self, socket: Socket, port: Port) -> io::Result<()> {
        let now_ms = self.clock.now_ms();
        match port {
            Port::Client => return self.take_client(socket),
            Port::Peer => {
                socket.tune(Some(self.config.peers.silence_ms));
                let tls = self.peer_tls.as_ref().map(super::tls::TlsAcceptor::connection).transpose()?;
                let key = self.key();
                let channel = Channel::new(socket, tls, self.poll.registry(), Source::Inbound.token(key))?;
                self.inbound.insert(key, Inbound::new(channel, now_ms));
                self.make_room(key);
            }
            Port::Browser => {
                let key = self.key();
                if self.browsers.len() >= BROWSERS_MAX
                    && let Some((_, oldest)) = self.browsers.pop_first()
                {
                    let from = oldest.channel.socket().remote();
                    self.tell_refused(port, &from, "too many connections: the oldest is closed");
                }
                let channel = Channel::new(socket, None, self.poll.registry(), Source::Browser.token(key))?;
                self.browsers.insert(key, Browser::new(channel, now_ms));
            }
        }
        Ok(())
    }

    /// Logs that a connection was refused or closed, but not of each if there are many.
    pub fn tell_refused(&mut self, port: Port, from: &str, why: &str) {
        if let Some(left_out) = self.refused[port as usize].note(self.clock.now_ms()) {
            warn!(self.log, "refused a connection"; "at" => port.name(), "from" => from, "why" => why, "left_out" => left_out);
        }
    }

    /// Logs how many connections were refused and not told of.
    pub fn tell_of_refusals(&mut self, now_ms: u64) {
        for port in [Port::Client, Port::Peer, Port::Browser] {
            if let Some(count) = self.refused[port as usize].take_left_out(now_ms) {
                warn!(self.log, "refused further connections"; "at" => port.name(), "count" => count);
            }
        }
    }

    fn take_client(&mut self, mut socket: Socket) -> io::Result<()> {
        socket.tune(None);
        // A client that has to show a certificate is known by it.
        let shows = self.config.clients.tls.as_ref().is_some_and(|tls| tls.authorities.is_some());
        let is_remote = self.config.clients.protected && !shows && !socket.is_local();
        let peer = Peer { address: socket.remote(), local: self.config.client_address(), is_remote };
        let tls = self.client_tls.as_ref().map(super::tls::TlsAcceptor::connection).transpose()?;
        let Some(token) = self.clients.open(peer, self.wall_us()) else {
            self.tell_refused(Port::Client, &socket.remote(), "as many clients as clients.connections_max allows");
            // In clear or not at all: a handshake would cost what is to be saved.
            if tls.is_none() {
                io::Write::write(&mut socket, TOO_MANY)?;
            }
            return Ok(());
        };
        let place = token as usize;
        let opened = Channel::new(socket, tls, self.poll.registry(), Source::Client.token(u64::from(token)));
        let channel = opened.inspect_err(|_| self.clients.close(token))?;
        if self.lines.len() <= place {
            self.lines.resize_with(place + 1, || None);
        }
        let active_ms = self.clock.now_ms();
        self.lines[place] = Some(Line { channel, since_us: 0, active_ms, is_readable: false });
        Ok(())
    }

    /// Reads from a client, and does what it asks for.
    pub fn feed(&mut self, token: u32) -> store::Result<()> {
        let (wall_us, now_us) = (self.wall_us(), self.clock.now_us());
        let Server { lines, clients, node, scratch, readable, log, .. } = self;
        let Some(Some(line)) = lines.get_mut(token as usize) else { return Ok(()) };
        line.is_readable = false;
        for _ in 0..READS_MAX {
            if !clients.wants_input(token) {
                break;
            }
            match line.channel.read(scratch) {
                Ok(None) => break,
                Ok(Some(0)) => {
                    self.close_client(token);
                    return Ok(());
                }
                Err(error) => {
                    // Of the network's troubles the client knows; of a handshake that fails, the
                    // operator wants to.
                    if error.kind() == io::ErrorKind::InvalidData {
                        let from = line.channel.socket().remote();
                        warn!(log, "a client was refused"; "from" => from, "why" => error.to_string());
                    }
                    self.close_client(token);
                    return Ok(());
                }
                Ok(Some(count)) => {
                    clients.input(token).extend_from_slice(&scratch[..count]);
                    line.active_ms = now_us / 1000;
                    if line.since_us == 0 {
                        line.since_us = now_us;
                    }
                    clients.advance(token, node, wall_us)?;
                }
            }
        }
        if line.channel.may_read() && clients.wants_input(token) {
            line.is_readable = true;
            readable.push_back(token);
        }
        Ok(())
    }

    /// Writes to a client what there is.
    pub fn flush_client(&mut self, token: u32) -> store::Result<()> {
        let wall_us = self.wall_us();
        if self.clients.is_killed(token) {
            self.close_client(token);
            return Ok(());
        }
        let Server { lines, clients, node, clock, latency, readable, .. } = self;
        let Some(Some(line)) = lines.get_mut(token as usize) else { return Ok(()) };
        let output = clients.output(token);
        let had_bytes = output.len();
        let Ok(is_written) = line.channel.write(output) else {
            self.close_client(token);
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
            self.close_client(token);
            return Ok(());
        }
        if has_written {
            if line.since_us > 0 {
                let now_us = clock.now_us();
                latency.note(now_us / 1_000_000, now_us - line.since_us);
                line.since_us = 0;
            }
            if !clients.wants_input(token) {
                clients.advance(token, node, wall_us)?;
            }
        }
        if !line.is_readable && line.channel.may_read() && clients.wants_input(token) {
            line.is_readable = true;
            readable.push_back(token);
        }
        Ok(())
    }

    /// Forgets a client.
    pub fn close_client(&mut self, token: u32) {
        self.clients.close(token);
        if let Some(line) = self.lines.get_mut(token as usize) {
            *line = None;
        }
    }
}
