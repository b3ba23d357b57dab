//! The C interface of Perdura, for the MariaDB plugin and for programs that embed the engine or the ordered maps.
//!
//! `include/perdura.h` is made from this crate and checked against it by a test. A pool ([`engine`]) has sessions ([`session`])
//! and open tables ([`table`], [`cursor`]); rows go between a server's record buffers ([`layout`]) and the packed form the engine
//! keeps ([`row`]). Calls return a code; a failed one leaves its message with the calling thread ([`code`]). No panic crosses
//! the interface. Nothing here allocates per row once buffers have grown. The maps ([`map`]) have a header of their own,
//! `include/perdura_map.h`, and share nothing with the rest but that.

mod barrier;
pub mod bytes;
pub mod code;
pub mod copy;
pub mod cursor;
pub mod ddl;
pub mod definition;
pub mod engine;
pub mod layout;
pub mod map;
pub mod name;
pub mod row;
pub mod session;
mod session_client;
pub mod status;
pub mod table;
pub mod xa;
