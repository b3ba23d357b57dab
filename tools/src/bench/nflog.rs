//! The ways to the log beside one another and beside InnoDB's own: the experiments of *NF-log* (SNU
//! 2022, chapter 3) with sysbench and TPC-C, on the medium of `PERDURA_DIR`.
//!
//! A case is a number of threads of write_only. Full runs have more, at 8 threads: `read_write/8`
//! and `read_only/8`; `tpcc/8` and the thesis' two mixes; `wa/N`, granularities of the write-ahead;
//! `8/optane`, write_only on memory that takes the time of Optane; `commit/N`, commits of N threads
//! on the log alone.

mod side;

use std::time::Duration;

use anyhow::Result;
use perdura_tpcc::{MIX, Mix};
use side::{BYTES, CPU, LOG_BYTES, Side, TPS};

use super::plan::Plan;
use super::program;
use super::report::Report;
use super::systems;
use crate::drive::sysbench::{self, Tables};

/// Name of each system, and its settings.
const PATHS: [(&str, &str); 6] = [
    ("classic", "--perdura-log-path=classic"),
    ("persist", "--perdura-log-path=persist"),
    ("wa512", "--perdura-log-path=write_ahead"),
    ("local", "--perdura-log-path=local"),
    ("nf", "--perdura-log-path=nf"),
    ("direct", "--perdura-log-path=direct"),
];
const OPTANE: &str = "--perdura-emulate-model=optane";
/// Word of a medium that can take the time of another.
const EMULATED: &str = "mode emulated";
const THREADS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Threads of a quick run, and of all cases but those of write_only.
const JUDGED: u32 = 8;
/// Granularities of the sweep in bytes.
const SWEEP: [u32; 5] = [256, 512, 1024, 2048, 4096];
/// Systems that run TPC-C, which the thesis has for all its parts together only.
const WHOLE: [&str; 4] = ["innodb", "classic", "nf", "direct"];
/// Mixes of TPC-C, the thesis' in tenths of a percent (3.3, figures 3.6 and 3.7).
const MIXES: [(&str, Mix); 3] =
    [("tpcc/8", MIX), ("tpcc-delivery-stock/8", [28, 28, 28, 450, 450]), ("tpcc-delivery/8", [55, 55, 0, 890, 0])];
/// When a quick run begins no further round.
const QUICK_TIME: Duration = Duration::from_secs(42);
const ROUNDS: usize = 3;

/// All cases.
pub fn run(plan: &Plan) -> Result<Report> {
    sysbench::check()?;
    let plan = &plan.until(QUICK_TIME);
    let tables = plan.tables(Tables::of_rows(plan.size(100_000, 5_000)));
    let mut sides = vec![Side::innodb(plan, tables)?];
    if plan.perdura {
        for (name, setting) in PATHS {
            sides.push(Side::perdura(plan, name, &[setting], tables)?);
        }
    }
    let warehouses = plan.warehouses.unwrap_or(1);
    let medium = systems::medium(&sides.last().expect("InnoDB takes part").server)?;
    let workload = format!(
        "sysbench, {tables}, and TPC-C, {warehouses} warehouses; runs of {} s; cases: threads of write_only, \
         SCRIPT/THREADS, wa/GRANULARITY",
        plan.lasting().as_secs()
    );
    let is_emulated = medium.contains(EMULATED);
    let mut report = Report::new("nflog", workload, medium);
    let mapped = sides[0].server.log().contains("(memory-mapped)");
    report.note(format!("innodb: redo log {}", if mapped { "memory-mapped" } else { "written by pwrite" }));
    if numa_nodes() < 2 {
        report.note("local: this machine has one NUMA node, so no thread is pinned".to_owned());
    }
    let wanted = |threads: &u32| plan.threads.map_or(!plan.quick || *threads == JUDGED, |wanted| wanted == *threads);
    for threads in THREADS.into_iter().filter(wanted) {
        let case = threads.to_string();
        rounds(plan, &mut sides, |side, round| {
            side.sysbench(plan, &case, ("write_only", threads), round, &mut report)
        })?;
    }
    if !plan.quick {
        at_eight_threads(plan, warehouses, &mut sides, &mut report)?;
        drop(sides);
        if plan.perdura {
            let lines = program::run("log", &["paths"], plan)?;
            program::add(&mut report, &lines, &[(TPS, "1/s"), (CPU, "us")])?;
            others(plan, tables, is_emulated, &mut report)?;
        }
    }
    judge(&mut report);
    Ok(report)
}

