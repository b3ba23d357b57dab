#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! `docs/ARCHITECTURE.md` walks the data paths, `docs/engine.md` says how and why,
//! `docs/format.md` draws every persistent structure, and `docs/invariants.md` numbers the rules,
//! (I1) to (I11), that comments cite.
//!
//! The rooms, from the top down; each uses only those after it: `engine`, `status`, `sessions`,
//! `activity` and `background`; `recovery`; `txn`; `pool`; `changes`; `table`; `index`; `space`;
//! `shadow`; `files`; and at the bottom `service`, `notices`, `config`, [`mod@format`], `error` and
//! `random`.

#![warn(unreachable_pub)]

mod activity;
mod background;
mod changes;
mod config;
mod counters;
mod engine;
mod error;
mod files;
pub mod format;
mod index;
mod notices;
mod pool;
mod random;
mod recovery;
mod service;
mod sessions;
mod shadow;
mod space;
mod status;
mod table;
mod txn;

pub use activity::{LockStatus, LockWait, SessionStatus, SnapshotStatus, TransactionStatus, WaitStatus};
pub use config::{Clock, Config};
pub use counters::Counters;
pub use engine::Engine;
pub use error::{Error, ErrorKind, Result};
pub use format::{IndexDefinition, KEY_BYTES_MAX, Rid};
pub use index::measure::Measured;
pub use perdura_log::{
    Csn, LaneChoice, LogConfig, LogPath, LogStage, PathConfig, PathStatus, StageClock, StageTimes, Turns, forget_device,
};
pub use perdura_pmem::numa::{LocalityStatus, Machine};
pub use perdura_pmem::{FileMedium, Medium, Model as MediumModel, Options as MediumOptions};
pub use pool::hold::HoldNumber;
pub use pool::locks::{Deadlock, Deadlocked, LockMode, LockOutcome};
pub use pool::owner::{Client, Description, LockKey, Stage};
pub use recovery::alter::{AlteredIndex, BuildClient, IndexAlteration};
pub use recovery::check;
pub use recovery::ddl::Redefinition;
pub use status::{Status, TableStatus};
pub use table::Table;
pub use table::figures::{IndexSpace, TableSpace};
pub use table::visibility::{ReadView, RowRef};
pub use txn::check::{CheckClient, CheckDepth, CheckSummary};
pub use txn::direction::Direction;
pub use txn::index_reader::IndexReader;
pub use txn::index_scan::{IndexScan, OwnWrites, ScanBuffers};
pub use txn::isolation::Isolation;
pub use txn::keys::{Key, KeyChange};
pub use txn::lock::Locker;
pub use txn::reader::{Reader, Rows};
pub use txn::references::{ReferenceKey, ReferringRows};
pub use txn::savepoints::Savepoint;
pub use txn::scan::Scan;
pub use txn::session::{Killer, Session};
