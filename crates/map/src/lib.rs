#![doc = include_str!("../README.md")]
//!
//! # Inside
//!
//! [`List`] and [`BTree`] implement [`OrderedMap`]; each map is one file of a
//! [`perdura_pmem::Medium`]. Both structures are those of chapter 3 of M. Surin, "Consensus
//! algorithms on non-volatile random access memory" (MIPT 2020). `docs/maps.md` has the design,
//! `docs/format.md` the bytes, `docs/invariants.md` the rules (I1) to (I11).
//!
//! Top down, each room with its own inventory:
//!
//! - interface: `ordered_map`, `map`, `changes`, `config`, `timestamps`, `space`, `error`
//! - `write`: changes by callers; `upkeep`: collector, traversal, audit, background thread
//! - `scan`: reads, views and scans; `transfer`: snapshots and loads
//! - `state`: the parts that these work on
//! - `index`: the ordered index, in DRAM for the list, in pages for the B+-tree
//! - `memory`: format, records, pages, readers' epochs

#![warn(unreachable_pub)]

mod changes;
mod config;
mod error;
mod index;
mod map;
mod memory;
mod ordered_map;
mod scan;
mod space;
mod state;
mod timestamps;
mod transfer;
mod upkeep;
mod write;

pub use changes::{Compared, KeyChange, Mutation};
pub use config::{
    BRANCHING_MAX, BRANCHING_MIN, Config, KEY_BYTES_MAX, Kind, Layout, META_BYTES_MAX, PAGE_BYTES_MAX, PAGE_BYTES_MIN,
    TAG_BYTES_MAX, VALUE_BYTES_MAX,
};
pub use error::{Error, ErrorKind, Result};
pub use index::list::ListIndex;
pub use index::tree::TreeIndex;
pub use map::{BTree, List, Map, create, open, open_as};
pub use ordered_map::OrderedMap;
pub use scan::{Entry, Scan, Value, View};
pub use space::{Demand, Space};
pub use timestamps::{Timestamps, Ts};
pub use transfer::load::Loader;
pub use transfer::snapshot::{Chunks, Position, Snapshot};
pub use upkeep::structure::Structure;
