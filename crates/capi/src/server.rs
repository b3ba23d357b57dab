//! The interface for a SQL server's plugin: `include/perdura_server.h` is made from these files.
//!
//! A pool ([`engine`]) has tables ([`table`], found by a server's definitions through [`discovery`]), sessions ([`session`]) and
//! cursors on tables ([`handler`]). A session runs statements ([`statement`]) in transactions ([`transaction`], [`savepoint`],
//! [`xa`]); a statement reads and changes rows through cursors ([`rows`]; [`replication`] for a replica), or has a table checked
//! ([`check`]). [`backup`] holds the pool still; [`status`], [`report`] and [`information`] (in [`value`]s) tell about it.
//!
//! From the bottom up: `code`, `call`; `engine`, `name`, `definition`; `table`, `discovery`, `cleanup`, `backup`, `status`,
//! `report`, `value`, `information`; `hooks`, `session_client`, `session`; `statement`, `transaction`, `savepoint`, `xa`; `cursor`,
//! `handler`; `rows`, `replication`, `check`. Stands on the engine and on [`crate::row`].
//!
//! Invariant: after a panic the pool fails stop (I11), so that nothing that the panic left half changed is written.

pub mod backup;
mod call;
pub mod check;
pub mod cleanup;
pub mod code;
pub mod cursor;
pub mod definition;
pub mod discovery;
pub mod engine;
pub mod handler;
pub mod hooks;
pub mod information;
mod name;
pub mod replication;
pub mod report;
pub mod rows;
pub mod savepoint;
pub mod session;
mod session_client;
pub mod statement;
pub mod status;
pub mod table;
pub mod transaction;
pub mod value;
pub mod xa;
