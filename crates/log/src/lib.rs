#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! A *generation* is a set of parallel log files, the *lanes*. The log switches from one generation
//! to the next online and wraps around (Matsuura, NVMSA 2021, IV and V.B). A transaction reserves
//! space in a lane, takes its *CSN* from the central counter, copies its record there past the
//! cache and fences once (NF-log, SNU 2022, 2.3). A record is valid by a checksum salted with its
//! generation's activation, so recycled space needs no clearing (van Renen et al., DaMoN 2019).
//!
//! A commit calls [`Log::begin`], [`LogTxn::append_chunk`] for redo that is large,
//! [`LogTxn::reserve`] (all that can fail or block), [`LogTxn::commit`] (cannot) and
//! [`Log::wait_durable`]. The caller then makes its changes visible, and calls [`Log::publish`] and
//! [`Log::wait_visible`]. Once it has changed its storage and fenced it, it calls [`Log::stored`]:
//! checkpoints and the reuse of the log go by that.
//!
//! A start calls [`Recovery::open`]. The caller replays [`Recovery::committed`] into its storage
//! and fences it; [`Recovery::finish`] voids every older record and returns the running [`Log`].
//!
//! - `create` makes the log of a new pool; `config`, `error`: settings and failures
//! - `log` is the running log, `shared` what its users share, `status` its report, `stages` where
//!   the time of its transactions goes
//! - `generation`, `lane_pins`: lanes, and who still needs one; `control`, `ledger`: switch, growth
//!   and removal under the control lock; `need`, `shrink`: which generations go
//! - `reserve` can block or fail, `group` writes, `group_commit` shares writes on a disk, `txn` is
//!   one transaction's part
//! - `watermark`, `csn`: the marks that follow the commits in order
//! - `path`: the log buffer, with its writer, flusher and notifiers, where records do not go to
//!   their place directly
//! - `prepared`, `copy_forward`: prepared transactions, and their records in newer generations
//! - `recovery`, `analysis`, `scan`: the start; `format`, `superblock`, `superfile`: the bytes

#![warn(unreachable_pub)]

mod analysis;
mod atomic;
mod config;
mod control;
mod copy_forward;
mod create;
mod error;
pub mod format;
mod generation;
#[cfg(test)]
mod golden;
mod group;
mod group_commit;
mod lane_pins;
mod ledger;
mod log;
mod need;
mod path;
mod prepared;
mod publication;
mod recovery;
mod reserve;
mod scan;
mod shared;
mod shrink;
mod stages;
mod status;
mod superblock;
mod superfile;
mod txn;
mod watermark;

pub use analysis::{Bodies, BodyRef, Committed, InDoubt};
pub use config::{GENERATIONS_MAX, LANE_BYTES_MAX, LANE_BYTES_MIN, LANES_MAX, LaneChoice, LogConfig};
pub use create::create;
pub use error::{Error, ErrorKind, Result};
pub use format::{Csn, TxnId};
pub use log::Log;
pub use path::{LogPath, PathConfig, PathStatus, Turns};
pub use publication::Publication;
pub use recovery::{PreparedTxn, Recovery};
pub use scan::scan;
pub use stages::{LogStage, StageClock, StageTimes};
pub use status::{GenerationState, GenerationStatus, LogStatus};
pub use superblock::{Device, FORMAT_VERSION, GenerationEntry, SUPERBLOCK_NAME, SUPERBLOCK_NEW_NAME, Superblock};
pub use superfile::forget_device;
pub use txn::{LogTxn, Reservation};
