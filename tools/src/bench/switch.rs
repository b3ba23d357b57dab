//! Commits of sixteen writers while the log switches generations every few milliseconds, through
//! the engine's API: runs the program `transactions switch` of perdura-bench and judges its
//! results.

use anyhow::Result;

use super::plan::Plan;
use super::program;
use super::report::Report;

const METRICS: [(&str, &str); 3] = [("p99_us", "us"), ("max_us", "us"), ("switches_per_s", "1/s")];
/// The case of the smallest lanes.
const SMALLEST: &str = "4KiB";

/// Latencies of a commit by bytes of a lane.
pub fn run(plan: &Plan) -> Result<Report> {
    let lines = program::run("transactions", &["switch"], plan)?;
    let workload = "16 writers, each with a commit of one row every 200 us or more, by bytes of a log lane".into();
    let mut report = Report::new("switch", workload, program::medium(&lines));
    program::add(&mut report, &lines, &METRICS)?;
    let longest = report.value("perdura", SMALLEST, "max_us").map(|us| us / 1e3);
    report.at_most(&format!("{SMALLEST}: longest commit, ms"), longest, 10.0);
    report.at_least(
        &format!("{SMALLEST}: switches a second"),
        report.value("perdura", SMALLEST, "switches_per_s"),
        100.0,
    );
    Ok(report)
}
