//! Small commits beside the commit of a large transaction: how long they are held up.
//!
//! The load is an open loop. A commit is due every [`PERIOD`], whatever became of those before it,
//! and its latency counts from the time it was due. So a commit that stalls makes all those late
//! that fall due meanwhile, as it would for a server's clients.

use crate::pool::{self, ROW};
use perdura_bench::measure::percentile;
use perdura_bench::output;
use perdura_bench::plan::Plan;
use perdura_engine::{Engine, Rid, Session, Table};
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Time from one small commit's due time to the next one's.
const PERIOD: Duration = Duration::from_micros(500);
/// The thread sleeps until so long before the due time and then spins, because a sleep ends late by
/// about half of this.
const SPUN: Duration = Duration::from_micros(150);
/// Small commits before any is counted.
const WARM_UP: Duration = Duration::from_millis(50);

/// Time of which the commits count, alone as beside: 2,000 are due in it. Of fewer a single pause
/// of the machine, which lasts some 2 ms, would make the 99th percentile.
const COUNTED: Duration = Duration::from_secs(1);
/// The same in a quick run.
const COUNTED_QUICK: Duration = Duration::from_millis(250);
/// Large commits at most.
const LARGE_COMMITS_MAX: usize = 40;

/// From the begin to the end of what is looked at.
type Window = RangeInclusive<Instant>;

/// A small commit: when it was due, and when it was acknowledged.
#[derive(Clone, Copy)]
struct Sample {
    due: Instant,
    done: Instant,
}

/// `p99_us` and `max_us` of the cases alone and beside, and `commit_ms`, how long a large commit
/// took.
pub fn run(plan: &Plan) {
    let (rows, counted) = (plan.pick(1_000_000, 500_000), plan.pick(COUNTED, COUNTED_QUICK));
    for _ in 0..plan.pick(7, 5) {
        let scratch = plan.scratch();
        let engine = pool::create(scratch.path());
        alone(&engine, counted);
        beside(&engine, rows, counted);
        engine.close();
    }
}

fn alone(engine: &Engine, length: Duration) {
    let table = engine.create_table("alone", b"").expect("the pool is new");
    let begin = Instant::now() + WARM_UP;
    let samples = commits(&mut pool::session(engine), &table, |due| due > begin + length);
    report("alone", &samples, &[begin..=begin + length]);
}

/// Only the commits that fall due between a large transaction's COMMIT and its return count. The
/// large transaction is repeated until there are enough of those.
fn beside(engine: &Engine, rows: usize, counted: Duration) {
    let small = engine.create_table("small", b"").expect("there is room");
    let large = engine.create_table("large", b"").expect("there is room");
    let rids = pool::load(engine, &large, rows);
    let over = OnceLock::new();
    let (samples, windows) = std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let windows = large_commits(engine, &large, &rids, counted);
            over.get_or_init(Instant::now);
            windows
        });
        let samples = commits(&mut pool::session(engine), &small, |due| {
            // A thread that panicked leaves no time.
            let has_ended = running.is_finished();
            over.get().map_or(has_ended, |over| due > *over)
        });
        (samples, running.join().expect("there is room"))
    });
    let each = length(&windows) / windows.len() as u32;
    output::value("perdura", "beside", "commit_ms", each.as_secs_f64() * 1e3);
    report("beside", &samples, &windows);
}

/// Updates and commits all rows until the commits have taken `counted` together. Returns when each
/// began and ended.
fn large_commits(engine: &Engine, table: &Arc<Table>, rids: &[Rid], counted: Duration) -> Vec<Window> {
    let mut windows = Vec::new();
    while length(&windows) < counted && windows.len() < LARGE_COMMITS_MAX {
        let mut session = pool::session(engine);
        pool::update(&mut session, table, rids);
        let begin = Instant::now();
        session.commit().expect("there is room");
        windows.push(begin..=Instant::now());
    }
    windows
}

fn length(windows: &[Window]) -> Duration {
    windows.iter().map(|window| *window.end() - *window.start()).sum()
}

/// Inserts and commits one row at each due time until one is over. Those that are late by then are
/// still carried out.
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

/// Prints the figures of the commits due within `windows`.
fn report(case: &str, samples: &[Sample], windows: &[Window]) {
    let counted = samples.iter().filter(|sample| windows.iter().any(|window| window.contains(&sample.due)));
    let ns = |sample: &Sample| u32::try_from((sample.done - sample.due).as_nanos()).unwrap_or(u32::MAX);
    let mut latencies: Vec<u32> = counted.map(ns).collect();
    assert!(!latencies.is_empty(), "{case}: no commit fell due within {:?}", length(windows));
    output::value("perdura", case, "p99_us", percentile(&mut latencies, 0.99) / 1e3);
    output::value("perdura", case, "max_us", percentile(&mut latencies, 1.0) / 1e3);
}
