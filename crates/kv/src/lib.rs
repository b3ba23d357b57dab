#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

// For the program.
pub mod config;
pub mod server;

// For the simulator of clusters (tests/sim), the fuzz targets and this crate's own tests too: what
// they call, and no more, is public.
pub mod acl;
pub mod client;
pub mod codec;
pub mod command;
pub mod entry;
pub mod node;
pub mod resp;
pub mod sim;
pub mod store;
pub mod wire;

mod machine;
