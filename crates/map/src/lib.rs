#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! [`List`] and [`BTree`] implement [`OrderedMap`]; each map is one file of a
//! [`perdura_pmem::Medium`]. Both structures are those of chapter 3 of M. Surin, "Consensus
//! algorithms on non-volatile random access memory" (MIPT 2020). `docs/maps.md` has the design,
//! `docs/format.md` the bytes, `docs/invariants.md` the rules (I1) to (I11).
//!
//! Top down:
//!
//! - interface: `ordered_map`, `map`, `config`, `timestamps`, `error`
//! - operations: `change`, `append`, `retention`, `scan`, `snapshot`, `load`, `stream`
//! - upkeep: `persist`, `collector`, `list_collect`, `milestones`, `tree_upkeep`, `traversal`,
//!   `rebuild`, `audit`, `background`, `wake`
//! - shared state: `structure`, `state`, `views`, `holds`, `pending`, `versions`, `space`
//! - the list's index: `list_index`, `dram_tree`, `dram_node`
//! - the B+-tree's index: `tree_index`, `tree`, `page_nodes`, `node`
//! - memory: `index`, `record`, `pages`, `page_use`, `page_table`, `free_map`, `bitmap`, `batch`,
//!   `retired`, `pin`, `atomic`, `format`

mod append;
mod atomic;
mod audit;
mod background;
mod batch;
mod bitmap;
mod change;
mod collector;
mod config;
mod persist;
mod dram_node;
mod dram_tree;
mod error;
mod format;
mod free_map;
mod holds;
mod index;
mod retired;
mod list_collect;
mod list_index;
mod load;
mod map;
mod milestones;
mod node;
mod ordered_map;
mod page_counts;
mod page_nodes;
mod page_table;
mod page_use;
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
mod structure;
mod timestamps;
mod traversal;
mod tree;
mod tree_index;
mod tree_upkeep;
mod versions;
mod views;
mod wake;

pub use config::{
    BRANCHING_MAX, BRANCHING_MIN, Config, KEY_BYTES_MAX, Kind, Layout, META_BYTES_MAX, PAGE_BYTES_MAX, PAGE_BYTES_MIN,
    TAG_BYTES_MAX, VALUE_BYTES_MAX,
};
pub use error::{Error, ErrorKind, Result};
pub use list_index::ListIndex;
pub use load::Loader;
pub use map::{BTree, List, Map, create, open, open_as};
pub use ordered_map::{Compared, KeyChange, Mutation, OrderedMap};
pub use scan::{Entry, Scan, Value, View};
pub use snapshot::{Chunks, Position, Snapshot};
pub use space::Space;
pub use structure::Structure;
pub use timestamps::{Timestamps, Ts};
pub use tree_index::TreeIndex;
