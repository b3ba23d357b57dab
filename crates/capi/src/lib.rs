//! The C interface of Perdura. Two audiences, a header each, and nothing shared between them but
//! how a call fails:
//!
//! - [`server`] is what a SQL server's plugin links against (`include/perdura_server.h`): pools,
//!   tables, sessions, rows. It stands on the engine, and on [`row`], which packs the server's
//!   records into the rows that the engine stores.
//! - [`map`] is the ordered maps for programs of any kind (`include/perdura_map.h`). It stands on
//!   `perdura-map` alone.
//!
//! Below both: `failure` is a code with its message, `message` keeps the last one of each
//! thread, and `barrier` catches panics. From the bottom up: `message`, `failure`, `barrier`;
//! `row`; `server`, `map`. A test makes both headers from the sources and refuses any difference
//! (`tests/header.rs`).
//!
//! Invariants: no panic crosses the interface. A call that fails says so in its code and leaves a
//! message. Reading and writing rows allocates nothing once a cursor's buffers have grown.

#![warn(unreachable_pub)]

mod barrier;
mod failure;
pub mod map;
mod message;
pub mod row;
pub mod server;
