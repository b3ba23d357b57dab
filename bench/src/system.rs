//! The systems under test: the project's own maps and the peers.

use crate::own::{Own, Settings};
use crate::peers::{dram::Dram, fjall::Fjall, lmdb::Lmdb, redb::Redb};
use crate::store::Store;
use perdura_map::Kind;
use std::path::Path;

/// A system under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// perdura-map, the list.
    List,
    /// perdura-map, the B+-tree.
    BTree,
    /// LMDB; every commit written and synced.
    Lmdb,
    /// LMDB in a writable map that is never synced.
    LmdbNosync,
    /// redb, every commit durable.
    Redb,
    /// redb, no single commit durable.
    RedbNone,
    /// fjall, every batch synced.
    Fjall,
    /// The standard library's B-tree in DRAM, which keeps nothing.
    Dram,
}

impl System {
    /// All systems.
    pub const ALL: [System; 8] = [
        System::List,
        System::BTree,
        System::Lmdb,
        System::LmdbNosync,
        System::Redb,
        System::RedbNone,
        System::Fjall,
        System::Dram,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            System::List => "list",
            System::BTree => "btree",
            System::Lmdb => "lmdb",
            System::LmdbNosync => "lmdb_nosync",
            System::Redb => "redb",
            System::RedbNone => "redb_none",
            System::Fjall => "fjall",
            System::Dram => "dram",
        }
    }

    /// The structure, if it is one of the project's own maps.
    pub fn kind(self) -> Option<Kind> {
        match self {
            System::List => Some(Kind::List),
            System::BTree => Some(Kind::BTree),
            _ => None,
        }
    }

    /// Creates an empty store in `directory`, with room for `keys` values of `value_bytes`. Own
    /// maps persist every `batch` changes by themselves.
    pub fn create(self, directory: &Path, keys: usize, value_bytes: usize, batch: usize) -> Box<dyn Store> {
        match self {
            System::List => Box::new(Own::create(directory, &Settings::new(Kind::List, keys, value_bytes, batch))),
            System::BTree => Box::new(Own::create(directory, &Settings::new(Kind::BTree, keys, value_bytes, batch))),
            System::Lmdb => Box::new(Lmdb::open(directory, true)),
            System::LmdbNosync => Box::new(Lmdb::open(directory, false)),
            System::Redb => Box::new(Redb::open(directory, true)),
            System::RedbNone => Box::new(Redb::open(directory, false)),
            System::Fjall => Box::new(Fjall::open(directory)),
            System::Dram => Box::new(Dram::default()),
        }
    }
}
