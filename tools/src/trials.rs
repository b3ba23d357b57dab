//! Tests that run whole products: suites of the server's and of others, crashes, replication,
//! backup, the crash explorer and the simulator.

pub mod applications;
pub mod crash_server;
pub mod dax;
pub mod explore;
pub mod key_damage;
pub mod mtr;
pub mod operations;
pub mod replication;
pub mod schemas;
pub mod sim;
