//! Benchmarks: Perdura beside its peers in the same run.
//!
//! A round runs every system once, in an order that rotates from round to round. Only ratios within
//! one run mean anything on a busy machine, so ratios are taken within each round and their median
//! is judged. A report names the machine and the medium found. It is printed and, with `--json`,
//! written as data.

mod commit;
mod decision;
mod document;
mod dram_budget;
mod engine;
mod files;
mod fk;
mod index;
mod keyed;
mod kv;
mod lanes;
mod layers;
mod load;
mod log;
mod many;
mod map;
mod mass;
mod media;
mod memory;
mod nflog;
mod pair;
mod plan;
mod point;
mod prefault;
mod primitives;
mod profile;
mod program;
mod purge;
mod recovery;
mod report;
mod restart;
mod sampling;
mod scan;
mod soak;
mod space;
mod stall;
mod switch;
mod sysbench;
mod systems;
mod tpcc;
mod tpcc_engine;
mod tpcds;
mod tpch;
mod update;
mod usl;

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use plan::Plan;
use report::Report;
use sampling::Recorder;
use serde_json::Value;

use crate::drive::plugin;
use crate::shared::args::Args;

pub use kv::{apart as kv_apart, play as floor};
pub use tpcds::run as tpcds;

const NAMES: [&str; 32] = [
    "load",
    "commit",
    "point",
    "update",
    "fk",
    "scan",
    "mass",
    "stall",
    "switch",
    "recovery",
    "restart",
    "media",
    "nflog",
    "memory",
    "space",
    "many",
    "soak",
    "engine",
    "lanes",
    "index",
    "log",
    "prefault",
    "primitives",
    "sysbench",
    "layers",
    "dram-budget",
    "tpcc",
    "tpcc-engine",
    "tpch",
    "map",
    "kv",
    "kv-soak",
];

/// Benchmarks that run without a server.
const BARE: [&str; 10] =
    ["stall", "switch", "engine", "index", "log", "primitives", "tpcc-engine", "map", "kv", "kv-soak"];

/// Hours that can be asked for.
const HOURS_MAX: f64 = 1_000.0;

fn run_one(name: &str, plan: &Plan) -> Result<Report> {
    match name {
        "load" => load::run(plan),
        "commit" => commit::run(plan),
        "point" => point::run(plan),
        "update" => update::run(plan),
        "fk" => fk::run(plan),
        "scan" => scan::run(plan),
        "mass" => mass::run(plan),
        "stall" => stall::run(plan),
        "switch" => switch::run(plan),
        "recovery" => recovery::run(plan),
        "restart" => restart::run(plan),
        "media" => media::run(plan),
        "nflog" => nflog::run(plan),
        "memory" => memory::run(plan),
        "space" => space::run(plan),
        "many" => many::run(plan),
        "soak" => soak::run(plan),
        "engine" => engine::run(plan),
        "lanes" => lanes::run(plan),
        "index" => index::run(plan),
        "log" => log::run(plan),
        "prefault" => prefault::run(plan),
        "primitives" => primitives::run(plan),
        "sysbench" => sysbench::run(plan),
        "layers" => layers::run(plan),
        "dram-budget" => dram_budget::run(plan),
        "tpcc" => tpcc::run(plan),
        "tpcc-engine" => tpcc_engine::run(plan),
        "tpch" => tpch::run(plan),
        "map" => map::run(plan),
        "kv" => kv::run(plan),
        "kv-soak" => kv::soak::run(plan),
        _ => bail!("no benchmark {name}; there are: {}, all", NAMES.join(", ")),
    }
}

/// `bench NAME|all [--quick] [--json FILE] [--series FILE] [--docs] [--peers-only]
/// [--warehouses N] [--threads N] [--seconds N] [--tables N] [--rows N] [--hours N]
/// [--before DIR]`
pub fn run(mut args: Args) -> Result<()> {
    let (quick, perdura) = (args.flag("--quick"), !args.flag("--peers-only"));
    let json: Option<PathBuf> = args.option("--json")?;
    let series: Option<PathBuf> = args.option("--series")?;
    let docs = args.flag("--docs");
    let warehouses: Option<u32> = args.option("--warehouses")?;
    let threads: Option<u32> = args.option("--threads")?;
    let seconds: Option<u64> = args.option("--seconds")?;
    let hours: Option<f64> = args.option("--hours")?;
    let tables: (Option<u32>, Option<u64>) = (args.option("--tables")?, args.option("--rows")?);
    let before: Option<PathBuf> = args.option("--before")?;
    let name = args.positional().with_context(|| format!("which benchmark? {}, all", NAMES.join(", ")))?;
    args.finish()?;
    ensure!(warehouses.is_none() || ["tpcc", "nflog"].contains(&name.as_str()), "only tpcc and nflog have warehouses");
    ensure!(
        name == "nflog" || seconds.is_none() && tables == (None, None),
        "only nflog takes the time of a run, tables and rows"
    );
    ensure!(
        threads.is_none() || ["sysbench", "nflog"].contains(&name.as_str()),
        "only sysbench and nflog have threads"
    );
    ensure!(before.is_none() || name == "kv", "only kv runs beside an earlier build");
    // It lives as long as the process.
    let before = before.map(|directory| &*Box::leak(directory.into_boxed_path()));
    ensure!(hours.is_none() || name == "soak", "only soak runs for hours");
    let is_possible = |hours: &f64| *hours > 0.0 && *hours <= HOURS_MAX;
    ensure!(hours.as_ref().is_none_or(is_possible), "--hours takes a number above 0, at most {HOURS_MAX}");
    if perdura && !BARE.contains(&name.as_str()) {
        plugin::build()?;
    }
    let names: Vec<&str> = if name == "all" { NAMES.to_vec() } else { vec![name.as_str()] };
    let (mut reports, mut all_series) = (Vec::new(), Vec::new());
    for name in names {
        // It has to outlive threads, and the process ends soon.
        let recorder = series.is_some().then(|| &*Box::leak(Box::new(Recorder::new())));
        let plan = Plan::new(quick, perdura).with_warehouses(warehouses).with_threads(threads);
        let plan = plan.with_seconds(seconds).with_hours(hours).with_tables(tables.0, tables.1);
        let plan = plan.with_before(before).with_recorder(recorder);
        let report = run_one(name, &plan)?;
        print!("{report}");
        all_series.extend(recorder.map(|recorder| report.with_series(recorder.take())));
        reports.push(report);
    }
    if let Some(path) = series {
        report::write_json(&path, &if name == "all" { all_series.into() } else { all_series.remove(0) })?;
    }
    if docs {
        document::write(&reports)?;
    }
    if let Some(path) = json {
        let mut values: Vec<Value> = reports.iter().map(Report::to_json).collect();
        report::write_json(&path, &if name == "all" { values.into() } else { values.remove(0) })?;
    }
    Ok(())
}
