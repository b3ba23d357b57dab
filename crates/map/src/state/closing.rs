//! The end of a map, which its loaders may outlive.

use crate::error::{ErrorKind, Result};
use crate::memory::record::Records;
use perdura_pmem::sync::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the handle of a map is gone.
#[derive(Default)]
pub(crate) struct Closing {
    has_begun: AtomicBool,
    /// Held while a load installs its content, for which closing waits. Taken before the writer's
    /// lock.
    finishing: Mutex<()>,
}

impl Closing {
    /// Closes the map, after a load that is being installed.
    pub(crate) fn begin(&self) {
        let _finishing = self.finishing();
        self.has_begun.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Holds off closing.
    pub(crate) fn finishing(&self) -> MutexGuard<'_, ()> {
        self.finishing.lock()
    }

    /// Error: `ReadOnly` once the handle of the map is gone, which another may have opened since.
    pub(crate) fn check_open(&self, records: &Records) -> Result<()> {
        if self.has_begun() {
            let what = "the map was closed while a snapshot was loaded; open it and load again";
            return Err(records.error(ErrorKind::ReadOnly, what.into()));
        }
        Ok(())
    }
}
