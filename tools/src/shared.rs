//! Parts that every room uses: arguments, paths, processes, a client of the server, CSV files.

pub mod args;
pub mod client;
pub mod csv;
pub mod indexes;
pub mod paths;
pub mod process;
pub mod progress;
pub mod steps;
pub mod trouble;
