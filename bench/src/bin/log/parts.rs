//! Parts of an append, each timed by itself in batches: `1/begin`, `1/reserve`, `1/commit` (the
//! CSN, the checksum, the copy, the fence and the mark), `1/end`; and `1/forget`, which comes after
//! it.

use crate::running::{BODY, create, forget};
use perdura_bench::measure::{ns_each, percentile};
use perdura_bench::output;
use perdura_bench::own::medium;
use perdura_bench::plan::Plan;
use std::time::{Duration, Instant};

/// Transactions under way at a time, each a step further than the next ones.
const BATCH: usize = 16;
const NAMES: [&str; 5] = ["begin", "reserve", "commit", "end", "forget"];

/// `part_ns` of each part, by one thread.
pub fn run(plan: &Plan) {
    let scratch = plan.scratch();
    let log = create(medium(scratch.path()));
    let mut parts = [const { Vec::new() }; NAMES.len()];
    for _ in 0..plan.pick(20_000, 5_000) {
        let mut clock = Instant::now();
        let mut lap = || {
            let now = Instant::now();
            now.duration_since(std::mem::replace(&mut clock, now))
        };
        let mut txns: Vec<_> = (0..BATCH).map(|_| log.begin(0)).collect();
        let begin = lap();
        let reserve = |txn: &mut perdura_log::LogTxn| txn.reserve(BODY.len()).expect("there is room");
        let reserved: Vec<_> = txns.iter_mut().map(reserve).collect();
        let reserve = lap();
        let mut csns: Vec<u64> =
            txns.iter_mut().zip(reserved).map(|(txn, reservation)| txn.commit(reservation, &BODY)).collect();
        let commit = lap();
        drop(txns);
        let end = lap();
        forget(&log, &mut csns);
        let took: [Duration; NAMES.len()] = [begin, reserve, commit, end, lap()];
        for (part, took) in parts.iter_mut().zip(took) {
            part.push(ns_each(took, BATCH) as u32);
        }
    }
    for (name, values) in NAMES.into_iter().zip(&mut parts) {
        output::value("perdura", &format!("1/{name}"), "part_ns", percentile(values, 0.5));
    }
}
