//! All inbound connections at the address for replicas: taken in, read from, written to, closed.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use mio::event::Event;
use slog::{info, warn};

use super::{GREETING_MS, Inbound, InboundConnections, Kind, OPERATOR_MS, PeerFrame};
use crate::client::Clients;
use crate::node::Node;
use crate::server::channel::Channel;
use crate::server::peers::handshake::Handshake;
use crate::server::runtime::Port;
use crate::server::runtime::{Runtime, Source};
use crate::server::socket::Socket;
use crate::server::tls::TlsAcceptor;
use crate::store::Outgoing;
use crate::wire::FrameError;

impl InboundConnections {
    /// No connections.
    pub(crate) fn new(tls: Option<TlsAcceptor>) -> Self {
        Self { tls, connections: BTreeMap::new(), readable: VecDeque::new() }
    }

    /// Uses other certificates for connections from now on.
    pub(crate) fn set_tls(&mut self, tls: Option<TlsAcceptor>) {
        self.tls = tls;
    }

    /// Takes a connection in.
    pub(crate) fn accept(&mut self, socket: Socket, node: &Node, runtime: &mut Runtime) -> io::Result<()> {
        socket.tune(Some(runtime.config().peers.silence_ms));
        let tls = self.tls.as_ref().map(TlsAcceptor::connection).transpose()?;
        let key = runtime.key();
        let channel = Channel::new(socket, tls, runtime.registry(), Source::Inbound.token(key))?;
        self.connections.insert(key, Inbound::new(channel, runtime.now_ms()));
        self.make_room(key, node, runtime);
        Ok(())
    }

    /// Whether there is a connection of a key.
    pub(crate) fn contains(&self, key: u64) -> bool {
        self.connections.contains_key(&key)
    }

