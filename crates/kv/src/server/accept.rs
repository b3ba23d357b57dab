//! Inbound connections at the address for replicas: who is let in, and what they bring.

use std::io;

use slog::{error, info, warn};

use super::handshake::{Handshake, Hello};
use super::inbound::{Inbound, Kind, OPERATORS_MAX, PeerFrame, UNAUTHENTICATED_MAX, UNKNOWN_MAX};
use super::state::{Port, Server};
use super::tls;
use crate::client::Clients;
use crate::codec::all_members;
use crate::config::host_of;
use crate::node::Role;
use crate::store::{self, ErrorKind};
use crate::wire::{FrameError, PeerMessage};

/// Reads of a connection before others have their turn.
const READS_MAX: usize = 64;

/// Whether so much is under way for a connection that nothing more is taken from it.
fn is_left(clients: &Clients, key: u64, connection: &mut Inbound) -> bool {
    connection.is_left =
        matches!(connection.kind, Kind::Forwarder(_)) && clients.is_busy_with(key, connection.unsent());
    connection.is_left
}

/// Those that a connection is counted with: however many there are of them, they take no room from
/// others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionClass {
    Unauthenticated,
    Operators,
    Unknown,
    /// Each has one connection for messages, and one for what it passes on.
    Members,
}

impl Server {
    /// Reads from a connection, and does what it says.
    pub fn hear(&mut self, key: u64) -> store::Result<()> {
        if self.inbound.get(&key).is_some_and(|connection| connection.is_left) {
            self.flush_inbound(key)?;
            self.listen_to(key)?;
        }
        let now_ms = self.clock.now_ms();
        for _ in 0..READS_MAX {
            self.listen_to(key)?;
            let Some(connection) = self.inbound.get_mut(&key) else { return Ok(()) };
            if connection.is_held || is_left(&self.clients, key, connection) {
                return self.flush_inbound(key);
            }
            match connection.read(&mut self.scratch, now_ms) {
                Ok(true) => {}
                Ok(false) => return self.flush_inbound(key),
                Err(error) => {
                    self.part(key, Some(error));
                    return Ok(());
                }
            }
        }
        self.readable_inbound.push_back(key);
        Ok(())
    }

    /// Does all that has come whole from a connection.
    fn listen_to(&mut self, key: u64) -> store::Result<()> {
        loop {
            let Some(connection) = self.inbound.get_mut(&key) else { return Ok(()) };
            if is_left(&self.clients, key, connection) {
                return Ok(());
            }
            let peer = if let Kind::Peer(id, _) | Kind::Forwarder(id) = connection.kind { id } else { 0 };
            match connection.next() {
                Ok(None) => return Ok(()),
                Ok(Some(PeerFrame::PeerMessage(message))) if message.from() == peer => {
                    self.traffic.messages_received += 1;
                    let is_used = self.step_message(message)?;
                    self.traffic.messages_refused += u64::from(!is_used);
                }
                Ok(Some(PeerFrame::PeerMessage(message))) => {
                    self.refuse(key, format!("a message of replica {} over a connection of {peer}", message.from()));
                }
                Ok(Some(PeerFrame::Forward(forward))) => {
                    let wall_us = self.wall_us();
                    self.clients.take_in(key, peer, forward, &mut self.node, wall_us)?;
                }
                Ok(Some(PeerFrame::Hello(hello))) => self.greet(key, &hello, false),
                Ok(Some(PeerFrame::Forwards(hello))) => self.greet(key, &hello, true),
                Ok(Some(PeerFrame::AdminRequest(question))) => self.ask(key, &question)?,
                Err(FrameError::Version(version)) => {
                    let what = FrameError::Version(version);
                    self.refuse(key, format!("{what}: run the same version of perdura-kv on all replicas"));
                }
                Err(what) => self.refuse(key, what.to_string()),
            }
        }
    }

    /// Gives a message to the replica. A snapshot that its store cannot take is left alone: the
    /// replica votes and has what it has, but cannot catch up, which is said once.
    fn step_message(&mut self, message: PeerMessage) -> store::Result<bool> {
        match self.node.step(message) {
            Err(error) if error.kind() == ErrorKind::Configuration => {
                let why = error.to_string();
                if why != self.snapshot_mismatch {
                    error!(self.log, "a snapshot cannot be taken"; "why" => &why);
                    self.snapshot_mismatch = why;
                }
                Ok(false)
            }
            step => step,
        }
    }

