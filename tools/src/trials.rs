//! Tests that run whole products: the server's own suites, crashes, replication, backup, the crash
//! explorer and the simulator.

pub mod crash_server;
pub mod dax;
pub mod django;
pub mod explore;
pub mod key_damage;
pub mod mtr;
pub mod operations;
pub mod replication;
pub mod schemas;
pub mod sim;