    /// Replicas that are connected.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = u64> {
        self.connections.values().filter_map(|connection| match connection.kind {
            Kind::Peer(id, _) => Some(id),
            _ => None,
        })
    }

    /// Something has happened to a socket. Returns whether there is one.
    pub(crate) fn happened(&mut self, key: u64, event: &Event) -> bool {
        let Some(connection) = self.connections.get_mut(&key) else { return false };
        connection.channel.happened(event);
        true
    }

    /// Whether a connection has more to be read.
    pub(crate) fn is_readable(&self) -> bool {
        !self.readable.is_empty()
    }

    /// Connections that have more to be read.
    pub(crate) fn take_readable(&mut self) -> VecDeque<u64> {
        std::mem::take(&mut self.readable)
    }

    /// Has a connection read from again, though nothing happens to its socket.
    pub(crate) fn read_later(&mut self, key: u64) {
        if !self.readable.contains(&key) {
            self.readable.push_back(key);
        }
    }

    /// Writes to a connection that was left, for it may be read from again then.
    pub(crate) fn resume(&mut self, key: u64, runtime: &Runtime) {
        if self.connections.get(&key).is_some_and(|connection| connection.is_left) {
            self.flush(key, runtime);
        }
    }

    /// Reads from a connection, or writes to it if nothing is to be read now. Returns whether
    /// something was read.
    pub(crate) fn read(&mut self, key: u64, clients: &Clients, scratch: &mut [u8], runtime: &Runtime) -> bool {
        let Some(connection) = self.connections.get_mut(&key) else { return false };
        let waits = connection.is_held || connection.leave(key, clients);
        let read = if waits { Ok(false) } else { connection.read(scratch, runtime.now_ms()) };
        match read {
            Ok(true) => return true,
            Ok(false) => self.flush(key, runtime),
            Err(error) => self.close(key, &error, runtime),
        }
        false
    }

    /// The next frame that has come whole, and the replica that it is of, if it is one's. Nothing
    /// is taken while too much is under way for the connection.
    pub(crate) fn next(&mut self, key: u64, clients: &Clients) -> Option<(u64, Result<PeerFrame, FrameError>)> {
        let connection = self.connections.get_mut(&key)?;
        if connection.leave(key, clients) {
            return None;
        }
        let replica = if let Kind::Peer(id, _) | Kind::Forwarder(id) = connection.kind { id } else { 0 };
        Some((replica, connection.next().transpose()?))
    }

    /// Appends a frame to what is sent over a connection.
    pub(crate) fn say(&mut self, key: u64, frame: &Handshake) {
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.say(frame);
        }
    }

    /// Sends a snapshot to an operator.
    pub(crate) fn send_backup(&mut self, key: u64, snapshot: Box<dyn Outgoing>) {
        if let Some(connection) = self.connections.get_mut(&key) {
            connection.kind = Kind::Operator(Some((snapshot, 0)));
        }
    }

    /// Sends other replicas the answers to what they have passed on, and reads from those that were
    /// left until then.
    pub(crate) fn send_answers(&mut self, clients: &mut Clients, runtime: &Runtime) {
        let mut answered = Vec::new();
        for (key, answer) in clients.take_answers() {
            let Some(connection) = self.connections.get_mut(&key) else { continue };
            connection.answer(&answer);
            if answered.last() != Some(&key) {
                answered.push(key);
            }
        }
        for key in answered {
            self.flush(key, runtime);
            if self.connections.get(&key).is_some_and(|connection| connection.is_left) {
                self.read_later(key);
            }
        }
    }

    /// Writes to all connections what there is.
    pub(crate) fn flush_all(&mut self, runtime: &Runtime) {
        let keys: Vec<u64> = self.connections.keys().copied().collect();
        keys.into_iter().for_each(|key| self.flush(key, runtime));
    }

    fn flush(&mut self, key: u64, runtime: &Runtime) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        match connection.flush(runtime.now_ms()) {
            Ok(_) if connection.is_readable() => self.read_later(key),
            Ok(true) if matches!(connection.kind, Kind::Refused) => _ = self.connections.remove(&key),
            Ok(_) => {}
            Err(error) => self.close(key, &error, runtime),
        }
    }

    fn close(&mut self, key: u64, error: &io::Error, runtime: &Runtime) {
        let Some(connection) = self.connections.remove(&key) else { return };
        let is_end = error.kind() == io::ErrorKind::UnexpectedEof;
        let why = if is_end { "it has closed the connection".to_owned() } else { error.to_string() };
        match connection.kind {
            Kind::Peer(id, _) => {
                info!(runtime.log(), "a replica has gone"; "peer" => id, "from" => &connection.from, "why" => why);
            }
            Kind::Unauthenticated => {
                warn!(runtime.log(), "a connection to the address for replicas has failed"; "from" => &connection.from, "why" => why);
            }
            Kind::Operator(_) | Kind::Forwarder(_) | Kind::Refused => {}
        }
    }

    /// Closes connections whose time is over.
    pub(crate) fn close_late(&mut self, now_ms: u64, node: &Node, runtime: &Runtime) {
        let since = |then_ms: u64| now_ms.saturating_sub(then_ms);
        self.connections.retain(|_, connection| {
            let is_late = match &connection.kind {
                Kind::Unauthenticated | Kind::Refused => since(connection.heard_ms) > GREETING_MS,
                Kind::Operator(_) => since(connection.heard_ms) > OPERATOR_MS,
                Kind::Peer(id, _) | Kind::Forwarder(id) => node.is_no_member(*id),
            };
            if let (Kind::Peer(id, _), true) = (&connection.kind, is_late) {
                warn!(runtime.log(), "a replica that is no member any more is let go"; "peer" => id);
            }
            !is_late
        });
    }

    /// Sends a refusal on a connection, which is closed after it.
    pub(crate) fn refuse(&mut self, key: u64, why: String, runtime: &mut Runtime) {
        let Some(connection) = self.connections.get_mut(&key) else { return };
        runtime.refuse(Port::Peer, &connection.from, &why);
        connection.say(&Handshake::Refusal(why));
        connection.kind = Kind::Refused;
    }
}

#[cfg(test)]
impl InboundConnections {
    /// A connection.
    pub(crate) fn get_mut(&mut self, key: u64) -> &mut Inbound {
        self.connections.get_mut(&key).expect("a connection")
    }

    /// When a connection was heard last.
    pub(crate) fn heard_ms(&self, key: u64) -> u64 {
        self.connections[&key].heard_ms
    }

    /// Number of connections of a kind.
    pub(crate) fn count(&self, is_it: impl Fn(&Kind) -> bool) -> usize {
        self.connections.values().filter(|connection| is_it(&connection.kind)).count()
    }
}

impl Inbound {
    /// Whether the connection has reached its bound of work in flight, so that nothing more is
    /// taken from it.
    fn leave(&mut self, key: u64, clients: &Clients) -> bool {
        self.is_left = matches!(self.kind, Kind::Forwarder(_)) && clients.is_busy_with(key, self.output.len());
        self.is_left
    }
}
