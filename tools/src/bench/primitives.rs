//! Durable writes of the medium without an engine, and the models of media: runs the program
//! `primitives` of perdura-bench and judges its results.

use anyhow::Result;

use super::plan::Plan;
use super::program;
use super::report::Report;

const METRICS: [(&str, &str); 5] =
    [("ns_per_op", "ns"), ("gb_per_s", "GB/s"), ("added_ns", "ns"), ("charged_ns", "ns"), (DEVIATION, "percent")];
/// How far a model is from the time that it charges.
const DEVIATION: &str = "deviation_percent";
const DEVIATION_MOST: f64 = 10.0;

/// Nanoseconds a write by size, order and threads, and how true the models are.
pub fn run(plan: &Plan) -> Result<Report> {
    let lines = program::run("primitives", &[], plan)?;
    let workload = "durable writes in files of their own by size, order and threads; copies; models of media beside what they charge";
    let mut report = Report::new("primitives", workload.into(), program::medium(&lines));
    program::add(&mut report, &lines, &METRICS)?;
    let models: Vec<(String, String)> = report
        .series
        .iter()
        .filter(|series| series.metric == DEVIATION)
        .map(|series| (series.system.clone(), series.case.clone()))
        .collect();
    for (system, case) in models {
        let found = report.value(&system, &case, DEVIATION);
        report.at_most(&format!("{case}, modelled {system}: deviation, percent"), found, DEVIATION_MOST);
    }
    Ok(report)
}
