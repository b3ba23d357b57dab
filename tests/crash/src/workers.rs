//! The worker threads of a campaign.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const WORKERS: usize = 2;

/// Runs `work` on all workers at once.
pub(crate) fn on_all_workers(work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(&work);
        }
    });
}

/// Does `work` with each item on all workers, which take the items in order. The results are in the
/// order of the items.
pub(crate) fn map_on_all_workers<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    on_all_workers(|| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(number) else { return };
            let result = work(item);
            results.lock().expect("no worker panics with it").push((number, result));
        }
    });
    let mut results = results.into_inner().expect("no worker panics with it");
    results.sort_unstable_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}
