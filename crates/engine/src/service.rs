//! What an engine's tables share in DRAM: pre-fault, requests for files ahead of need, the background thread's wake-up,
//! notices, and files that are still to be removed.

use crate::notices::Notices;
use perdura_log::Csn;
use perdura_pmem::prefault::{Prefault, Priority};
use perdura_pmem::sync::{Condvar, Mutex};
use perdura_pmem::{Medium, Region};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Default)]
struct Requests {
    tables: Vec<u32>,
    stop: bool,
}

/// Shared services.
pub struct Services {
    prefault: Option<Prefault>,
    requests: Mutex<Requests>,
    wake: Condvar,
    recovered_csn: AtomicU64,
    pub(crate) notices: Notices,
    leftovers: Mutex<Vec<String>>,
}

impl Services {
    /// Services with or without pre-fault threads.
    pub fn new(prefault: Option<Prefault>) -> Services {
        Services {
            prefault,
            requests: Mutex::new(Requests::default()),
            wake: Condvar::new(),
            recovered_csn: AtomicU64::new(0),
            notices: Notices::default(),
            leftovers: Mutex::new(Vec::new()),
        }
    }

    /// Has a new file faulted in ahead of its users.
    pub fn prefault(&self, region: &Region) {
        if let Some(prefault) = &self.prefault {
            prefault.submit(region.clone(), 0, region.len(), Priority::High);
        }
    }

    /// Has an existing file faulted in, behind new ones.
    pub fn prefault_later(&self, region: &Region) {
        if let Some(prefault) = &self.prefault {
            prefault.submit(region.clone(), 0, region.len(), Priority::Low);
        }
    }

    /// The pre-fault service, if there is one.
    pub fn prefault_service(&self) -> Option<&Prefault> {
        self.prefault.as_ref()
    }

    /// Asks the background thread for the next file of a table. Costs a lock only the first time.
    pub fn ask_for_file(&self, table: u32) {
        let mut requests = self.requests.lock();
        if !requests.tables.contains(&table) {
            requests.tables.push(table);
            self.wake.notify_all();
        }
    }

    /// The background thread waits: tables that want a file, or `None` to stop.
    pub fn wait(&self, at_most: Duration) -> Option<Vec<u32>> {
        let mut requests = self.requests.lock();
        if requests.tables.is_empty() && !requests.stop {
            self.wake.wait_for(&mut requests, at_most);
        }
        (!requests.stop).then(|| std::mem::take(&mut requests.tables))
    }

    /// Stops the background thread.
    pub fn stop(&self) {
        self.requests.lock().stop = true;
        self.wake.notify_all();
    }

    /// Removes files that nothing names any more, and makes that durable. [`Services::remove_leftovers`] retries those
    /// that cannot be removed; the next start removes them at the latest.
    pub fn remove_files(&self, medium: &dyn Medium, names: impl IntoIterator<Item = String>) {
        for name in names {
            match medium.remove(&name) {
                Ok(()) => {}
                Err(error) if error.kind() == perdura_pmem::ErrorKind::NotFound => {}
                Err(error) => {
                    self.notices.add(format!("a data file that is not needed any more stays for now: {error}"));
                    self.add_leftover(name);
                }
            }
        }
        if let Err(error) = medium.sync_dir() {
            self.notices
                .add(format!("removed data files may be there again after a crash, until the next start: {error}"));
        }
    }

    /// Retries the files that [`Services::remove_files`] could not remove.
    pub fn remove_leftovers(&self, medium: &dyn Medium) {
        let mut leftovers = self.leftovers.lock();
        if leftovers.is_empty() {
            return;
        }
        leftovers
            .retain(|name| medium.remove(name).is_err_and(|error| error.kind() != perdura_pmem::ErrorKind::NotFound));
        if leftovers.is_empty() && medium.sync_dir().is_ok() {
            self.notices.add("data files that could not be removed before are removed now".to_owned());
        }
    }

    /// The caller is about to make a file of this name: it is left alone from here on. Whether there was one to be removed.
    pub fn forget_leftover(&self, name: &str) -> bool {
        let mut leftovers = self.leftovers.lock();
        let before = leftovers.len();
        leftovers.retain(|left| left != name);
        leftovers.len() < before
    }

    /// Has a file removed in the background.
    pub fn add_leftover(&self, name: String) {
        self.leftovers.lock().push(name);
    }

    /// The CSN recovery ended at: versions at or below it are from before this run.
    pub fn recovered_csn(&self) -> Csn {
        self.recovered_csn.load(Ordering::Acquire)
    }

    /// Sets the CSN recovery ended at.
    pub fn set_recovered_csn(&self, csn: Csn) {
        self.recovered_csn.store(csn, Ordering::Release);
    }
}
