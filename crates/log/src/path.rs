//! Room *path*: the way of records to the medium by a log buffer and a log writer, instead of each
//! session's own copy and fence. `docs/log-paths.md` is its design.
//!
//! `stream` is the door: sessions join it, fill their part of the `ring`, and wait. `order` says
//! where each part goes, `link` how far it is filled. `writer` and `flusher` take turns, `ahead`
//! cuts what they write, `events` wakes those who wait, `unannounced` has the commits, `threads`
//! runs them all. Keeps (I1), (I2), (I5).

mod ahead;
mod config;
mod counts;
mod ends;
mod events;
mod flusher;
mod link;
mod lsn;
mod order;
mod ring;
mod seat;
mod stream;
mod threads;
mod unannounced;
mod writer;

pub(crate) use config::block_bytes;
pub use config::{LogPath, PathConfig, Turns};
pub use counts::PathStatus;
pub(crate) use lsn::Lsn;
pub(crate) use order::Target;
pub(crate) use seat::Seat;
pub(crate) use stream::{NOTIFIERS_END, Stream};
#[cfg(test)]
pub(crate) use threads::die_as_writer;
pub(crate) use threads::{Threads, bodies};