/// Runs each side once a round, in an order that rotates.
fn rounds(plan: &Plan, sides: &mut [Side], mut run: impl FnMut(&mut Side, usize) -> Result<()>) -> Result<()> {
    let count = sides.len();
    for round in 0..if plan.quick { 1 } else { ROUNDS } {
        // sysbench takes 0 for no seed.
        (0..count).try_for_each(|turn| run(&mut sides[(turn + round) % count], round + 1))?;
    }
    Ok(())
}

/// The other scripts, and TPC-C.
fn at_eight_threads(plan: &Plan, warehouses: u32, sides: &mut [Side], report: &mut Report) -> Result<()> {
    for script in ["read_write", "read_only"] {
        let case = format!("{script}/{JUDGED}");
        rounds(plan, sides, |side, round| side.sysbench(plan, &case, (script, JUDGED), round, report))?;
    }
    let is_whole = |side: &Side| WHOLE.contains(&side.name.as_str());
    sides.iter_mut().filter(|side| is_whole(side)).try_for_each(|side| side.load_company(warehouses))?;
    for (case, mix) in MIXES {
        rounds(plan, sides, |side, round| match is_whole(side) {
            true => side.tpcc(plan, case, (JUDGED, mix), round, report),
            false => Ok(()),
        })?;
    }
    Ok(())
}

/// Servers with other settings: the model of Optane, and the granularities of the write-ahead.
fn others(plan: &Plan, tables: Tables, is_emulated: bool, report: &mut Report) -> Result<()> {
    let mut run = |name: &str, settings: &[&str], case: &str| -> Result<()> {
        let mut side = Side::perdura(plan, name, settings, tables)?;
        (1..=ROUNDS).try_for_each(|round| side.sysbench(plan, case, ("write_only", JUDGED), round, report))
    };
    if is_emulated {
        for (name, setting) in PATHS {
            run(name, &[setting, OPTANE], "8/optane")?;
        }
    }
    for bytes in SWEEP {
        let size = format!("--perdura-log-write-ahead-size={bytes}");
        let nf = "--perdura-log-path=nf";
        run("wa", &["--perdura-log-path=write_ahead", &size], &format!("wa/{bytes}"))?;
        run("nf", &[nf, &size], &format!("wa/{bytes}"))?;
        if is_emulated {
            run("nf", &[nf, &size, OPTANE], &format!("wa/{bytes}/optane"))?;
        }
    }
    Ok(())
}

/// NUMA nodes that the system tells of.
fn numa_nodes() -> usize {
    let nodes = std::fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    nodes.filter(|entry| entry.file_name().to_string_lossy().starts_with("node")).count()
}

fn judge(report: &mut Report) {
    let ratio = |report: &Report, (first, second): (&str, &str), case: &str, metric| {
        report.paired(first, second, case, metric, |first, second| first / second)
    };
    for threads in THREADS {
        let case = threads.to_string();
        let found = ratio(report, ("persist", "classic"), &case, TPS);
        report.at_least(&format!("{case}: tps, persist / classic"), found, 0.97);
    }
    let found = ratio(report, ("classic", "innodb"), "8", TPS);
    report.at_least("8: tps, classic / innodb", found, 0.9);
    let found = ratio(report, ("direct", "classic"), "read_only/8", TPS);
    report.at_least("read_only/8: tps, direct / classic", found, 0.97);
    for case in ["8", "8/optane"] {
        let of = |first| ratio(report, (first, "classic"), case, TPS);
        let found = of("direct").zip(of("nf")).map(|(direct, nf)| direct / nf);
        report.at_least(&format!("{case}: tps, (direct / classic) / (nf / classic)"), found, 1.0);
    }
    for (first, most) in [("nf", 0.7), ("direct", 0.5)] {
        for (metric, of) in [(BYTES, "bytes to the medium"), (LOG_BYTES, "those of the log alone")] {
            let found = ratio(report, (first, "classic"), "8", metric);
            report.at_most(&format!("8: {of} a transaction, {first} / classic"), found, most);
        }
    }
    let found = ratio(report, ("nf", "classic"), "8", CPU);
    report.at_most("8: CPU a transaction, nf / classic", found, 1.0);
}
