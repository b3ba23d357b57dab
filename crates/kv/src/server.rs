//! The world around a replica: sockets, time and files. One thread does it all, and waits for nothing but events.
//!
//! A turn: bytes of clients become entries and reads, letters go in; what the replica has for others is sent *before* its own entries are
//! made durable; then they are, and what rested on that is sent; replies go out last and at once. Entries are made durable when
//! the queue of events is drained, or after a number of entries or a time, whichever is first.
//!
//! Bounds: clients and the requests of each by the configuration (room `client`); a replica's queue by
//! `peers.queue_size_max`, beyond which letters are dropped; browsers by [`BROWSERS_MAX`], and visitors by a number for those of each kind (visitor.rs),
//! by the length of what they may say, and by time.
//!
//! - `clock`, `logs`: time, chance, the log for operators
//! - `socket`, `channel`, `tls`: streams of bytes
//! - `hello`, `control`: what is said before letters, and what operators ask
//! - `link`, `visitor`, `http`: connections to replicas, from replicas and operators, from browsers
//! - `book`, `chores`: where replicas are reached, and what the leader does by itself
//! - `histogram`, `metrics`, `operator`: what operators see
//! - `pool`: the replica's data; `descriptors`: those of the process
//! - `state`: what a server consists of; `serving`, `visiting`, `asking`, `forwarding`, `browsing`, `turning`, `ticking`, `room`: what it does

mod asking;
mod book;
#[cfg(test)]
mod bounds;
mod browsing;
mod channel;
mod chores;
mod clock;
pub mod control;
mod descriptors;
mod forwarding;
pub mod hello;
mod histogram;
mod http;
mod link;
mod logs;
mod metrics;
mod operator;
pub mod pool;
mod process;
mod refusals;
mod renewal;
mod room;
mod serving;
mod socket;
mod state;
mod ticking;
pub mod tls;
mod turning;
mod visiting;
mod visitor;

use slog::{Logger, error, info};

use crate::config::Config;
pub use clock::{draw, draw_long, wall_ms};
pub use logs::logger;
use pool::Trouble;
pub use state::BROWSERS_MAX;
use state::Server;

/// Serves until a signal ends it. Error: what keeps it from that, and what helps.
pub fn run(config: Config, log: &Logger) -> Result<(), Trouble> {
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
            let trouble = pool::trouble(&directory, &error);
            error!(log, "the store has failed"; "why" => trouble.to_string());
            Err(trouble)
        }
    }
}
