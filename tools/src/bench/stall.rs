//! Small commits beside the commit of a large transaction, through the engine's API: runs the
//! program `transactions stall` of perdura-bench and judges its results.
//!
//! Without a server there is only one thread for each of the two, so on a small machine little but
//! the engine can hold a commit up.

use anyhow::Result;

use super::plan::Plan;
use super::program;
use super::report::Report;

const METRICS: [(&str, &str); 3] = [("p99_us", "us"), ("max_us", "us"), ("commit_ms", "ms")];

/// Latencies of the cases alone and beside, from the time that each commit was due.
pub fn run(plan: &Plan) -> Result<Report> {
    let lines = program::run("transactions", &["stall"], plan)?;
    let workload = format!(
        "a commit of one row every 500 us, alone and beside the commit of {} updated rows",
        plan.size(1_000_000, 500_000)
    );
    let mut report = Report::new("stall", workload, program::medium(&lines));
    program::add(&mut report, &lines, &METRICS)?;
    let slower =
        report.paired_series(("perdura", "beside", "p99_us"), ("perdura", "alone", "p99_us"), |beside, alone| {
            beside / alone
        });
    report.at_most("p99: beside / alone", slower, 3.0);
    let most = report.value("perdura", "beside", "max_us").map(|us| us / 1e3);
    report.at_most("beside: max, ms", most, 20.0);
    Ok(report)
}
