//! Case `commit`: transactions of one row through the engine's API, each timed by itself: the
//! insert of the row, the commit, and both.
//!
//! A reading of the clock takes part in each figure (`clock_ns`). The floor is that of case `1`.

use perdura_bench::measure::{ns_each, percentile};
use perdura_bench::output;
use perdura_bench::own::medium;
use perdura_bench::plan::Plan;
use perdura_bench::sampler;
use perdura_engine::{Config, Engine, Isolation};
use perdura_pmem::counters;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The paper's row, packed, has about this many bytes.
const ROW: [u8; 64] = [0x5a; 64];
/// A new pool is used after this long even if it is still mapping its log.
const MAPPED_WITHIN: Duration = Duration::from_secs(5);
const CASE: &str = "commit";

/// One round.
pub fn run(plan: &Plan) {
    sampler::running("perdura", CASE);
    let scratch = plan.scratch();
    let engine = Engine::open(medium(scratch.path()), Config::default()).expect("the pool can be created");
    let begun = Instant::now();
    while engine.counters().prefault_queued_bytes > 0 && begun.elapsed() < MAPPED_WITHIN {
        std::thread::sleep(Duration::from_millis(1));
    }
    let table = engine.create_table("commits", b"").expect("the pool is new");
    let mut session = engine.session(Isolation::RepeatableRead);
    let rows = plan.pick(500_000, 100_000);
    let (mut inserts, mut commits, mut both) = (Vec::new(), Vec::new(), Vec::new());
    let before = counters();
    for _ in 0..rows {
        let begun = Instant::now();
        session.insert(&table, black_box(&ROW)).expect("there is room");
        let inserted = Instant::now();
        session.commit().expect("there is room");
        let ended = Instant::now();
        for (values, took) in
            [(&mut inserts, inserted - begun), (&mut commits, ended - inserted), (&mut both, ended - begun)]
        {
            values.push(took.as_nanos() as u32);
        }
    }
    let written = counters().since(&before);
    for (name, values) in [("insert", &mut inserts), ("end", &mut commits), ("both", &mut both)] {
        let case = format!("{CASE}/{name}");
        output::value("perdura", &case, "p50_ns", percentile(values, 0.5));
        output::value("perdura", &case, "p99_ns", percentile(values, 0.99));
    }
    let each = |count: u64| count as f64 / rows as f64;
    output::value("perdura", CASE, "fences", each(written.fences));
    output::value("perdura", CASE, "lines_flushed", each(written.flushed_lines));
    output::value("perdura", CASE, "nt_bytes", each(written.nt_bytes));
    output::value("perdura", CASE, "clock_ns", clock_ns());
    drop(session);
    engine.close();
}

/// Nanoseconds that a reading of the clock takes.
fn clock_ns() -> f64 {
    const READINGS: usize = 100_000;
    let begun = Instant::now();
    for _ in 0..READINGS {
        black_box(Instant::now());
    }
    ns_each(begun.elapsed(), READINGS)
}
