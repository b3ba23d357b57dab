//! Small commits beside the commit of a large transaction: how long they are held up.
//!
//! The load is an open loop. A commit is due every [`PERIOD`], whatever became of those before it, and its latency counts from the
//! time it was due. So a commit that stalls makes all those late that fall due meanwhile, as it would for a server's clients.

use crate::plan::Plan;
use crate::pool::{self, ROW};
use perdura_bench::measure::percentile;
use perdura_bench::output;
use perdura_engine::{Engine, Session, Table};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Time from one small commit's due time to the next one's.
const PERIOD: Duration = Duration::from_micros(500);
/// The thread sleeps until so long before the due time and then spins, because a sleep ends late by about half of this.
const SPUN: Duration = Duration::from_micros(150);
/// Small commits before any is counted.
const WARM_UP: Duration = Duration::from_millis(50);

/// A small commit: when it was due, and when it was acknowledged.
#[derive(Clone, Copy)]
struct Sample {
    due: Instant,
    done: Instant,
}

/// `p99_us` and `max_us` of the cases alone and beside, and `commit_ms`, how long the large commit took.
pub fn run(plan: &Plan) {
    let rows = plan.pick(1_000_000, 500_000);
    for _ in 0..plan.pick(7, 5) {
        let scratch = plan.scratch();
        let engine = pool::create(scratch.path());
        alone(&engine, plan.pick(Duration::from_secs(1), Duration::from_millis(500)));
        beside(&engine, rows);
        engine.close();
    }
}

fn alone(engine: &Engine, length: Duration) {
    let table = engine.create_table("alone", b"").expect("the pool is new");
    let begin = Instant::now() + WARM_UP;
    let samples = commits(&mut pool::session(engine), &table, |due| due > begin + length);
    report("alone", &samples, begin, begin + length);
}

/// Only the commits that fall due between the large transaction's COMMIT and its return count.
fn beside(engine: &Engine, rows: usize) {
    let small = engine.create_table("small", b"").expect("there is room");
    let large = engine.create_table("large", b"").expect("there is room");
    let rids = pool::load(engine, &large, rows);
    let (begin, end) = (OnceLock::new(), OnceLock::new());
    let samples = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = pool::session(engine);
            pool::update(&mut session, &large, &rids);
            begin.get_or_init(Instant::now);
            session.commit().expect("there is room");
            end.get_or_init(Instant::now);
        });
        commits(&mut pool::session(engine), &small, |due| end.get().is_some_and(|end| due > *end))
    });
    let (begin, end) = (*begin.get().expect("it was set"), *end.get().expect("it was set"));
    output::value("perdura", "beside", "commit_ms", (end - begin).as_secs_f64() * 1e3);
    report("beside", &samples, begin, end);
}

/// Inserts and commits one row at each due time until `is_over`.
fn commits(session: &mut Session, table: &Arc<Table>, is_over: impl Fn(Instant) -> bool) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut due = Instant::now();
    while !is_over(due) {
        wait_until(due);
        session.insert(table, &ROW).expect("there is room");
        session.commit().expect("there is room");
        samples.push(Sample { due, done: Instant::now() });
        due += PERIOD;
    }
    samples
}

fn wait_until(due: Instant) {
    if let Some(early) = due.checked_duration_since(Instant::now() + SPUN) {
        std::thread::sleep(early);
    }
    while Instant::now() < due {
        std::hint::spin_loop();
    }
}

/// Prints the figures of the commits due from `begin` to `end`.
fn report(case: &str, samples: &[Sample], begin: Instant, end: Instant) {
    let counted = samples.iter().filter(|sample| (begin..=end).contains(&sample.due));
    let ns = |sample: &Sample| u32::try_from((sample.done - sample.due).as_nanos()).unwrap_or(u32::MAX);
    let mut latencies: Vec<u32> = counted.map(ns).collect();
    if latencies.is_empty() {
        // The large commit took less than a period.
        return;
    }
    output::value("perdura", case, "p99_us", percentile(&mut latencies, 0.99) / 1e3);
    output::value("perdura", case, "max_us", percentile(&mut latencies, 1.0) / 1e3);
}
