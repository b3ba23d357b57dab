#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod acl;
pub mod client;
pub mod codec;
pub mod command;
pub mod config;
pub mod entry;
pub(crate) mod machine;
pub mod node;
pub mod resp;
pub mod server;
pub mod sim;
pub mod store;
pub mod wire;
