//! Cases `1` to `4`, threads: `ns_per_append` of the log and `floor_ns` of the same bytes copied
//! and fenced, in turns.
//!
//! Each is the median over batches of the time of one in its thread: on a busy machine a thread
//! loses its processor now and then, and the mean would tell of that. Between batches, unmeasured,
//! the log is told that it may forget the records.

use crate::floor::Floor;
use crate::running::{RECORD_BYTES, append, create, forget};
use perdura_bench::measure::{ns_each, percentile};
use perdura_bench::output;
use perdura_bench::own::medium;
use perdura_bench::plan::Plan;
use perdura_bench::sampler;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

const THREADS: [usize; 4] = [1, 2, 3, 4];
/// Records of a batch.
const BATCH: usize = 64;

/// One round of all cases.
pub fn run(plan: &Plan, round: usize) {
    let batches = plan.pick(8_000, 2_000);
    for threads in THREADS {
        let case = threads.to_string();
        sampler::running("perdura", &case);
        let floor = || output::value("perdura", &case, "floor_ns", floor_ns(plan, threads, batches / threads));
        let log = || output::value("perdura", &case, "ns_per_append", log_ns(plan, threads, batches / threads));
        // Each goes first in every second round.
        if round.is_multiple_of(2) {
            floor();
            log();
        } else {
            log();
            floor();
        }
    }
}

/// Nanoseconds of a copy and fence in each of the threads.
fn floor_ns(plan: &Plan, threads: usize, batches: usize) -> f64 {
    let scratch = plan.scratch();
    let medium = medium(scratch.path());
    let record = [0x5a; RECORD_BYTES];
    at_once(threads, |number, start| {
        let mut floor = Floor::create(&*medium, number);
        start.wait();
        let batch = |_| {
            let begun = Instant::now();
            for _ in 0..BATCH {
                floor.append(black_box(&record));
            }
            ns_each(begun.elapsed(), BATCH) as u32
        };
        (0..batches).map(batch).collect()
    })
}

/// Nanoseconds of an append in each of the threads.
fn log_ns(plan: &Plan, threads: usize, batches: usize) -> f64 {
    let scratch = plan.scratch();
    let log = create(medium(scratch.path()));
    at_once(threads, |number, start| {
        let mut csns = Vec::with_capacity(BATCH);
        start.wait();
        let batch = |_| {
            let begun = Instant::now();
            for _ in 0..BATCH {
                csns.push(append(&log, number as u64).0);
            }
            let took = begun.elapsed();
            forget(&log, &mut csns);
            ns_each(took, BATCH) as u32
        };
        (0..batches).map(batch).collect()
    })
}

/// Runs a call in so many threads from one start on. Returns the median of all their values.
fn at_once(threads: usize, run: impl Fn(usize, &Barrier) -> Vec<u32> + Sync) -> f64 {
    let start = Barrier::new(threads);
    let mut values: Vec<u32> = std::thread::scope(|scope| {
        let (run, start) = (&run, &start);
        let running: Vec<_> = (0..threads).map(|number| scope.spawn(move || run(number, start))).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("nobody panics")).collect()
    });
    percentile(&mut values, 0.5)
}
