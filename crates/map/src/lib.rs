#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! [`List`] and [`BTree`] implement [`OrderedMap`]; each map is one file of a [`perdura_pmem::Medium`]. Both structures
//! are those of chapter 3 of M. Surin, "Consensus algorithms on non-volatile random access memory" (MIPT 2020).
//! `docs/maps.md` has the design, `docs/format.md` the bytes, `docs/invariants.md` the rules (I1) to (I11).
//!
//! Top down:
//!
//! - interface: `ordered_map`, `map`, `config`, `timestamps`, `error`
//! - operations: `change`, `retention`, `scan`, `snapshot`, `load`, `stream`
//! - upkeep: `confirm`, `collector`, `list_collect`, `traversal`, `rebuild`, `audit`, `background`, `wake`
//! - shared state: `state`, `pending`, `entries`, `space`
//! - the tree and its nodes: `tree`, `node`, `index`, `dram_nodes`, `page_nodes`
//! - memory: `record`, `pages`, `free_map`, `live_bits`, `batch`, `pin`, `atomic`, `format`

mod atomic;
mod audit;
mod background;
mod batch;
mod change;
mod collector;
mod config;
mod confirm;
mod dram_nodes;
mod entries;
mod error;
mod format;
mod free_map;
mod index;
mod list_collect;
mod live_bits;
mod load;
mod map;
mod node;
mod ordered_map;
mod page_nodes;
mod pages;
mod pending;
mod pin;
mod rebuild;
mod record;
mod retention;
mod scan;
mod snapshot;
mod space;
mod state;
mod stream;
mod timestamps;
mod traversal;
mod tree;
mod wake;

pub use config::{
    BRANCHING_MAX, BRANCHING_MIN, Config, KEY_BYTES_MAX, Kind, Layout, PAGE_BYTES_MAX, PAGE_BYTES_MIN, VALUE_BYTES_MAX,
};
pub use dram_nodes::ListIndex;
pub use error::{Error, ErrorKind, Result};
pub use index::Index;
pub use load::Loader;
pub use map::{BTree, List, Map, open};
pub use ordered_map::{Mutation, OrderedMap};
pub use page_nodes::TreeIndex;
pub use scan::{Entry, Scan, Value};
pub use snapshot::{Chunks, Snapshot};
pub use space::Space;
pub use timestamps::{Timestamps, Ts};
