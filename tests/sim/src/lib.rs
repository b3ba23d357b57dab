//! Whole clusters in one thread, as a seed decides: the server's own nodes, stores and messages;
//! only transport, clock and memory are replaced.
//!
//! The network delays, loses, repeats and reorders messages and parts replicas from each other,
//! also one way only. Clocks run at their own rates, and the time of day jumps; processes are
//! stopped. The power of a replica fails, between calls or in the midst of one, and what its medium
//! then has is one of what the lines or sectors not yet durable may leave. The invariants of Raft
//! are checked after each step (`checks`), and what clients saw is checked to be linearizable
//! (`history`).
//!
//! In most stories clients call the nodes themselves (`clients`). In one they speak RESP to the
//! server's own room `client` (`sessions`, `work`), with connections between replicas on which
//! requests are forwarded (`links`).

#![forbid(unsafe_code)]

mod checks;
mod clients;
mod cluster;
mod faults;
mod front_end;
mod history;
mod links;
mod machine;
mod network;
mod observed;
mod plan;
mod plot;
mod replies;
mod requests;
mod scheme;
mod sessions;
mod swap;
mod times;
mod work;

pub use cluster::run;
pub use plan::{Plan, Report, Story};
