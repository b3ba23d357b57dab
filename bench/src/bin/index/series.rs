//! `insert`, `lookup` and `range` by length of key, number of keys and threads: `insert/8B/1M/1t`,
//! `ns_per_op`.
//!
//! `ns_per_op` are nanoseconds of the clock, divided by what all threads did together,
//! `cpu_ns_per_op` those that the threads had a core. An operation of `range` is an entry that it
//! read.

use crate::keys::Orders;
use crate::own::Own;
use perdura_bench::measure::{ns_each, thread_time, turned};
use perdura_bench::output;
use perdura_bench::peers::ordered::{self, Key, Ordered};
use perdura_bench::plan::Plan;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Entries of a range.
const RANGE: usize = 100;
/// Most keys looked up in a round.
const FINDS_MAX: usize = 2_000_000;
/// Ranges in a round.
const RANGES: usize = 20_000;

/// A system under test.
#[derive(Clone, Copy)]
enum System {
    /// The engine, and the engine without an index: what the rows alone cost.
    Own,
    Rows,
    Peer(usize),
}

/// The case of one round.
struct Case<'k, const BYTES: usize> {
    keys: &'k Orders<BYTES>,
    threads: usize,
    /// Length and number of keys, and threads.
    name: String,
}

/// Runs everything.
pub fn run(plan: &Plan) {
    for (count, full, quick) in [(plan.pick(1_000_000, 100_000), 5, 3), (plan.pick(10_000_000, 500_000), 3, 2)] {
        for round in plan.rounds(full, quick) {
            lengths(plan, count, round);
        }
    }
}

fn lengths(plan: &Plan, count: usize, round: usize) {
    let begun = Instant::now();
    one_length::<8>(plan, count, round);
    one_length::<40>(plan, count, round);
    output::progress(format_args!("{count} keys, round {}: {:.1} s", round + 1, begun.elapsed().as_secs_f64()));
}

fn one_length<const BYTES: usize>(plan: &Plan, count: usize, round: usize) {
    let keys = Orders::<BYTES>::new(count, FINDS_MAX, RANGES);
    let size = if count >= 1_000_000 { format!("{}M", count / 1_000_000) } else { format!("{}k", count / 1000) };
    for threads in [1, 2] {
        let case = Case { keys: &keys, threads, name: format!("{BYTES}B/{size}/{threads}t") };
        for system in turned(&[System::Own, System::Peer(0), System::Peer(1), System::Rows], round) {
            match system {
                System::Peer(peer) => {
                    let (name, map) = ordered::all::<BYTES>().into_iter().nth(peer).expect("it is one of them");
                    case.peer(name, &*map);
                }
                System::Own if plan.own => case.own(plan),
                System::Rows if plan.own => case.rows(plan),
                System::Own | System::Rows => {}
            }
        }
    }
}

impl<const BYTES: usize> Case<'_, BYTES> {
    /// Has each thread do its part of `keys`, and prints the time.
    fn phase(
        &self,
        system: &str,
        operation: &str,
        keys: &[Key<BYTES>],
        each: usize,
        run: impl Fn(&[Key<BYTES>]) + Sync,
    ) {
        let begun = Instant::now();
        let cpu: Duration = std::thread::scope(|scope| {
            let run = &run;
            let part = |part| {
                scope.spawn(move || {
                    let before = thread_time();
                    run(part);
                    thread_time().saturating_sub(before)
                })
            };
            let threads: Vec<_> = keys.chunks(keys.len().div_ceil(self.threads)).map(part).collect();
            threads.into_iter().map(|thread| thread.join().expect("nobody panics")).sum()
        });
        let (took, case) = (begun.elapsed(), format!("{operation}/{}", self.name));
        output::value(system, &case, "ns_per_op", ns_each(took, keys.len() * each));
        output::value(system, &case, "cpu_ns_per_op", ns_each(cpu, keys.len() * each));
    }

    fn peer(&self, name: &str, map: &dyn Ordered<BYTES>) {
        self.phase(name, "insert", &self.keys.insert, 1, |keys| {
            keys.iter().enumerate().for_each(|(number, key)| map.insert(key, number as u64));
        });
        self.phase(name, "lookup", &self.keys.find, 1, |keys| {
            keys.iter().for_each(|key| {
                black_box(map.find(key));
            });
        });
        self.phase(name, "range", &self.keys.starts, RANGE, |starts| {
            starts.iter().for_each(|start| {
                black_box(map.sum_from(start, RANGE));
            });
        });
    }

    fn own(&self, plan: &Plan) {
        let scratch = plan.scratch();
        let own = Own::<BYTES>::create(scratch.path(), true);
        self.phase("perdura", "insert", &self.keys.insert, 1, |keys| own.insert(keys));
        self.phase("perdura", "lookup", &self.keys.find, 1, |keys| own.find(keys));
        self.phase("perdura", "range", &self.keys.starts, RANGE, |starts| own.ranges(starts, RANGE));
        own.close();
    }

    fn rows(&self, plan: &Plan) {
        let scratch = plan.scratch();
        let own = Own::<BYTES>::create(scratch.path(), false);
        self.phase("rows_alone", "insert", &self.keys.insert, 1, |keys| own.insert(keys));
        own.close();
    }
}
