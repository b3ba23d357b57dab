//! Benchmark programs that run the project's own crates beside their peers. No product crate
//! depends on this one, so no peer becomes a dependency of a product.
//!
//! A program (in `src/bin`) prints one JSON object a line ([`output`]). `cargo xtask bench` runs
//! it, judges the figures and reports them. All systems implement one trait, [`store::Store`], and
//! get the same keys in the same order.

pub mod dram;
pub mod keys;
pub mod measure;
pub mod output;
pub mod own;
pub mod peers;
pub mod plan;
pub mod sampler;
pub mod scratch;
pub mod store;
pub mod system;
