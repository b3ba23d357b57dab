//! The ordered maps beside their peers: runs the program `map` of perdura-bench, judges and reports
//! its results.

mod quoted;
mod sweeps;
mod targets;

use anyhow::Result;

use super::plan::Plan;
use super::program;
use super::report::Report;

/// The program's metrics and their units.
const METRICS: [(&str, &str); 19] = [
    ("ns_per_op", "ns"),
    ("persist_floor_ns", "ns"),
    ("fences_per_persist", "fences"),
    ("ratio", "ratio"),
    ("dram_bytes_per_key", "B"),
    ("dram_bytes_per_mib", "B"),
    ("ready_ms", "ms"),
    ("medium_ms", "ms"),
    ("worst_us", "us"),
    ("p999_us", "us"),
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
    let words: &[&str] = if plan.perdura { &[] } else { &["--peers-only"] };
    let lines = program::run("map", words, plan)?;
    let workload = "ordered maps: inserts, reads and deletes of 10 B keys in random order, and what they cost besides";
    let mut report = Report::new("map", workload.into(), program::medium(&lines));
    program::add(&mut report, &lines, &METRICS)?;
    sweeps::note_best(&mut report, &sweeps::defaults(&lines));
    targets::judge(&mut report);
    quoted::note(&mut report);
    Ok(report)
}
