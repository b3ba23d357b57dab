//! Admission of inbound connections: which are let in, and how many. Their number is bounded by
//! class: however many there are of one, they take no room from the others.

use slog::info;

use super::{Inbound, InboundConnections, Kind, OPERATORS_MAX, UNAUTHENTICATED_MAX, UNKNOWN_MAX};
use crate::codec::all_members;
use crate::config::host_of;
use crate::node::Node;
use crate::server::peers::directory::PeerDirectory;
use crate::server::peers::handshake::{Handshake, Hello};
use crate::server::runtime::Port;
use crate::server::runtime::Runtime;
use crate::server::tls;

/// Connections that are counted together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionClass {
    Unauthenticated,
    Operators,
    Unknown,
    /// Each has one connection for messages, and one for what it passes on.
    Members,
}

fn class(kind: &Kind, members: &[u64]) -> ConnectionClass {
    match kind {
        Kind::Unauthenticated | Kind::Refused => ConnectionClass::Unauthenticated,
        Kind::Operator(_) => ConnectionClass::Operators,
        Kind::Peer(id, _) | Kind::Forwarder(id) if members.contains(id) => ConnectionClass::Members,
        Kind::Peer(..) | Kind::Forwarder(_) => ConnectionClass::Unknown,
    }
}

impl InboundConnections {
    /// Lets a connection in, or says why not.
    pub(crate) fn greet(
        &mut self,
        key: u64,
        (hello, forwards): (&Hello, bool),
        directory: &mut PeerDirectory,
        node: &Node,
        runtime: &mut Runtime,
    ) {
        let operator = || (forwards && hello.replica == 0).then(|| "operators pass no requests on".to_owned());
        let objection = self
            .certificate_objection(key, hello, directory, runtime)
            .or_else(|| self.objection(key, hello, node, runtime))
            .or_else(operator);
        if let Some(why) = objection {
            return self.refuse(key, why, runtime);
        }
        let Some(connection) = self.connections.get_mut(&key) else { return };
        let cluster = node.store().persistent_state().cluster;
        connection.say(&Handshake::Welcome { cluster, replica: node.id() });
        connection.heard_ms = runtime.now_ms();
        let (id, from) = (hello.replica, &connection.from);
        if id == 0 {
            connection.kind = Kind::Operator(None);
        } else if forwards {
            connection.kind = Kind::Forwarder(id);
            info!(runtime.log(), "a replica passes requests on"; "peer" => id, "from" => from);
            // An older connection has ended.
            let is_older = |kind: &Kind| matches!(kind, Kind::Forwarder(other) if *other == id);
            self.connections.retain(|other, connection| *other == key || !is_older(&connection.kind));
        } else {
            connection.kind = Kind::Peer(id, hello.start);
            info!(runtime.log(), "a replica has connected"; "peer" => id, "from" => from);
            let members = all_members(node.members());
            directory.announce(id, hello.addresses.clone(), |id| id == node.id() || members.contains(&id));
            // An older connection of the same replica has ended, but its end was not seen yet.
            let is_older = |kind: &Kind| matches!(kind, Kind::Peer(other, _) if *other == id);
            self.connections.retain(|other, connection| *other == key || !is_older(&connection.kind));
        }
        self.make_room(key, node, runtime);
    }

    /// Closes the oldest of a connection's class, if with it they are too many.
    pub(super) fn make_room(&mut self, key: u64, node: &Node, runtime: &mut Runtime) {
        let members = all_members(node.members());
        let Some(own) = self.connections.get(&key).map(|connection| class(&connection.kind, &members)) else { return };
        let most = match own {
            ConnectionClass::Unauthenticated => UNAUTHENTICATED_MAX,
            ConnectionClass::Operators => OPERATORS_MAX,
            ConnectionClass::Unknown => UNKNOWN_MAX,
            ConnectionClass::Members => return,
        };
        let is_other =
            |(other, connection): &(&u64, &Inbound)| **other != key && class(&connection.kind, &members) == own;
        let others: Vec<u64> = self.connections.iter().filter(is_other).map(|(other, _)| *other).collect();
        if others.len() >= most
            && let Some(oldest) = self.connections.remove(&others[0])
        {
            runtime.refuse(Port::Peer, &oldest.from, "too many connections: the oldest of its kind is closed");
        }
    }

    /// Reason to refuse a certificate. A replica's is of the host at which the cluster knows the
    /// replica, and of the one that it says itself: an authority that signs for others too makes no
    /// members of them. For operators `peers.names` say whose do.
    fn certificate_objection(
        &self,
        key: u64,
        hello: &Hello,
        directory: &PeerDirectory,
        runtime: &Runtime,
    ) -> Option<String> {
        let peers = &runtime.config().peers;
        peers.tls.as_ref()?;
        let Some(certificate) = self.connections.get(&key).and_then(|connection| connection.channel.certificate())
        else {
            return Some("a certificate is missing".to_owned());
        };
        if !peers.names.is_empty() && !peers.names.iter().any(|name| tls::is_of(certificate, name)) {
            return Some("wrong certificate: it is of none of the hosts in peers.names".to_owned());
        }
        if hello.replica == 0 {
            return None;
        }
        let known = directory.persisted(hello.replica).map(|addresses| &addresses.peer);
        let mut addresses = known.into_iter().chain([&hello.addresses.peer]);
        let wrong = addresses.find(|address| !tls::is_of(certificate, host_of(address)))?;
        Some(format!(
            "wrong certificate: replica {} is at {wrong}, and the certificate is not of that host. One that has moved needs a certificate of \
             both hosts, or joins as a new replica",
            hello.replica
        ))
    }

    fn objection(&self, key: u64, hello: &Hello, node: &Node, runtime: &Runtime) -> Option<String> {
        let Hello { cluster, replica, meant, start, .. } = hello;
        let (cluster, replica, id) = (*cluster, *replica, node.id());
        let own = node.store().persistent_state().cluster;
        let is_any = replica == 0 && cluster == 0;
        if cluster != own && !is_any {
            return Some(format!("wrong cluster id: this is a replica of cluster {own:032x}, not of {cluster:032x}"));
        }
        if ![0, id].contains(meant) {
            return Some(format!(
                "this is replica {id}, not {meant}: the one at this address was replaced, or the address is wrong"
            ));
        }
        if replica == 0 {
            return None;
        }
        if replica == id {
            return Some(format!(
                "two nodes with one id: this is replica {replica} too. One of them runs on a copy of the other's data; \
                 remove the copy and let it join as a new replica"
            ));
        }
        let lately = |heard_ms: u64| runtime.now_ms() - heard_ms < runtime.config().raft.election_ms;
        let other = self.connections.iter().find(|(other, connection)| {
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
        node.is_no_member(replica).then(|| {
            format!(
                "unknown id: replica {replica} is no member of cluster {cluster:032x}: it was removed or has never joined. Remove its \
                 data and use `perdura-kv join`"
            )
        })
    }
}
