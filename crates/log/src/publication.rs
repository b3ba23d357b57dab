//! Commits whose records one write makes durable, and that its thread announces for all.

use crate::Csn;
use smallvec::SmallVec;
use std::sync::Arc;

/// The store that makes a commit visible. Whoever makes a commit durable for other threads does it
/// for them, so that each is woken once.
pub trait Publication: Send + Sync {
    /// Makes the commit visible at `csn`, which durable_csn covers. Returns whether the caller is
    /// to report that, as by [`crate::Log::publish`]: of several one is.
    fn publish(&self, csn: Csn) -> bool;
}

/// A commit whose record is stored.
pub(crate) struct Commit {
    pub(crate) csn: Csn,
    pub(crate) publication: Option<Arc<dyn Publication>>,
}

/// Commits that are announced together.
pub(crate) type Commits = SmallVec<[Commit; 8]>;
