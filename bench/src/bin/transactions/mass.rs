//! One transaction updates every row of a table, beside the bulk insert of those rows and a memcpy
//! of the same bytes.

use crate::pool::{self, ROW};
use perdura_bench::output;
use perdura_bench::plan::Plan;
use perdura_bench::sampler;
use std::hint::black_box;
use std::time::{Duration, Instant};

const CASE: &str = "engine";
const METRIC: &str = "us_per_row";

/// `us_per_row` of the systems perdura (an update), perdura_insert and memcpy. Commits count.
pub fn run(plan: &Plan) {
    sampler::running("engine", "mass");
    let rows = plan.pick(1_000_000, 500_000);
    let us_each = |took: Duration| took.as_secs_f64() * 1e6 / rows as f64;
    for _ in 0..plan.pick(5, 3) {
        let scratch = plan.scratch();
        let engine = pool::create(scratch.path());
        let table = engine.create_table("mass", b"").expect("the pool is new");
        let begun = Instant::now();
        let rids = pool::load(&engine, &table, rows);
        output::value("perdura_insert", CASE, METRIC, us_each(begun.elapsed()));
        let mut session = pool::session(&engine);
        let begun = Instant::now();
        pool::update(&mut session, &table, &rids);
        session.commit().expect("there is room");
        output::value("perdura", CASE, METRIC, us_each(begun.elapsed()));
        drop(session);
        engine.close();
        output::value("memcpy", CASE, METRIC, us_each(copy(rows)));
    }
}

/// The time to copy as many rows into fresh memory.
fn copy(rows: usize) -> Duration {
    let begun = Instant::now();
    let mut target = vec![0u8; rows * ROW.len()];
    for place in target.chunks_exact_mut(ROW.len()) {
        place.copy_from_slice(black_box(&ROW));
    }
    black_box(&target);
    begun.elapsed()
}
