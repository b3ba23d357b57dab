//! Processor time of a statement by layer: the kernel, the server, the engine, and libraries, for
//! scripts of sysbench with one kind of statement and for their mixes.
//!
//! Each engine has a server of its own (see `pair`). The time of a transaction is the CPU time of
//! the server's process over the transactions of a run. `perf` samples the process in the middle
//! of the run, and its shares divide that time.

mod perf;

use std::time::Duration;

use anyhow::{Context, Result};
use perf::Seen;

use super::pair::{self, Pair};
use super::plan::Plan;
use super::report::Report;
use super::sysbench::{keep_copy, refill};
use super::systems::{self, System};
use crate::drive::sysbench::{self as tool, Script, Tables};

/// A workload: its name in the report, and its script.
struct Case {
    name: &'static str,
    script: Script<'static>,
}

const fn plain(name: &'static str) -> Case {
    Case { name, script: Script { name, options: &[] } }
}

/// Options of the script "read_only" for ranges alone: so many plain ones, and sums.
macro_rules! only_ranges {
    ($simple:literal, $sums:literal) => {
        ["--point_selects=0", $simple, $sums, "--order_ranges=0", "--distinct_ranges=0", "--skip_trx=on"]
    };
}

const fn ranges(name: &'static str, options: &'static [&'static str]) -> Case {
    Case { name, script: Script { name: "read_only", options } }
}

/// All cases. Those whose tables grow or shrink come last.
const CASES: [Case; 10] = [
    plain("point_select"),
    ranges("range", &only_ranges!("--simple_ranges=1", "--sum_ranges=0")),
    ranges("range_sum", &only_ranges!("--simple_ranges=0", "--sum_ranges=1")),
    plain("read_only"),
    plain("read_write"),
    plain("write_only"),
    plain("update_index"),
    plain("update_non_index"),
    plain("insert"),
    plain("delete"),
];

/// Runs of each case in a full run.
const ROUNDS: usize = 3;
const THREADS: u32 = 4;
/// Runs, one after the other, until one has samples enough.
const TRIES: usize = 5;
/// The script that writes the tables for a while before the first case, and its threads.
const AGING: &str = "write_only";
const AGING_THREADS: u32 = 16;
/// When a quick run begins no further case.
const QUICK_TIME: Duration = Duration::from_secs(52);
/// A run beside the time that sysbench is asked for.
const AROUND: Duration = Duration::from_millis(800);

const TIME: &str = "us_per_tx";
/// Everything but the kernel's part.
const USER: &str = "user_us";

/// All cases, one after the other.
pub fn run(plan: &Plan) -> Result<Report> {
    tool::check()?;
    let has_counters = perf::has_counters()?;
    let plan = &plan.until(QUICK_TIME);
    let tables = Tables::of_rows(plan.size(100_000, 25_000));
    let pair = Pair::start(plan, &[])?;
    let (lasting, aging) = (lasting(plan).as_secs(), Duration::from_secs(plan.size(20, 3)));
    let workload = format!(
        "CPU time of the server for a transaction of sysbench, by layer; {tables}, written for {} s by {AGING} with \
         {AGING_THREADS} threads before; {THREADS} threads, runs of {lasting} s",
        aging.as_secs()
    );
    let mut report = pair.report("layers", workload)?;
    report.note("innodb is part of mariadbd: its server_us has the engine in it".to_owned());
    if !has_counters {
        report.note("instructions and cache misses are not counted: perf says <not supported>".to_owned());
    }
    for &system in &pair.systems {
        let server = pair.of(system);
        tool::prepare(server, system.engine(), tables)?;
        keep_copy(&pair, system)?;
        plan.running(system.name(), "aging");
        tool::run(server, AGING, tables, AGING_THREADS, aging, 1)?;
    }
    Runs { plan, pair: &pair, tables, has_counters }.measure(&mut report)?;
    compare(&mut report);
    Ok(report)
}

/// Time that sysbench is asked for.
fn lasting(plan: &Plan) -> Duration {
    Duration::from_secs(plan.size(5, 1))
}

struct Runs<'a> {
    plan: &'a Plan,
    pair: &'a Pair,
    tables: Tables,
    has_counters: bool,
}

impl Runs<'_> {
    fn measure(&self, report: &mut Report) -> Result<()> {
        let systems = &self.pair.systems;
        let _watches = self.pair.watch(self.plan);
        let all = (lasting(self.plan) + AROUND) * systems.len() as u32;
        let rounds = if self.plan.quick { 1 } else { ROUNDS };
        for case in &CASES {
            if !self.plan.has_time(all) {
                report.note(format!("{}: left out, the quick run was late", case.name));
                continue;
            }
            systems::seeded_rounds(self.plan, rounds, systems, |system, seed| self.run(system, case, seed, report))?;
        }
        Ok(())
    }

    fn run(&self, system: System, case: &Case, seed: usize, report: &mut Report) -> Result<()> {
        self.plan.running(system.name(), case.name);
        let (time, seen) = (0..TRIES)
            .find_map(|_| self.sampled(system, case, seed).transpose())
            .with_context(|| format!("{}, {}: perf finds too few samples", system.name(), case.name))??;
        let mut add = |metric, unit, value| report.add(system.name(), case.name, metric, unit, value);
        let shares = seen.shares;
        add(TIME, "us", time);
        add("kernel_us", "us", shares.kernel * time);
        add("server_us", "us", shares.server * time);
        if system == System::Perdura {
            add("engine_us", "us", shares.engine * time);
        }
        add("other_us", "us", shares.other * time);
        add(USER, "us", (1.0 - shares.kernel) * time);
        if let Some(counted) = seen.counted {
            add("instructions_per_tx", "1", counted.instructions * time);
            add("cache_misses_per_tx", "1", counted.cache_misses * time);
        }
        Ok(())
    }

    /// One run: microseconds for each transaction, and what perf saw. None without samples enough.
    fn sampled(&self, system: System, case: &Case, seed: usize) -> Result<Option<(f64, Seen)>> {
        let server = self.pair.of(system);
        let (pid, lasting, has_counters) = (server.pid(), lasting(self.plan), self.has_counters);
        let (ran, seen) = std::thread::scope(|scope| {
            let samples = scope.spawn(move || {
                std::thread::sleep(lasting / 10);
                perf::watch(pid, lasting * 6 / 10, has_counters)
            });
            let run = || tool::run(server, case.script, self.tables, THREADS, lasting, seed);
            let ran = pair::server_cpu(server, run);
            (ran, samples.join().expect("the sampler does not panic"))
        });
        let ((outcome, cpu), seen) = (ran?, seen?);
        if case.name == "delete" {
            refill(self.pair, system, self.tables)?;
        }
        let time = cpu.as_secs_f64() * 1e6 / outcome.transactions as f64;
        Ok(seen.map(|seen| (time, seen)))
    }
}

/// Adds a note of what the two take outside the kernel: there the server is the same, and InnoDB
/// is not told apart from it.
fn compare(report: &mut Report) {
    let ratio = |case: &Case| {
        let ratio = report.paired("perdura", "innodb", case.name, USER, |own, peer| own / peer)?;
        Some(format!("{} {ratio:.2}", case.name))
    };
    let ratios: Vec<String> = CASES.iter().filter_map(ratio).collect();
    if !ratios.is_empty() {
        report.note(format!("{USER}, perdura / innodb: {}", ratios.join(", ")));
    }
}
