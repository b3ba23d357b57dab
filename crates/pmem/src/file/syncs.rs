//! The syncs of a page medium, which are counted, and of which one that fails ends the medium.

use super::bus::freeze;
use crate::error::{Error, Result};
use crate::health::{Failure, Health};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The syncs of a medium: of its files and of its directory.
pub(super) struct Syncs {
    failure: Arc<Failure>,
    count: AtomicU64,
    /// Number of the sync that fails, for tests.
    fails_at: AtomicU64,
    /// Files that were unmapped since they were last synced, of a medium with a journal.
    closed: Mutex<FxHashSet<PathBuf>>,
}

impl Syncs {
    /// None yet, of the medium that `medium` names.
    pub(super) fn new(medium: String) -> Syncs {
        let failure = Arc::new(Failure::none(medium));
        let (count, fails_at) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        Syncs { failure, count, fails_at, closed: Mutex::default() }
    }

    pub(super) fn failure(&self) -> &Arc<Failure> {
        &self.failure
    }

    /// Notes that a file was unmapped, which the next checkpoint has to sync all the same.
    pub(super) fn note_closed(&self, path: PathBuf) {
        self.closed.lock().insert(path);
    }

    /// Syncs the files that were noted.
    pub(super) fn sync_closed(&self) -> Result<()> {
        let closed = std::mem::take(&mut *self.closed.lock());
        closed.iter().try_for_each(|path| self.sync_file(path))
    }

    pub(super) fn health(&self) -> Health {
        Health::of(self.failure.clone())
    }

    /// Syncs made.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Lets a sync fail, after `count` more that do what they are to.
    pub(super) fn fail_after(&self, count: u64) {
        self.fails_at.store(self.count() + count + 1, Ordering::SeqCst);
    }

    /// Makes one sync by `call`. If it fails the medium has failed for good, and when this returns
    /// nothing that is stored later reaches a file.
    pub(super) fn sync(&self, what: &str, action: &str, call: impl FnOnce() -> rustix::io::Result<()>) -> Result<()> {
        if self.failure.is_noted() {
            return Err(self.failure.error());
        }
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        let synced = if number == self.fails_at.load(Ordering::SeqCst) { Err(Errno::IO) } else { call() };
        synced.map_err(|errno| {
            let first = self.failure.note(what, action, errno.into());
            freeze(&self.failure);
            first
        })
    }

    /// Syncs the file at `path`, if there is one, by a descriptor of its own.
    pub(super) fn sync_file(&self, path: &Path) -> Result<()> {
        let what = path.display().to_string();
        match File::open(path) {
            Ok(file) => self.sync(&what, "sync", || rustix::fs::fdatasync(&file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::from_io(&what, "opening", 0, error)),
        }
    }
}
