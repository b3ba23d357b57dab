//! Commits of many writers while the log switches generations every few milliseconds.
//!
//! Each writer sleeps between its commits, so the processors are idle for most of the time: with
//! more to do than they can, commits would wait for a processor for longer than for a switch.

use crate::pool::{self, ROW};
use perdura_bench::measure::{percentile, turned};
use perdura_bench::output;
use perdura_bench::plan::Plan;
use perdura_engine::{Config, Engine, LogConfig};
use std::time::{Duration, Instant};

const WRITERS: usize = 16;
/// Sleep of a writer between two commits.
const PAUSE: Duration = Duration::from_micros(200);
/// Time before any commit is counted.
const WARM_UP: Duration = Duration::from_millis(100);
/// Bytes of a lane by case: the fewest that a log can have, and the default, which hardly switches.
const CASES: [(&str, u64); 2] = [("4KiB", 4 << 10), ("16MiB", 16 << 20)];

/// `p99_us` and `max_us` of a commit, and `switches_per_s`, by bytes of a lane.
pub fn run(plan: &Plan) {
    let counted = plan.pick(Duration::from_secs(5), Duration::from_secs(2));
    for round in 0..plan.pick(5, 3) {
        for (case, lane_bytes) in turned(&CASES, round) {
            let scratch = plan.scratch();
            let log = LogConfig { lane_bytes, ..LogConfig::default() };
            let config = Config { log, ..Config::default() };
            let engine = Engine::open(pool::medium(scratch.path()), config).expect("the pool can be created");
            report(case, &engine, counted);
            engine.close();
        }
    }
}

fn report(case: &str, engine: &Engine, counted: Duration) {
    let table = engine.create_table("switch", b"").expect("the pool is new");
    let begin = Instant::now() + WARM_UP;
    let before = std::thread::scope(|scope| {
        let writer = || {
            let mut session = pool::session(engine);
            let mut latencies = Vec::new();
            while begin.elapsed() < counted {
                std::thread::sleep(PAUSE);
                session.insert(&table, &ROW).expect("there is room");
                let begun = Instant::now();
                session.commit().expect("there is room");
                if begun >= begin {
                    latencies.push(u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX));
                }
            }
            latencies
        };
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(writer)).collect();
        std::thread::sleep(WARM_UP);
        let before = engine.counters().generation_switches;
        let joined = writers.into_iter().flat_map(|writer| writer.join().expect("there is room"));
        let mut latencies: Vec<u32> = joined.collect();
        output::value("perdura", case, "p99_us", percentile(&mut latencies, 0.99) / 1e3);
        output::value("perdura", case, "max_us", percentile(&mut latencies, 1.0) / 1e3);
        before
    });
    let switches = engine.counters().generation_switches - before;
    output::value("perdura", case, "switches_per_s", switches as f64 / counted.as_secs_f64());
}
