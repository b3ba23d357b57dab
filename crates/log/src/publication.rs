//! Commits that one write has made durable, and that its thread announces for all.

use crate::Csn;
use crate::shared::Shared;
use smallvec::SmallVec;
use std::sync::Arc;

/// What makes a commit visible: one store. Whoever makes a commit durable for other threads does it
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

impl Shared {
    /// Reports the commits of a write, which this thread has made, as durable, publishes those that
    /// durable_csn covers, and only then wakes those who wait.
    pub(crate) fn announce(&self, mut commits: impl AsMut<[Commit]>) {
        let commits = commits.as_mut();
        // The lowest first: each then moves the marks by one.
        commits.sort_unstable_by_key(|commit| commit.csn);
        let mut moved: SmallVec<[Csn; 16]> = SmallVec::new();
        commits.iter().for_each(|commit| self.mark_durable_by(commit.csn, |csn| moved.push(csn)));
        for commit in commits.iter().filter(|commit| commit.csn <= self.durable.load()) {
            if commit.publication.as_ref().is_some_and(|publication| publication.publish(commit.csn)) {
                self.visible.mark(commit.csn);
            }
        }
        moved.into_iter().for_each(|csn| self.durable.wake(csn));
    }
}
