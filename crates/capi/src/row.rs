//! Rows: from a server's record buffer to the packed bytes that the engine stores, and back.
//!
//! Owns the packed form of a row ([`codec`]) and the stored form of a table's definition
//! ([`definition`], [`layout`], [`foreign_key`]). From the bottom up: `bytes`, `copy`, `pad`;
//! `layout`, `foreign_key`; `definition`, `codec`. Stands on nothing else in this crate, nor on the
//! engine.
//!
//! Invariant: stored bytes are not trusted. Whatever they are, reading them stays within them and
//! within the record.

pub mod bytes;
pub mod codec;
mod copy;
pub mod definition;
pub mod foreign_key;
pub mod layout;
mod pad;
