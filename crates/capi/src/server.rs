//! The interface for a SQL server's plugin: `include/perdura_server.h` is made from these files.
//!
//! A pool ([`engine`]) has tables ([`table`], found by a server's definitions through
//! [`discovery`]), sessions ([`session`]) and cursors on tables ([`handler`]). A session runs
//! statements ([`statement`]) in transactions ([`transaction`], [`savepoint`], [`xa`]); a statement
//! reads and changes rows through cursors ([`rows`], by their keys through [`index`];
//! [`replication`] for a replica), counts ([`auto_increment`]), or has a table checked ([`check`])
//! or its indexes altered ([`alter`]). A SEQUENCE object has transactions of its own
//! ([`sequence`]). [`foreign_keys`] tells which tables refer to which, and looks up their rows.
//! [`backup`] holds the pool still; [`status`], [`report`] and [`information`] (in [`value`]s) tell
//! about it.
//!
//! From the bottom up: `code`, `call`; `name`, `definition`, `counter`, `references`, `engine`,
//! `key`; `table`, `discovery`, `cleanup`, `backup`, `status`, `report`, `value`, `information`;
//! `hooks`, `session_client`, `session`; `statement`, `transaction`, `savepoint`, `xa`;
//! `index_position`, `cursor`, `index_reads`, `handler`; `rows`, `index`, `auto_increment`,
//! `replication`, `check`, `alter`, `sequence`, `foreign_keys`. Stands on the engine and on
//! [`crate::row`].
//!
//! Invariant: after a panic the pool fails stop (I11), so that nothing that the panic left half
//! changed is written.

pub mod alter;
pub mod auto_increment;
pub mod backup;
mod call;
pub mod check;
pub mod cleanup;
pub mod code;
mod counter;
pub mod cursor;
pub mod definition;
pub mod discovery;
pub mod engine;
pub mod foreign_keys;
pub mod handler;
pub mod hooks;
pub mod index;
mod index_position;
mod index_reads;
pub mod information;
pub mod key;
mod name;
mod references;
pub mod replication;
pub mod report;
mod row_locks;
pub mod rows;
pub mod savepoint;
pub mod sequence;
pub mod session;
mod session_client;
pub mod statement;
pub mod status;
pub mod table;
pub mod transaction;
pub mod value;
pub mod xa;
