//! The clients of a replica, without input or output: bytes come in, commands go to the node with
//! tickets, and replies go out in the order of the requests, in whatever order the node answers.
//!
//! A step of the event loop, as the clients see it, which begins with [`Clients::begin_step`]:
//!
//! 1. [`Clients::open`] for a new connection. `None`: tell it `TOO_MANY` and close.
//! 2. What was read from a connection goes into [`Clients::input`]; then [`Clients::advance`]. No
//!    more is read while [`Clients::wants_input`] is false.
//! 3. [`Clients::tick`] now and then (every 10 to 100 ms): deadlines of keys, waits that time out,
//!    whether users are known; then [`Clients::take_notices`] for the log.
//! 4. [`Clients::step`] when all input is in: it goes on where a connection was held up, does reads
//!    that may be done, as far as a step goes, and asks the node for the reads of all at once.
//!    While [`Clients::has_work`], the next step comes without waiting for anything.
//! 5. The node's output; each of its [`Done`](crate::node::Done)s goes into [`Clients::done`], then
//!    again 4, until the node has nothing to give out.
//! 6. For each of [`Clients::take_woken`]: write [`Clients::output`] and advance the buffer by what
//!    was written. When it is empty: close if [`Clients::is_over`], else [`Clients::advance`], for
//!    what was held up by a full output.
//! 7. [`Clients::close`] for a connection that is gone. Its tokens and tickets are not mistaken for
//!    the next one's.
//!
//! Tickets have the top bit clear; the server may use those with it set for its own.
//!
//! # Order
//! Commands of one connection take effect in their order. Writes are evaluated when they come, on
//! the newest versions. Reads wait for ReadIndex, all of a step under one ticket, and are done on
//! what is applied. A read behind a write of the same connection is evaluated with it, and a write
//! behind reads that wait evaluates these first.
//!
//! Where requests are passed on to the leader (`forward`): at the replica that follows,
//! [`Clients::take_forwards`] is what is to be sent and [`Clients::forwarded`] an answer; at the
//! leader, [`Clients::take_in`] is what has come, and [`Clients::take_answers`] what goes back.
//!
//! # Bounds
//! Of a connection: requests in flight, bytes of replies that are held or not written, bytes of a
//! transaction, bytes of a request ([`Limits`](crate::resp::Limits)). Beyond them it is not read
//! from. One command reads and writes at most `command::WORK_BYTES_MAX` of values, and so does a
//! transaction, beyond its last command.

mod administration;
mod admission;
mod answers;
mod authentication;
mod batches;
mod blocking;
mod catalog;
mod clients;
mod cluster;
mod connection;
mod context;
mod denials;
mod dispatch;
mod evaluate;
mod forward;
mod forwards;
mod greeting;
mod hash_slot;
mod info;
mod input;
mod lifecycle;
mod login;
mod lookup;
mod notices;
mod once;
mod output;
mod peer_sessions;
mod performance;
mod profile;
mod proxied;
mod queues;
mod reads;
mod relay;
mod settings;
mod shared;
mod slots;
mod statistics;
mod step;
mod sweeper;
mod table;
mod tickets;
mod transaction;
mod transaction_state;
mod tuning;
mod users;
mod verdict;
mod wait;

use batches::Batches;
pub use notices::Notice;
use peer_sessions::PeerSessions;
pub use profile::Peer;
pub use settings::{Name, Process, Settings};
use shared::Shared;
pub use statistics::Statistics;
pub use step::STEP_PLACES;
use sweeper::Sweeper;
use table::Table;

/// Reply to a connection beyond `connections_max`.
pub(crate) const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

/// All clients of a replica.
#[derive(Debug)]
pub struct Clients {
    shared: Shared,
    table: Table,
    batches: Batches,
    /// Bytes of all connections, as they were counted last.
    bytes: usize,
    /// Requests that other replicas have passed on.
    peer_sessions: PeerSessions,
    sweeper: Sweeper,
}
