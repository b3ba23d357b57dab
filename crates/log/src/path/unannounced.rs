//! Commits whose records are in the stream, until somebody announces them.

use super::Lsn;
use crate::publication::{Commit, Commits};
use perdura_pmem::sync::Mutex;
use perdura_pmem::{Mutant, planted};
use std::sync::OnceLock;

/// Announces commits whose records are durable, or will never be: it asks.
pub(crate) type Announce = Box<dyn Fn(Commits) + Send + Sync>;

/// The commits, each with the end of its record.
///
/// Whoever has moved on what is durable, or its notifier, takes those that it has passed and
/// announces them. So a session sleeps once, until durable_csn is at its own CSN. A commit comes in
/// before its record counts as filled, so it is here when that becomes durable. Their bound is the
/// number of sessions, since each waits for its commit.
#[derive(Default)]
pub(super) struct Unannounced {
    commits: Mutex<Vec<(Lsn, Commit)>>,
    announce: OnceLock<Announce>,
}

impl Unannounced {
    /// From now on commits are announced by `announce`.
    pub(super) fn set(&self, announce: Announce) {
        let _ = self.announce.set(announce);
    }

    pub(super) fn add(&self, end: Lsn, commit: Commit) {
        self.commits.lock().push((end, commit));
    }

    /// Announces those whose records end at `upto` or before.
    pub(super) fn announce(&self, mut upto: Lsn) {
        // Planted: what is in the log buffer counts as durable.
        if planted(Mutant::CommitsAnnouncedUnwritten) {
            upto = Lsn::MAX;
        }
        let mut commits = self.commits.lock();
        let passed: Commits = commits.extract_if(.., |(end, _)| *end <= upto).map(|(_, commit)| commit).collect();
        drop(commits);
        if let Some(announce) = self.announce.get().filter(|_| !passed.is_empty()) {
            announce(passed);
        }
    }
}
