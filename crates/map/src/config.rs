//! What a map is made with, and how it is run.

use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::time::Duration;

/// Which structure a map is.
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

/// Most bytes of a key.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a value.
pub const VALUE_BYTES_MAX: usize = 64 << 20;
/// Least bytes of a page.
pub const PAGE_BYTES_MIN: u32 = 256;
/// Most bytes of a page.
pub const PAGE_BYTES_MAX: u32 = 64 << 10;
/// Least of the most children a node may have.
pub const BRANCHING_MIN: u32 = 4;
/// Most of the most children a node may have.
pub const BRANCHING_MAX: u32 = 64;

/// What a map is made with; stored in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of a page, a power of two from 256 to 65,536.
    pub page_bytes: u32,
    /// Most children of a node, from 4 to 64; siblings are joined below a quarter of it. Of the list, in its DRAM index.
    pub branching: u32,
}

impl Layout {
    /// The best layout found for a list (docs/benchmarks.md).
    pub fn list(bytes: u64) -> Layout {
        Layout { bytes, page_bytes: 1024, branching: 48 }
    }

    /// The best layout found for a B+-tree (docs/benchmarks.md); leaves of 256 bytes. The thesis found 4 to 7 children best.
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

/// How a map is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Changes after which a batch is confirmed (k of the thesis); 1 confirms each.
    pub changes_max: u32,
    /// A batch is confirmed when it is older than about this.
    pub interval: Duration,
    /// Whether a thread confirms idle batches and collects garbage. Without it the caller does, by
    /// [`crate::OrderedMap::confirm`] and [`crate::OrderedMap::collect`].
    pub background: bool,
    /// Where the salt of a new map comes from: a seed gives a map of one name the same salt each time, so that a run can be
    /// replayed. Without it the operating system gives it.
    pub seed: Option<u64>,
}

impl Default for Config {
    fn default() -> Config {
        Config { changes_max: 10, interval: Duration::from_millis(1), background: true, seed: None }
    }
}

impl Config {
    pub(crate) fn check(&self) -> Result<()> {
        if self.changes_max == 0 {
            return Err(Error::new(ErrorKind::Configuration, "changes_max 0: use 1 to confirm every change"));
        }
        Ok(())
    }
}
