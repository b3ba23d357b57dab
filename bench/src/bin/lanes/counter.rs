//! A counter alone, as the one that gives out the CSNs, by threads: `counter/2t`, `ns_per_op`. The
//! system `shared` has one counter for all threads, `own` one for each.

use crate::series::THREADS;
use crate::together::at_once;
use perdura_bench::measure::ns_each;
use perdura_bench::output;
use perdura_bench::plan::Plan;
use perdura_bench::sampler;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A counter on lines of its own; processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Counter(AtomicU64);

/// Prints `ns_per_op`: the clock's time, divided by what all threads did together.
pub fn run(plan: &Plan) {
    let counts = plan.pick(20_000_000, 4_000_000);
    for _ in 0..plan.pick(5, 3) {
        for threads in THREADS {
            let case = format!("counter/{threads}t");
            sampler::running("shared", &case);
            output::value("shared", &case, "ns_per_op", count(threads, 1, counts));
            output::value("own", &case, "ns_per_op", count(threads, threads, counts));
        }
    }
}

/// Nanoseconds a count if `threads` threads share so many counters.
fn count(threads: usize, counters: usize, counts: usize) -> f64 {
    let counters: Vec<Counter> = (0..counters).map(|_| Counter::default()).collect();
    let each = counts / threads;
    let (took, _) = at_once(threads, |thread| {
        let counter = &counters[thread % counters.len()].0;
        for _ in 0..each {
            black_box(counter.fetch_add(1, SeqCst));
        }
    });
    ns_each(took, each * threads)
}
