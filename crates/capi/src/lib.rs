//! The C interface of Perdura, for the MariaDB plugin and for programs that embed the engine.
//!
//! `include/perdura.h` is made from this crate and checked against it by a test. A pool ([`engine`]) has sessions ([`session`])
//! and open tables ([`table`], [`cursor`]); rows go between a server's record buffers ([`layout`]) and the packed form the engine
//! keeps ([`row`]). Calls return a code; a failed one leaves its message with the calling thread ([`code`]). No panic crosses
//! the interface. Nothing here allocates per row once buffers have grown.

mod barrier;
pub mod bytes;
pub mod code;
pub mod copy;
pub mod cursor;
pub mod ddl;
pub mod definition;
pub mod engine;
pub mod layout;
pub mod name;
pub mod row;
pub mod session;
pub mod status;
pub mod table;
pub mod xa;
