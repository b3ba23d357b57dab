//! Parts that every room uses: arguments, paths, processes and their memory, devices, ports, a
//! client of the server, CSV files.

pub mod args;
pub mod client;
pub mod csv;
pub mod device;
pub mod indexes;
pub mod memory_limit;
pub mod paths;
pub mod ports;
pub mod process;
pub mod progress;
pub mod steps;
pub mod trouble;
