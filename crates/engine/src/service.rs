//! The services of a pool that tables reach from below: pre-fault, the placement of threads,
//! requests to the background thread, notices, and the list of files still to be removed. All of it
//! is DRAM.

use crate::notices::Notices;
use perdura_pmem::numa::Locality;
use perdura_pmem::prefault::{Prefault, Priority};
use perdura_pmem::sync::{Condvar, Mutex};
use perdura_pmem::{Medium, Region};
use std::time::Duration;

#[derive(Default)]
struct Requests {
    tables: Vec<u32>,
    stop: bool,
}

/// The services that the tables of a pool share.
pub(crate) struct Services {
    prefault: Option<Prefault>,
    locality: Locality,
    requests: Mutex<Requests>,
    wake: Condvar,
    pub(crate) notices: Notices,
    leftovers: Mutex<Vec<Leftover>>,
}

/// A file still to be removed.
struct Leftover {
    name: String,
    /// A notice has said that it could not be removed.
    is_reported: bool,
}

impl Services {
    /// The services of a pool; without `prefault` nothing is faulted in ahead.
    pub(crate) fn new(prefault: Option<Prefault>, locality: Locality) -> Services {
        Services {
            prefault,
            locality,
            requests: Mutex::new(Requests::default()),
            wake: Condvar::new(),
            notices: Notices::default(),
            leftovers: Mutex::new(Vec::new()),
        }
    }

    /// Queues a new file for pre-fault, before those of [`Services::prefault_later`].
    pub(crate) fn prefault(&self, region: &Region) {
        self.submit(region, Priority::High);
    }

    /// Queues an existing file for pre-fault, behind new ones.
    pub(crate) fn prefault_later(&self, region: &Region) {
        self.submit(region, Priority::Low);
    }

    /// Queues a file. A queue that is not worked on would keep the files of closed and of dropped
    /// tables mapped, so nothing is queued while pre-fault is off.
    fn submit(&self, region: &Region, priority: Priority) {
        if let Some(prefault) = self.prefault.as_ref().filter(|prefault| prefault.is_enabled()) {
            prefault.submit(region.clone(), 0, region.len(), priority);
        }
    }

    /// The pre-fault threads, if the pool has any.
    pub(crate) fn prefault_service(&self) -> Option<&Prefault> {
        self.prefault.as_ref()
    }

    /// The placement of the pool's threads.
    pub(crate) fn locality(&self) -> &Locality {
        &self.locality
    }

    /// Asks the background thread for the next file of a table, and wakes it unless the request is
    /// queued already.
    pub(crate) fn ask_for_file(&self, table: u32) {
        let mut requests = self.requests.lock();
        if !requests.tables.contains(&table) {
            requests.tables.push(table);
            self.wake.notify_all();
        }
    }

    /// Waits for requests, no longer than `at_most`. Returns the tables that need their next file;
    /// `None` when the background thread is to stop.
    pub(crate) fn wait(&self, at_most: Duration) -> Option<Vec<u32>> {
        let mut requests = self.requests.lock();
        if requests.tables.is_empty() && !requests.stop {
            self.wake.wait_for(&mut requests, at_most);
        }
        (!requests.stop).then(|| std::mem::take(&mut requests.tables))
    }

    /// Takes the tables that need their next file.
    pub(crate) fn take_asked(&self) -> Vec<u32> {
        std::mem::take(&mut self.requests.lock().tables)
    }

    /// Whether somebody waits for the background thread.
    pub(crate) fn is_asked(&self) -> bool {
        let requests = self.requests.lock();
        requests.stop || !requests.tables.is_empty()
    }

    /// Asks the background thread to stop.
    pub(crate) fn stop(&self) {
        self.requests.lock().stop = true;
        self.wake.notify_all();
    }

    /// Removes files that nothing names any more, and makes the removal durable.
    /// [`Services::remove_leftovers`] retries files that cannot be removed now; the next start
    /// removes them at the latest.
    pub(crate) fn remove_files(&self, medium: &dyn Medium, names: impl IntoIterator<Item = String>) {
        for name in names {
            match medium.remove(&name) {
                Ok(()) => {}
                Err(error) if error.kind() == perdura_pmem::ErrorKind::NotFound => {}
                Err(error) => {
                    self.notices.add(format!(
                        "a data file that is no longer needed could not be removed and stays for now: {error}"
                    ));
                    self.add_leftover(name);
                }
            }
        }
        if let Err(error) = medium.sync_dir() {
            self.notices.add(format!(
                "the removal of data files is not durable; after a crash the next start removes them again: {error}"
            ));
        }
    }

    /// Retries the files that [`Services::remove_files`] could not remove.
    pub(crate) fn remove_leftovers(&self, medium: &dyn Medium) {
        let mut leftovers = self.leftovers.lock();
        if leftovers.is_empty() {
            return;
        }
        let is_reported = leftovers.iter().any(|left| left.is_reported);
        let is_gone = |error: perdura_pmem::Error| error.kind() == perdura_pmem::ErrorKind::NotFound;
        leftovers.retain(|left| medium.remove(&left.name).is_err_and(|error| !is_gone(error)));
        if leftovers.is_empty() && medium.sync_dir().is_ok() && is_reported {
            self.notices.add("data files that could not be removed earlier are removed now".to_owned());
        }
    }

    /// Takes a file off the list of files to be removed, because the caller is about to create one
    /// of that name. Returns whether it was on the list.
    pub(crate) fn forget_leftover(&self, name: &str) -> bool {
        let mut leftovers = self.leftovers.lock();
        let before = leftovers.len();
        leftovers.retain(|left| left.name != name);
        leftovers.len() < before
    }

    /// Puts a file that could not be removed on the list of files to be removed in the background.
    pub(crate) fn add_leftover(&self, name: String) {
        self.leftovers.lock().push(Leftover { name, is_reported: true });
    }

    /// Has the background thread remove a file, which need not be there any more.
    pub(crate) fn remove_later(&self, name: String) {
        self.leftovers.lock().push(Leftover { name, is_reported: false });
    }
}
