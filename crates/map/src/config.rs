//! The settings of a map: its layout, fixed at creation, and how an opened map is run.

use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::time::Duration;

/// The two structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The persistent append-only list, with its ordered index in DRAM.
    List,
    /// The persistent copy-on-write B+-tree.
    BTree,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::List => "list",
            Kind::BTree => "btree",
        })
    }
}

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 20;
/// Longest tag of a timestamp, in bytes.
pub const TAG_BYTES_MAX: usize = 1024;
/// Longest meta blob, in bytes.
pub const META_BYTES_MAX: usize = 1024;
/// Smallest page, in bytes.
pub const PAGE_BYTES_MIN: u32 = 256;
/// Largest page, in bytes.
pub const PAGE_BYTES_MAX: u32 = 64 << 10;
/// Least value of [`Layout::branching`].
pub const BRANCHING_MIN: u32 = 4;
/// Greatest value of [`Layout::branching`].
pub const BRANCHING_MAX: u32 = 64;

/// The layout of a map's file, fixed at creation and stored in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Length of the file in bytes. A map does not grow.
    pub bytes: u64,
    /// Bytes of a page: a power of two from [`PAGE_BYTES_MIN`] to [`PAGE_BYTES_MAX`].
    pub page_bytes: u32,
    /// Most entries of an index node, from [`BRANCHING_MIN`] to [`BRANCHING_MAX`]. A node that
    /// removals leave with less than a quarter of that is joined with a sibling. A list, whose
    /// nodes lie in DRAM, does not use it.
    pub branching: u32,
}

impl Layout {
    /// The default layout of a kind.
    pub fn of(kind: Kind, bytes: u64) -> Layout {
        match kind {
            Kind::List => Layout::list(bytes),
            Kind::BTree => Layout::btree(bytes),
        }
    }

    /// The default layout of a list. docs/benchmarks.md has the sweep of page size and branching.
    pub fn list(bytes: u64) -> Layout {
        Layout { bytes, page_bytes: 1024, branching: 48 }
    }

    /// The default layout of a B+-tree, with leaves of 256 bytes. docs/benchmarks.md has the sweep
    /// of page size and branching; the thesis found 4 to 7 children best.
    pub fn btree(bytes: u64) -> Layout {
        Layout { bytes, page_bytes: 1024, branching: 15 }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Configuration, what));
        if !self.page_bytes.is_power_of_two() || !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&self.page_bytes) {
            return wrong(format!(
                "a page of {} bytes: use a power of two from {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}",
                self.page_bytes
            ));
        }
        if !(BRANCHING_MIN..=BRANCHING_MAX).contains(&self.branching) {
            return wrong(format!("branching {}: use {BRANCHING_MIN} to {BRANCHING_MAX}", self.branching));
        }
        Ok(())
    }
}

/// Settings of an opened map. None of it is stored in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Changes after which a batch is persisted (k of the thesis). 1 persists every change.
    pub changes_max: u32,
    /// Age, roughly, at which the background thread persists a batch. At least 50 microseconds.
    pub interval: Duration,
    /// Whether a background thread persists idle batches and collects garbage. Without it the
    /// caller does both, by [`crate::OrderedMap::persist`] and [`crate::OrderedMap::collect`].
    pub background: bool,
    /// Whether a change that finds no room runs a collection round and is tried again before it is
    /// refused, if there is a background thread. Without it the caller asks for a round
    /// ([`crate::OrderedMap::ask_collection`]), and waits for nothing.
    pub collects_in_changes: bool,
    /// Seed of a new map's salt. The same seed and name give the same salt, so that a run can be
    /// replayed. Without a seed the operating system supplies the randomness.
    pub seed: Option<u64>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            changes_max: 10,
            interval: Duration::from_millis(1),
            background: true,
            collects_in_changes: true,
            seed: None,
        }
    }
}

impl Config {
    pub(crate) fn check(&self) -> Result<()> {
        if self.changes_max == 0 {
            return Err(Error::new(ErrorKind::Configuration, "changes_max 0: use 1 to persist every change"));
        }
        Ok(())
    }
}
