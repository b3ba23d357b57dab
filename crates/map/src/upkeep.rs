//! Upkeep of a map beside its writers: collection rounds, the traversal after a start, the audit,
//! and the thread that runs them.
//!
//! - [`round`] and [`collection`]: a collection round; [`list_round`] and [`tree_round`] are the
//!   parts that differ between the structures ([`structure`])
//! - [`compaction`]: room in one piece, where a round does not make it
//! - [`traversal`]: content of the pages that were in use at the start
//! - [`audit`]: the check of everything reachable
//! - [`background`]: the map's thread

pub(crate) mod audit;
pub(crate) mod background;
pub(crate) mod collection;
mod compaction;
mod list_round;
pub(crate) mod round;
pub(crate) mod structure;
mod traversal;
mod tree_round;
