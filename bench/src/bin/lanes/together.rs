//! Threads that begin together.

use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Runs `run` in `threads` threads at once, each with its number. Returns the time from the first
/// one's begin to the last one's end, and the results. The threads look at the clock themselves:
/// with more threads than processors, another one might look long after some have begun.
pub fn at_once<T: Send>(threads: usize, run: impl Fn(usize) -> T + Sync) -> (Duration, Vec<T>) {
    let start = Barrier::new(threads);
    let outcomes: Vec<(Instant, Instant, T)> = std::thread::scope(|scope| {
        let (run, start) = (&run, &start);
        let spawn = |thread| {
            scope.spawn(move || {
                start.wait();
                let begun = Instant::now();
                let outcome = run(thread);
                (begun, Instant::now(), outcome)
            })
        };
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("no thread panics")).collect()
    });
    let first = outcomes.iter().map(|(begun, ..)| *begun).min().expect("one thread at least");
    let last = outcomes.iter().map(|(_, ended, _)| *ended).max().expect("one thread at least");
    (last - first, outcomes.into_iter().map(|(.., outcome)| outcome).collect())
}
