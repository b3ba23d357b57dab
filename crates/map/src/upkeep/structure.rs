//! Difference between the two structures besides the index: their upkeep.

use crate::error::Result;
use crate::index::Index;
use crate::memory::format::Ref;
use crate::state::persist::Persisted;
use crate::state::shared::Shared;
use crate::upkeep::round::Round;
use rustc_hash::FxHashSet;

/// A structure of a map: [`crate::ListIndex`] or [`crate::TreeIndex`].
#[allow(private_interfaces, private_bounds, reason = "only this crate's two structures are meant")]
pub trait Structure: Index {
    /// Moves live objects out of the chosen pages, and unlinks dead records. A snapshot ends it
    /// early.
    #[doc(hidden)]
    fn empty_pages(round: &mut Round<'_, Self>, victims: &FxHashSet<usize>) -> Result<()>;

    /// Finds out what the pages in use at start hold, unless opening has.
    #[doc(hidden)]
    fn count_reachable(_: &Round<'_, Self>, _: &Persisted) -> Result<()> {
        Ok(())
    }

    /// Checks the nodes of the index below a root, and calls `each` with the entries. Returns the
    /// nodes' bytes.
    #[doc(hidden)]
    fn check_index(shared: &Shared<Self>, root: u64, each: &mut dyn FnMut(Ref) -> Result<()>) -> Result<u64>;
}