    /// Lets a connection in, or says why not.
    fn greet(&mut self, key: u64, hello: &Hello, forwards: bool) {
        let operator = || (forwards && hello.replica == 0).then(|| "operators pass no requests on".to_owned());
        if let Some(why) =
            self.certificate_objection(key, hello).or_else(|| self.objection(key, hello)).or_else(operator)
        {
            return self.refuse(key, why);
        }
        let word = Handshake::Welcome { cluster: self.cluster, replica: self.id };
        let Some(connection) = self.inbound.get_mut(&key) else { return };
        connection.say(&word);
        connection.heard_ms = self.clock.now_ms();
        if hello.replica == 0 {
            connection.kind = Kind::Operator(None);
            return self.make_room(key);
        }
        if forwards {
            connection.kind = Kind::Forwarder(hello.replica);
            info!(self.log, "a replica passes requests on"; "peer" => hello.replica, "from" => &connection.from);
            // An older connection has ended.
            let is_older = |kind: &Kind| matches!(kind, Kind::Forwarder(id) if *id == hello.replica);
            self.inbound.retain(|other, connection| *other == key || !is_older(&connection.kind));
            return self.make_room(key);
        }
        connection.kind = Kind::Peer(hello.replica, hello.start);
        info!(self.log, "a replica has connected"; "peer" => hello.replica, "from" => &connection.from);
        let members = all_members(self.members());
        let keeps = |id| id == self.id || members.contains(&id);
        self.directory.hear(hello.replica, hello.addresses.clone(), keeps);
        self.has_new_names = true;
        // An older connection of the same replica has ended, only nobody has said so.
        let of_it = |kind: &Kind| matches!(kind, Kind::Peer(id, _) if *id == hello.replica);
        self.inbound.retain(|other, connection| *other == key || !of_it(&connection.kind));
        self.make_room(key);
    }

    fn class(&self, kind: &Kind) -> ConnectionClass {
        match kind {
            Kind::Unauthenticated | Kind::Refused => ConnectionClass::Unauthenticated,
            Kind::Operator(_) => ConnectionClass::Operators,
            Kind::Peer(id, _) | Kind::Forwarder(id) if all_members(self.members()).contains(id) => {
                ConnectionClass::Members
            }
            Kind::Peer(..) | Kind::Forwarder(_) => ConnectionClass::Unknown,
        }
    }

    /// Lets the oldest go of those that a connection is counted with, if with it they are too many.
    pub fn make_room(&mut self, key: u64) {
        let Some(class) = self.inbound.get(&key).map(|connection| self.class(&connection.kind)) else { return };
        let most = match class {
            ConnectionClass::Unauthenticated => UNAUTHENTICATED_MAX,
            ConnectionClass::Operators => OPERATORS_MAX,
            ConnectionClass::Unknown => UNKNOWN_MAX,
            ConnectionClass::Members => return,
        };
        let others = self.inbound.iter().filter(|(other, _)| **other != key);
        let others: Vec<u64> =
            others.filter(|(_, connection)| self.class(&connection.kind) == class).map(|(other, _)| *other).collect();
        if others.len() >= most
            && let Some(oldest) = self.inbound.remove(&others[0])
        {
            self.tell_refused(Port::Peer, &oldest.from, "too many connections: the oldest of its kind is closed");
        }
    }

    /// Why a certificate does not do for what its owner says. A replica's is of the host at which
    /// the cluster knows the replica, and of the one that it says itself: an authority that signs
    /// for others too makes no members of them. For operators `peers.names` say whose do.
    fn certificate_objection(&self, key: u64, hello: &Hello) -> Option<String> {
        self.config.peers.tls.as_ref()?;
        let Some(certificate) = self.inbound.get(&key).and_then(|connection| connection.channel.certificate()) else {
            return Some("a certificate is missing".to_owned());
        };
        let names = &self.config.peers.names;
        if !names.is_empty() && !names.iter().any(|name| tls::is_of(certificate, name)) {
            return Some("wrong certificate: it is of none of the hosts in peers.names".to_owned());
        }
        if hello.replica == 0 {
            return None;
        }
        let known = self.directory.written_of(hello.replica).map(|addresses| &addresses.peer);
        let wrong = known
            .into_iter()
            .chain([&hello.addresses.peer])
            .find(|address| !tls::is_of(certificate, host_of(address)))?;
        Some(format!(
            "wrong certificate: replica {} is at {wrong}, and the certificate is not of that host. One that has moved needs a certificate of \
             both hosts, or joins as a new replica",
            hello.replica
        ))
    }

