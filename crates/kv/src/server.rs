//! The world around a replica: sockets, time and files. One thread does it all, and waits for
//! nothing but events.
//!
//! A turn: bytes of clients become entries and reads, messages go in; what the replica has for
//! others is sent *before* its own entries are made durable; then they are, and what rested on that
//! is sent; replies go out last and at once. Entries are made durable when the queue of events is
//! drained, or after a number of entries or a time, whichever is first.
//!
//! Bounds: clients and the requests of each by the configuration (room `client`); a replica's queue
//! by `peers.queue_size_max`, beyond which messages are dropped; browsers by [`BROWSERS_MAX`], and
//! inbound by a number for those of each kind (inbound.rs), by the length of what they may say, and
//! by time.
//!
//! - `clock`, `logs`: time, chance, the log for operators
//! - `socket`, `channel`, `tls`: streams of bytes
//! - `handshake`, `admin`: what is said before messages, and what operators ask
//! - `link`, `inbound`, `http`: connections to replicas, from replicas and operators, from browsers
//! - `peer_directory`, `leader_tasks`: where replicas are reached, and what the leader does by
//!   itself
//! - `histogram`, `metrics`, `operator`: what operators see
//! - `pool`: the replica's data; `descriptors`: those of the process
//! - `state`: what a server consists of; `client_io`, `accept`, `admin_requests`, `forwarding`,
//!   `http_io`, `event_loop`, `periodic`, `room`: what it does

mod accept;
pub mod admin;
mod admin_requests;
#[cfg(test)]
mod bounds;
mod channel;
mod client_io;
mod clock;
mod descriptors;
mod event_loop;
mod forwarding;
pub mod handshake;
mod histogram;
mod http;
mod http_io;
mod inbound;
mod leader_tasks;
mod link;
mod logs;
mod metrics;
mod operator;
mod peer_directory;
mod periodic;
pub mod pool;
mod process;
mod refusals;
mod renewal;
mod room;
mod socket;
mod state;
pub mod tls;

use slog::{Logger, error, info};

use crate::config::Config;
pub use clock::{draw, draw_long, wall_ms};
pub use logs::logger;
use pool::StartError;
pub use state::BROWSERS_MAX;
use state::Server;

/// TlsAcceptor until a signal ends it. Error: what keeps it from that, and what helps.
pub fn run(config: Config, log: &Logger) -> Result<(), StartError> {
    let directory = config.directory.clone();
    let mut server = Server::open(config, log.clone())?;
    info!(log, "serving"; "replica" => server.id, "cluster" => format!("{:032x}", server.cluster),
        "clients" => server.addresses(state::Port::Client), "clients_announced" => server.config.client_address(),
        "peers" => server.addresses(state::Port::Peer), "peers_announced" => server.config.peer_address());
    match server.run() {
        Ok(()) => {
            info!(log, "stopped"; "replica" => server.id);
            Ok(())
        }
        Err(error) => {
            let start_error = pool::start_error(&directory, &error);
            error!(log, "the store has failed"; "why" => start_error.to_string());
            Err(start_error)
        }
    }
}
