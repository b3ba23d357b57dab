//! Tests of the key-value server through its interface, linked into one program; those of one file:
//! `cargo test -p perdura-kv --test main NAME::`.
//!
//! Tests that start processes are a program of their own.

mod admission;
mod client;
mod clock;
mod commands_page;
mod forwarding;
mod full;
mod fuzz;
mod loads;
mod makes_room;
mod ranges;
mod redis_differential;
mod steps;
mod store_conformance;
mod support;
mod transactions;
mod users;
mod versions;
mod without_room;
