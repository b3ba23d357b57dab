//! The log without a server: runs the program `log` of perdura-bench and judges its results.

use anyhow::Result;

use super::plan::Plan;
use super::program;
use super::report::Report;

const METRICS: [(&str, &str); 9] = [
    (APPEND, "ns"),
    (FLOOR, "ns"),
    ("part_ns", "ns"),
    ("p50_ns", "ns"),
    ("p99_ns", "ns"),
    ("fences", "fences"),
    ("lines_flushed", "lines"),
    ("nt_bytes", "B"),
    ("clock_ns", "ns"),
];
const APPEND: &str = "ns_per_append";
const FLOOR: &str = "floor_ns";
const SYSTEM: &str = "perdura";
/// Most that an append of one thread may take, in times of the floor.
const TARGET: f64 = 1.3;

/// Nanoseconds an append, by threads, beside the floor; and the latency of a commit.
pub fn run(plan: &Plan) -> Result<Report> {
    let lines = program::run("log", &[], plan)?;
    let workload =
        "records of 128 bytes appended and persisted, beside a copy and a fence of the same bytes; commits of one row";
    let mut report = Report::new("log", workload.into(), program::medium(&lines));
    program::add(&mut report, &lines, &METRICS)?;
    for threads in ["1", "2", "3", "4"] {
        let ratio = report.paired_metrics(SYSTEM, threads, (APPEND, FLOOR), |append, floor| append / floor);
        match (threads, ratio) {
            ("1", ratio) => report.at_most("1: append / floor", ratio, TARGET),
            (_, Some(ratio)) => report.note(format!("{threads} threads: append / floor {ratio:.2}")),
            _ => {}
        }
    }
    for metric in ["p50_ns", "p99_ns"] {
        let beyond =
            report.paired_series((SYSTEM, "commit/both", metric), (SYSTEM, "1", FLOOR), |commit, floor| commit - floor);
        if let Some(beyond) = beyond {
            report.note(format!("a transaction of one row: {metric} {beyond:.0} beyond the floor"));
        }
    }
    Ok(report)
}
