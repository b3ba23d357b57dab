//! Benchmark programs and the peers they run beside the project's own crates. No product crate depends on this one, so
//! that no peer becomes a dependency of a product.
//!
//! A program (in `src/bin`) prints one JSON object a line, see [`output`]; `cargo xtask bench` runs it, judges what it
//! prints, and reports. All systems work through one trait, [`store::Store`], on the same keys in the same order.

pub mod dram;
pub mod keys;
pub mod measure;
pub mod output;
pub mod own;
pub mod peers;
pub mod scratch;
pub mod store;
pub mod system;
