//! The worker threads of a campaign.

const WORKERS: usize = 2;

/// Runs `work` on all workers at once.
pub(crate) fn on_all_workers(work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(&work);
        }
    });
}
