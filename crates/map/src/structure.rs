//! Difference between the two structures besides the index: their upkeep.

use crate::error::Result;
use crate::format::Ref;
use crate::index::Index;
use crate::state::{Collector, Core};
use rustc_hash::FxHashSet;

/// A structure of a map: [`crate::ListIndex`] or [`crate::TreeIndex`].
#[allow(private_interfaces, private_bounds, reason = "only this crate's two structures are meant")]
pub trait Structure: Index {
    /// Moves live objects out of the chosen pages, and unlinks dead records. A snapshot ends it
    /// early.
    #[doc(hidden)]
    fn empty_pages(core: &Core<Self>, collector: &mut Collector, victims: &FxHashSet<usize>) -> Result<()>;

    /// Finds out what the pages in use at start hold, unless opening has. The caller holds the
    /// collector's lock.
    #[doc(hidden)]
    fn count_reachable(_: &Core<Self>, _root: u64, _head: u64, _pending: u64) -> Result<()> {
        Ok(())
    }

    /// Checks the nodes of the index below a root, and calls `each` with the entries. Returns the
    /// nodes' bytes.
    #[doc(hidden)]
    fn check_index(core: &Core<Self>, root: u64, each: &mut dyn FnMut(Ref) -> Result<()>) -> Result<u64>;
}
