//! Building the plugin, and running servers with it: for users, for tests, as a package; and
//! clusters of perdura-kv; the demo.

pub mod demo;
pub mod kv;
pub mod mariadbd;
pub mod package;
pub mod plugin;
pub mod serve;
pub mod server;
pub mod sysbench;
