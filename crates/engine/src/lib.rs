//! Perdura's storage engine: tables of immutable row versions in persistent memory, snapshot isolation, and recovery.
//!
//! [`Engine`] is an opened pool, [`Txn`] a session's transaction. Rows are opaque bytes. The layout of everything persistent is in
//! `docs/format.md`, the rules (I1) to (I11) in `docs/invariants.md`, the whole in `docs/ARCHITECTURE.md`.
//!
//! From the outside in: `engine`, `hold`, `status`, `sessions`, `check`, `catalog` and `recovery`; `txn`, `read`,
//! `catch_up`, `commit`, `writes`, `bulk`; `visibility`, `snapshot`, `locks`, `owner`; `table`, `shard`, `open_cells`,
//! `bulk_segment`, `space`, `spare`, `sweep`, `purge`; `background`, `service`, `notices`; `directory`, `cells`,
//! `datafile`; `format`.

mod audit;
mod background;
mod bulk;
mod bulk_segment;
mod catalog;
mod catch_up;
mod cells;
pub mod check;
mod commit;
mod config;
mod datafile;
mod directory;
mod engine;
mod error;
pub mod format;
mod hold;
mod locks;
mod notices;
mod open_cells;
mod owner;
mod purge;
mod random;
mod read;
mod recovery;
mod service;
mod sessions;
mod shard;
mod snapshot;
mod space;
mod spare;
mod status;
mod sweep;
mod table;
mod txn;
mod visibility;
mod writes;

pub use config::Config;
pub use engine::Engine;
pub use error::{Error, ErrorKind, Result};
pub use format::Rid;
pub use locks::{Deadlock, Deadlocked, LockMode, LockOutcome, RowKey};
pub use owner::{Client, Clock, Description};
pub use perdura_log::{Csn, LogConfig};
pub use read::Scan;
pub use sessions::{TransactionStatus, WaitStatus};
pub use status::{Counters, Status, TableStatus};
pub use table::Table;
pub use txn::{Isolation, Killer, Savepoint, Txn};
pub use visibility::{ReadView, RowRef};
