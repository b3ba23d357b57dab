//! The world around a replica: sockets, time and files. One thread does it all, and waits for
//! nothing but events.
//!
//! A step: bytes of clients become entries and reads, messages go in; messages of the replica are
//! sent *before* its own entries are made durable; then they are, and what rested on that is sent;
//! replies go out last and at once. Entries are made durable when the queue of events is drained,
//! or after a number of entries or a time, whichever is first.
//!
//! Bounds: clients and the requests of each by the configuration (room `client`); a replica's queue
//! by `peers.queue_size_max`, beyond which messages are dropped; browsers by
//! `browsers::BROWSERS_MAX`; inbound connections by a number for each class (`peers::inbound`), by
//! the length of their frames, and by time.
//!
//! - `runtime`, `clock`, `logs`: services that all parts use
//! - `socket`, `channel`, `tls`, `listeners`: streams of bytes, and where they come from
//! - `client_sockets`, `peers`, `browsers`, `admin`: connections of clients, of replicas, by HTTP,
//!   and of operators, with the state of each
//! - `schedule`: what is due when; `renewal`: changed certificates
//! - `histogram`, `metrics`, `operator`, `http`, `status`, `reports`: what operators see
//! - `pool`: the replica's data; `descriptors`, `process`: those of the process
//! - `open`, `event_loop`, `periodic`: the server as a whole

pub mod admin;
#[cfg(test)]
mod bounds;
mod browsers;
mod channel;
mod client_sockets;
mod clock;
mod descriptors;
mod event_loop;
mod histogram;
mod http;
mod listeners;
mod logs;
mod metrics;
mod open;
mod operator;
mod peers;
mod periodic;
pub mod pool;
mod process;
mod refusals;
mod renewal;
mod reports;
mod runtime;
mod schedule;
mod socket;
mod spin;
mod status;
pub mod tls;

use slog::{Logger, error, info};

use crate::client::Clients;
use crate::config::Config;
use crate::node::Node;
use admin::Admin;
use browsers::Browsers;
use client_sockets::ClientSockets;
pub use clock::{draw, draw_long, wall_ms};
use listeners::Listeners;
pub use logs::logger;
use metrics::Traffic;
use peers::directory::PeerDirectory;
use peers::forwarder::Forwarder;
pub use peers::handshake;
use peers::inbound::InboundConnections;
use peers::links::Links;
use pool::{Lock, StartError};
use renewal::Renewal;
use reports::LastLogged;
use runtime::Port;
use runtime::Runtime;
use schedule::Schedule;

/// A server. What concerns one part is done by it; the server brings them together.
struct Server {
    runtime: Runtime,
    listeners: Listeners,
    node: Node,
    clients: Clients,
    sockets: ClientSockets,
    directory: PeerDirectory,
    links: Links,
    forwarder: Forwarder,
    inbound: InboundConnections,
    admin: Admin,
    browsers: Browsers,
    schedule: Schedule,
    /// Whether the store has work that can wait.
    has_upkeep: bool,
    traffic: Traffic,
    logged: LastLogged,
    renewal: Renewal,
    scratch: Vec<u8>,
    /// Kept until the store is closed: the field is dropped last.
    _lock: Lock,
}

/// Serves until a signal ends it. Error: what keeps it from that, and what helps.
pub fn run(config: Config, log: &Logger) -> Result<(), StartError> {
    let directory = config.directory.clone();
    let mut server = Server::open(config, log.clone())?;
    let (config, id) = (server.runtime.config(), server.node.id());
    let cluster = server.node.store().persistent_state().cluster;
    info!(log, "serving"; "replica" => id, "cluster" => format!("{cluster:032x}"),
        "clients" => server.listeners.addresses(Port::Client), "clients_announced" => config.client_address(),
        "peers" => server.listeners.addresses(Port::Peer), "peers_announced" => config.peer_address());
    match server.run() {
        Ok(()) => {
            info!(log, "stopped"; "replica" => id);
            Ok(())
        }
        Err(error) => {
            let start_error = pool::start_error(&directory, &error);
            error!(log, "the store has failed"; "why" => start_error.to_string());
            Err(start_error)
        }
    }
}
