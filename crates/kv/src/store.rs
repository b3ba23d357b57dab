//! Where a replica keeps its log and its state: one trait, three variants.
//!
//! In [`MapStore`], over a list or a B+-tree in persistent memory, log and state are one: an entry
//! is a batch of the map at the entry's index. [`WalStore`] is what is usual: a file of records,
//! and the state in DRAM.
//!
//! Promises of a variant, which `tests/store_conformance.rs` checks of each, with power failures
//! between any two calls:
//!
//! - what [`Store::persist`] has covered is there after a failure; what came after is there up to
//!   some call, or not at all;
//! - an entry is there wholly or not, and never without all before it, nor without the vote and
//!   members that were set before it;
//! - what is committed is not taken back, and what is applied is what the committed entries make,
//!   in their order.
//!
//! A store belongs to one thread at a time. Errors say what to do (error.rs); after one that is not
//! `Full` or about an argument, the store is to be closed.

mod entries;
mod error;
mod format;
mod interface;
mod log;
mod map;
mod persistent_state;
mod ring;
mod wal;

use std::ops::{Bound, Range};

use bytes::Bytes;

use crate::machine::draft::{Each, Part, Source, Unreadable};

pub use entries::{change_of_members, changes_of, members_entry_context};
pub(crate) use entries::{is_change_of_members, is_of_other_version, is_sound};
pub use error::{Error, ErrorKind, Result, Shortages};
pub use format::SnapshotFormat;
pub use interface::{Footprint, Outgoing, ReadLevel, Room, Share, Store};
pub(crate) use log::Log;
pub use map::{MapConfig, MapStore};
pub use persistent_state::{FOUNDING, PersistentState};
pub(crate) use wal::Files;
pub use wal::{Disk, DiskFile, SimDisk, WalConfig, WalStore};

/// A store at a read level, as drafts read it.
pub struct View<'a> {
    store: &'a dyn Store,
    level: ReadLevel,
}

impl<'a> View<'a> {
    /// The versions at a read level.
    pub fn new(store: &'a dyn Store, level: ReadLevel) -> Self {
        Self { store, level }
    }
}

impl Source for View<'_> {
    fn get(&self, place: &[u8]) -> std::result::Result<Option<Bytes>, Unreadable> {
        self.store.get(self.level, place).map_err(unreadable)
    }

    fn part(&self, place: &[u8], range: Range<usize>) -> std::result::Result<Option<Part>, Unreadable> {
        self.store.part(self.level, place, range).map_err(unreadable)
    }

    fn scan(&self, prefix: &[u8], from: Bound<&[u8]>, each: Each<'_>) -> std::result::Result<(), Unreadable> {
        self.store.scan(self.level, prefix, from, each).map_err(unreadable)
    }
}

fn unreadable(error: Error) -> Unreadable {
    Unreadable(error.to_string())
}
