//! Runs without a recording: for drills, which look at their end only.

use crate::subject::Stall;
use perdura_pmem::SimMedium;
use perdura_pmem::sim::Scheduler;
use perdura_pmem::trace::{Access, Site, Tap};
use std::sync::Arc;

/// Lets the scheduler switch threads at every store, flush and fence. Records nothing.
struct Unheard;

impl Tap for Unheard {
    fn record(&self, _access: Access<'_>, _site: Site) {}
}

/// An empty medium on which every event is a step of the scheduler.
pub fn medium() -> Arc<SimMedium> {
    Arc::new(SimMedium::new().recording(Arc::new(Unheard)))
}

/// The scheduler of a seed, which stalls threads at a place if one is given.
pub fn scheduler(seed: u64, stall: Stall) -> Scheduler {
    let scheduler = Scheduler::new(seed).switch_one_in(1 + seed % 12);
    let scheduler = if seed.is_multiple_of(3) { scheduler.pause_one_in(40) } else { scheduler };
    stall.map_or(scheduler, |(file, line)| scheduler.stall_after(file, line))
}
