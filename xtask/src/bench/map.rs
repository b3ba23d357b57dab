//! The ordered maps beside their peers: runs the program `map` of perdura-bench, judges and reports its results.
//!
//! The program's standard output has one JSON object a line (see `perdura_bench::output`). Its progress goes to our standard error.

mod quoted;
mod sweeps;
mod targets;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::plan::Plan;
use super::report::Report;
use crate::{paths, process};

/// The program's metrics and their units.
const METRICS: [(&str, &str); 17] = [
    ("ns_per_op", "ns"),
    ("persist_floor_ns", "ns"),
    ("fences_per_confirmation", "fences"),
    ("ratio", "ratio"),
    ("dram_bytes_per_key", "B"),
    ("dram_bytes_per_mib", "B"),
    ("ready_ms", "ms"),
    ("medium_ms", "ms"),
    ("p50_on_ns", "ns"),
    ("p99_on_ns", "ns"),
    ("p50_off_ns", "ns"),
    ("p99_off_ns", "ns"),
    ("used_on_mib", "MiB"),
    ("used_off_mib", "MiB"),
    ("space_ratio", "ratio"),
    ("space_collected_ratio", "ratio"),
    ("space_given_ratio", "ratio"),
];

/// Runs the program and judges what it prints.
pub fn run(plan: &Plan) -> Result<Report> {
    let lines = measure(plan)?;
    let workload = "ordered maps: inserts, reads and deletes of 10 B keys in random order, and what they cost besides";
    let medium = lines.iter().find_map(|line| line["medium"].as_str()).unwrap_or("unknown");
    let file_system = process::mount(&paths::medium()).map_or_else(|| "unknown".to_owned(), |(kind, _)| kind);
    let mut report = Report::new("map", workload.into(), format!("{medium} ({file_system})"));
    for line in &lines {
        if let Some(note) = line["note"].as_str() {
            report.note(note.to_owned());
        } else if line["metric"].is_string() {
            add(&mut report, line)?;
        }
    }
    sweeps::note_best(&mut report, &sweeps::defaults(&lines));
    targets::judge(&mut report);
    quoted::note(&mut report);
    Ok(report)
}

fn measure(plan: &Plan) -> Result<Vec<Value>> {
    let mut command = process::cargo();
    command.args(["run", "--quiet", "--release", "--package", "perdura-bench", "--bin", "map", "--"]);
    command.arg("--dir").arg(paths::medium());
    if plan.quick {
        command.arg("--quick");
    }
    if !plan.perdura {
        command.arg("--peers-only");
    }
    // libpmemobj reads this variable when it is loaded, and then treats the medium as the maps do.
    command.env("PMEM_IS_PMEM_FORCE", "1").stdout(Stdio::piped());
    let mut program = command.spawn().context("cannot run cargo")?;
    let output = BufReader::new(program.stdout.take().context("the program has no output")?);
    let lines = output.lines().map(|line| {
        let line = line?;
        serde_json::from_str(&line).with_context(|| line)
    });
    let lines: Result<Vec<Value>> = lines.collect();
    let status = program.wait()?;
    ensure!(status.success(), "the benchmark program map: {status}");
    lines
}

fn add(report: &mut Report, line: &Value) -> Result<()> {
    let text = |name: &str| line[name].as_str().with_context(|| format!("no {name}: {line}"));
    let value = line["value"].as_f64().with_context(|| format!("no value: {line}"))?;
    let name = text("metric")?;
    let (metric, unit) =
        METRICS.iter().find(|(known, _)| *known == name).with_context(|| format!("unknown: {line}"))?;
    report.add(text("system")?, text("case")?, metric, unit, value);
    Ok(())
}
