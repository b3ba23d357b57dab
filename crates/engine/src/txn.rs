//! Room *txn*: sessions and their transactions.
//!
//! It owns the snapshots of a session, reads and scans, the online check, writes under row locks,
//! locks of whole tables, savepoints, and the end of a transaction: commit, prepare, rollback. It
//! stands on `pool`, `changes` and `table`. It keeps (I1): a commit is acknowledged once it and
//! every commit before it are durable and visible; (I4): nothing is published before its commit and
//! every earlier one are durable; (I5): between taking a CSN and its fenced record nothing can
//! fail; (I8): the log forgets a prepared transaction before the space it wrote to is freed; and
//! (I3): each statement fences what it wrote, because the next may run on another thread.
//!
//! A session is composed of parts that own their fields: snapshots, held locks (room `pool`), the
//! write set (room `changes`), savepoints, redo log and pool change. An operation borrows the parts
//! that it needs: `lock` and `table_lock` (`Locker`), `index_reader`, `keys`, `check` and
//! `check_index`. Readers of several calls borrow the session: `scan`, `index_scan` with
//! `moved_rows`, `reader`. `references` keeps foreign keys. `compact` moves rows by sessions of its
//! own.

pub(crate) mod check;
mod check_index;
pub(crate) mod compact;
pub(crate) mod direction;
pub(crate) mod index_reader;
pub(crate) mod index_scan;
pub(crate) mod isolation;
pub(crate) mod keys;
pub(crate) mod lock;
mod moved_rows;
mod pool_change;
pub(crate) mod reader;
mod redo_log;
pub(crate) mod references;
mod rows_ahead;
pub(crate) mod savepoints;
pub(crate) mod scan;
pub(crate) mod session;
mod snapshots;
mod table_lock;
