//! perdura-kv as its users run it: clusters of processes on this machine.

pub mod chaos;
pub mod clients;
pub mod cluster;
pub mod demo;
mod net;
pub mod resp;
