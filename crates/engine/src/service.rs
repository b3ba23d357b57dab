//! What an engine's tables share in DRAM: pre-fault, requests for files ahead of need, and the background thread's wake-up.

use perdura_log::Csn;
use perdura_pmem::Region;
use perdura_pmem::prefault::{Prefault, Priority};
use perdura_pmem::sync::{Condvar, Mutex};
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
}

impl Services {
    /// Services with or without pre-fault threads.
    pub fn new(prefault: Option<Prefault>) -> Services {
        Services {
            prefault,
            requests: Mutex::new(Requests::default()),
            wake: Condvar::new(),
            recovered_csn: AtomicU64::new(0),
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

    /// The CSN recovery ended at: versions at or below it are from before this run.
    pub fn recovered_csn(&self) -> Csn {
        self.recovered_csn.load(Ordering::Acquire)
    }

    /// Sets the CSN recovery ended at.
    pub fn set_recovered_csn(&self, csn: Csn) {
        self.recovered_csn.store(csn, Ordering::Release);
    }
}
