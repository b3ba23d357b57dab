//! Transactions of one row each by lanes of the log: `8`, `time_s`, and by stages of a commit
//! `csn/8`, `ns_per_commit`.
//!
//! A system is a number of threads and a way to choose the lane: `perdura` has 8 threads and lanes
//! by session. `time_s` is taken with no clock read in between, the stages in runs of their own. A
//! stage's time is the clock's as the thread sees it, so it has the waits for a processor too.

use crate::pool::{Pool, Run};
use crate::ticks;
use perdura_bench::measure::turned;
use perdura_bench::output;
use perdura_bench::own::{medium, medium_like};
use perdura_bench::plan::Plan;
use perdura_bench::sampler;
use perdura_engine::{LaneChoice, LogStage};
use perdura_pmem::Preset;
use std::time::Instant;

/// Lanes as in the paper's table III.
const LANES: [u32; 7] = [1, 2, 4, 8, 10, 12, 16];
/// Threads of the systems, and of the counter alone.
pub const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// Threads of the systems that differ in the choice of lanes.
const USUAL: usize = 8;
/// Threads of the systems whose stages are timed.
const TIMED: [usize; 3] = [1, 2, USUAL];

/// A system under test.
#[derive(Clone, Copy)]
struct System {
    name: &'static str,
    choice: LaneChoice,
    threads: &'static [usize],
    /// The medium whose time the memory takes, where memory is emulated.
    model: Option<Preset>,
    /// Whether threads are pinned to the pool's NUMA node, where there are several.
    numa: bool,
}

const USUALLY: System =
    System { name: "perdura", choice: LaneChoice::Session, threads: &[USUAL], model: None, numa: true };

const SYSTEMS: [System; 5] = [
    System { threads: &THREADS, ..USUALLY },
    System { name: "perdura_transaction", choice: LaneChoice::Transaction, ..USUALLY },
    System { name: "perdura_core", choice: LaneChoice::Core, ..USUALLY },
    System { name: "perdura_optane", model: Some(Preset::Optane), ..USUALLY },
    System { name: "perdura_unplaced", numa: false, ..USUALLY },
];

impl System {
    /// Whether the medium can take the time of the system's model.
    fn runs(&self, is_emulated: bool) -> bool {
        is_emulated || self.model.is_none()
    }
}

/// Runs everything.
pub fn run(plan: &Plan) {
    let transactions = plan.pick(200_000, 40_000);
    let is_emulated = medium(plan.scratch().path()).info().mode.is_emulated();
    for round in plan.rounds(5, 3) {
        let begun = Instant::now();
        let tick = ticks::length();
        for lanes in turned(&LANES, round) {
            for system in turned(&SYSTEMS, round).filter(|system| system.runs(is_emulated)) {
                let scratch = plan.scratch();
                let medium = medium_like(scratch.path(), system.model);
                let mut pool = Pool::create(medium, lanes, system.choice, system.numa);
                for threads in turned(system.threads, round) {
                    let (name, case) = (named(system.name, threads), lanes.to_string());
                    sampler::running(&name, &case);
                    // One run is short, and a thread that loses its processor makes it half as long
                    // again.
                    for _ in 0..if threads == USUAL { plan.pick(5, 1) } else { 1 } {
                        let took = pool.run(threads, transactions, false).took;
                        output::value(&name, &case, "time_s", took.as_secs_f64());
                    }
                }
                pool.time_stages();
                sampler::running(system.name, &format!("commit/{lanes}"));
                for threads in system.threads.iter().copied().filter(|threads| TIMED.contains(threads)) {
                    let run = pool.run(threads, transactions, true);
                    stages(&named(system.name, threads), lanes, &run, tick / transactions as f64);
                }
                pool.close();
            }
        }
        output::progress(format_args!("lanes, round {}: {:.1} s", round + 1, begun.elapsed().as_secs_f64()));
    }
}

/// A system's name: with its threads, if they are not the usual ones.
fn named(system: &str, threads: usize) -> String {
    if threads == USUAL { system.to_owned() } else { format!("{system}_{threads}t") }
}

/// Prints the nanoseconds that a transaction of a run takes in each stage; `each` are those of a
/// tick, divided by the number of transactions. `commit` is the commit as a whole, `rest` what the
/// log has no part in.
fn stages(system: &str, lanes: u32, run: &Run, each: f64) {
    let print = |stage: &str, ticks: u64| {
        output::value(system, &format!("{stage}/{lanes}"), "ns_per_commit", ticks as f64 * each);
    };
    print("insert", run.insert);
    print("commit", run.commit);
    for stage in LogStage::ALL {
        print(name(stage), run.of(stage));
    }
    let log: u64 = LogStage::ALL.iter().map(|stage| run.of(*stage)).sum();
    print("rest", run.commit.saturating_sub(log));
}

fn name(stage: LogStage) -> &'static str {
    match stage {
        LogStage::Id => "id",
        LogStage::Reserve => "reserve",
        LogStage::Csn => "csn",
        LogStage::Copy => "copy",
        LogStage::Fence => "fence",
        LogStage::Durable => "durable",
        LogStage::DurableWait => "durable_wait",
        LogStage::Visible => "visible",
        LogStage::VisibleWait => "visible_wait",
        LogStage::Stored => "stored",
        LogStage::Release => "release",
    }
}