    fn objection(&self, key: u64, hello: &Hello) -> Option<String> {
        let Hello { cluster, replica, meant, start, .. } = hello;
        let (cluster, replica) = (*cluster, *replica);
        let is_any = replica == 0 && cluster == 0;
        if cluster != self.cluster && !is_any {
            let own = self.cluster;
            return Some(format!("wrong cluster id: this is a replica of cluster {own:032x}, not of {cluster:032x}"));
        }
        if ![0, self.id].contains(meant) {
            return Some(format!(
                "this is replica {}, not {meant}: the one at this address was replaced, or the address is wrong",
                self.id
            ));
        }
        if replica == 0 {
            return None;
        }
        if replica == self.id {
            return Some(format!(
                "two nodes with one id: this is replica {replica} too. One of them runs on a copy of the other's data; \
                 remove the copy and let it join as a new replica"
            ));
        }
        let lately = |heard_ms: u64| self.clock.now_ms() - heard_ms < self.config.raft.election_ms;
        let other = self.inbound.iter().find(|(other, connection)| {
            let is_other = matches!(connection.kind, Kind::Peer(id, begun) if id == replica && begun != *start);
            **other != key && is_other && lately(connection.heard_ms)
        });
        if let Some((_, connection)) = other {
            return Some(format!(
                "two nodes with one id: replica {replica} is connected from {} already. One of them runs on a copy of the \
                 other's data; remove the copy and let it join as a new replica",
                connection.from
            ));
        }
        self.is_unknown(replica).then(|| {
            format!(
                "unknown id: replica {replica} is no member of cluster {cluster:032x}: it was removed or has never joined. Remove its \
                 data and use `perdura-kv join`"
            )
        })
    }

    /// Whether a replica is surely no member. Who has heard nothing of a leader may know old
    /// members only.
    pub fn is_unknown(&self, replica: u64) -> bool {
        let status = self.node.status();
        let is_current = status.leader != 0 && status.applied == status.committed && status.role != Role::Receiving;
        let members = all_members(self.members());
        is_current && !members.is_empty() && !members.contains(&replica)
    }

    /// Tells a connection that it is not let in, and lets it go when it has heard that.
    pub fn refuse(&mut self, key: u64, why: String) {
        let Some(from) = self.inbound.get(&key).map(|connection| connection.from.clone()) else { return };
        self.tell_refused(Port::Peer, &from, &why);
        let Some(connection) = self.inbound.get_mut(&key) else { return };
        connection.say(&Handshake::Refusal(why));
        connection.kind = Kind::Refused;
    }

    /// Writes to a connection what there is.
    pub fn flush_inbound(&mut self, key: u64) -> store::Result<()> {
        let now_ms = self.clock.now_ms();
        let Some(connection) = self.inbound.get_mut(&key) else { return Ok(()) };
        match connection.flush(now_ms) {
            Ok(_) if connection.is_readable() && !self.readable_inbound.contains(&key) => {
                self.readable_inbound.push_back(key)
            }
            Ok(true) if matches!(connection.kind, Kind::Refused) => _ = self.inbound.remove(&key),
            Ok(_) => {}
            Err(error) => self.part(key, Some(error)),
        }
        Ok(())
    }

    /// Forgets a connection.
    fn part(&mut self, key: u64, error: Option<io::Error>) {
        let Some(connection) = self.inbound.remove(&key) else { return };
        let why = error.filter(|error| error.kind() != io::ErrorKind::UnexpectedEof);
        let why = why.map_or_else(|| "it has closed the connection".to_owned(), |error| error.to_string());
        match connection.kind {
            Kind::Peer(id, _) => {
                info!(self.log, "a replica has gone"; "peer" => id, "from" => &connection.from, "why" => why);
            }
            Kind::Unauthenticated => {
                warn!(self.log, "a connection to the address for replicas has failed"; "from" => &connection.from, "why" => why);
            }
            Kind::Operator(_) | Kind::Forwarder(_) | Kind::Refused => {}
        }
    }
}
