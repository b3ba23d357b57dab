//! Running seeds, on all cores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use perdura_sim::{Plan, Report, run};

/// Runs a seed. Returns what it has had, or what is wrong.
pub fn run_seed(seed: u64) -> Result<Report, String> {
    catch_unwind(AssertUnwindSafe(|| run(&Plan::of_seed(seed)))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    })
}

/// Calls `each` with seeds, on all cores, in order for each core, until it returns false once.
pub fn on_all_cores(seeds: std::ops::Range<u64>, each: impl Fn(u64) -> bool + Sync) {
    let next = AtomicU64::new(seeds.start);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds.end {
            break;
        }
        if !each(seed) {
            next.store(seeds.end, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
}
