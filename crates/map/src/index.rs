//! The ordered index of a map's keys, one entry for each: [`list`] in DRAM, [`tree`] in pages.
//!
//! An entry is a reference to the key's newest record, from which older versions are reached. An
//! entry whose record is a deletion stays until the deletion is forgotten, and then until the index
//! sweeps the leaf it lies in.
//!
//! - [`list`] over [`dram_tree`] and [`dram_node`], rebuilt at each start by [`rebuild`]
//! - [`tree`] over [`page_tree`], [`page_nodes`] and [`page_node`]
//! - [`versions`]: entries made of records in any order

pub(crate) mod dram_node;
pub(crate) mod dram_tree;
pub(crate) mod list;
pub(crate) mod page_node;
pub(crate) mod page_nodes;
pub(crate) mod page_tree;
pub(crate) mod rebuild;
pub(crate) mod tree;
pub(crate) mod versions;

use crate::config::{Kind, Layout};
use crate::error::Result;
use crate::memory::bitmap::Bitmap;
use crate::memory::format::Ref;
use crate::memory::pages::{Pages, Urgency};
use crate::memory::pin::Pins;
use crate::memory::record::{Newest, Records};
use crate::memory::root::RootRecord;
use crate::timestamps::Ts;

/// A map's index: [`crate::ListIndex`] (DRAM) or [`crate::TreeIndex`] (pages).
#[allow(private_interfaces, reason = "only this crate's two structures are meant")]
pub trait Index: Sized + Send + Sync + 'static {
    const KIND: Kind;
    /// Whether the chain links all records, dead ones until the collector unlinks them, and not
    /// only those that may be rolled back.
    const LINKS_ALL: bool;
    /// State under the writer's lock.
    type Writer: Send;
    /// Place of a key's entry, whether there is one or not.
    type Place;
    /// A whole index that is not installed yet.
    type Built: Send;

    /// The index of a root record. What a list's chain holds is counted in `pages`. Error:
    /// `Damaged`.
    fn open(layout: &Layout, pages: &mut Pages, records: &Records, root: &RootRecord) -> Result<Opened<Self>>;

    /// Bytes of the longest node in pages.
    fn node_bytes(_: &Layout) -> u64 {
        0
    }

    /// The newest record of a key. The caller is the writer, or has pinned. Error: `Damaged`.
    fn newest(&self, key: &[u8]) -> Result<Newest<'_>>;

    /// Walks the entries from the first not below `from` on, those of the root that [`Index::root`]
    /// returned, or with none the present ones. The caller has pinned.
    fn walk(&self, root: Option<u64>, from: &[u8]) -> Result<Box<dyn Walk + '_>>;

    /// The place of a key, and its newest record. For the writer.
    fn locate<'r>(&'r self, writer: &Self::Writer, key: &[u8]) -> Result<(Self::Place, Newest<'r>)>;

    /// Makes the entry at a key's place name `record`, or removes it. Nothing has changed since the
    /// place was found. Readers see it at the latest when it is published. Error: `Full`, after
    /// which the caller aborts.
    fn put(&self, edit: &mut Editing<'_, Self>, place: &Self::Place, key: &[u8], record: Option<Ref>) -> Result<()>;

    /// Removes the entries of forgotten deletions from the leaf that holds a key's. Error: `Full`,
    /// after which the caller aborts.
    fn sweep(&self, edit: &mut Editing<'_, Self>, key: &[u8]) -> Result<()>;

    /// Builds an index of entries in ascending order, in as many steps as it needs. It is not
    /// installed. Error: `Full`.
    fn build(&self, steps: &mut Steps<'_, Self>, entries: &[Entry]) -> Result<Self::Built>;

    /// The nodes in pages of an index that is not installed.
    fn made(_: &Self::Built) -> &[u64] {
        &[]
    }

    /// Gives up an index that was built and is not installed, in as many steps as it needs.
    fn give_up(&self, _: &mut Steps<'_, Self>, _: &Self::Built) {}

    /// Makes all ready for the index to be installed. The pages' counts are those of its content.
    fn prepare(&self, _: &mut Editing<'_, Self>, _: &Self::Built) {}

    /// Replaces all entries, by few stores.
    fn install(&self, edit: &mut Editing<'_, Self>, built: Self::Built, pins: &Pins);

    /// Shows readers what was changed and is not seen already.
    fn publish(&self, _: &mut Self::Writer) {}

    /// Takes back what is not published. Returns whether that is all since the last publication.
    fn abort(&self, _: &mut Self::Writer, _: &mut Pages) -> bool {
        false
    }

    /// The root as a root record names it. 0 for an index that is rebuilt at start.
    fn root(&self) -> u64 {
        0
    }

    /// Number of the nodes in pages that the newest root reaches.
    fn node_count(_: &Self::Writer) -> u64 {
        0
    }

    /// Keeps room for rolling back what is not applied. `changes` counts it, and `more` changes are
    /// about to be made.
    fn keep_for_rollback(&self, _: &Self::Writer, _: &mut Pages, _more: u64, _changes: impl FnOnce() -> u64) {}

    /// Before each persist: adds to its batch what it will cover.
    fn seal(_: &mut Self::Writer, _: &mut Pages) {}

    /// After each persist.
    fn persisted(_: &mut Self::Writer, _: &Pins) {}

    /// Keeps nothing for reuse in pages that take no more nodes.
    fn leave_retired(_: &mut Self::Writer, _: &Pages, _: &Pins) {}

    /// Bytes of replaced nodes that still count as live.
    fn waiting_bytes(_: &Self::Writer, _live: &Bitmap) -> u64 {
        0
    }

    /// Reuses places that no reader can see any more, or with `held` no snapshot, some in each
    /// step. Returns whether there is more.
    fn recycle(writer: &mut Self::Writer, pages: &mut Pages, pins: &Pins, held: bool) -> bool;
}

/// An index, and what opening it has found.
pub(crate) struct Opened<I: Index> {
    pub(crate) index: I,
    pub(crate) writer: I::Writer,
    /// Count of the versions.
    pub(crate) versions: u64,
    /// List: dead deletions that are still linked, by offset.
    pub(crate) dead_deletions: Vec<u64>,
    /// Whether everything reachable was read, and counted in the pages.
    pub(crate) is_counted: bool,
}

/// Context of a change of the index.
pub(crate) struct Editing<'e, I: Index> {
    pub(crate) writer: &'e mut I::Writer,
    pub(crate) pages: &'e mut Pages,
    pub(crate) urgency: Urgency,
    /// Deletions up to here may be swept.
    pub(crate) forgotten: Ts,
    /// Receives the records that were swept.
    pub(crate) dead: &'e mut Vec<Ref>,
}

/// Runs a closure in one step under the writer's lock.
pub(crate) type Steps<'t, I> = dyn FnMut(&mut dyn FnMut(&mut Editing<'_, I>) -> Result<()>) -> Result<()> + 't;

/// An entry for [`Index::build`]: the first sixteen bytes of the key as a number, and the record.
pub(crate) type Entry = (u128, Ref);

/// A walk over entries, in ascending order.
pub(crate) trait Walk: Send {
    /// The next entry's record, or none at the end. Error: `Damaged`.
    fn next(&mut self) -> Result<Option<Ref>>;
}

/// Groups of nearly equal size, of at most seven eighths of `most` if there are several.
pub(crate) fn evenly<T>(row: &[T], most: usize) -> impl Iterator<Item = &[T]> {
    let groups = if row.len() <= most { 1 } else { row.len().div_ceil(most - most / 8) };
    (0..groups).map(move |group| &row[group * row.len() / groups..(group + 1) * row.len() / groups])
}
