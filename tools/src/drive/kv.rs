//! perdura-kv as its users run it: clusters of processes on this machine.

pub mod chaos;
pub mod clients;
pub mod cluster;
pub mod demo;
mod load;
pub mod net;
pub mod page;
mod python;
pub mod resp;
