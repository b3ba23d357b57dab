//! TPC-C's transactions through the engine's API, beside the same on ordered maps in DRAM: runs the
//! program `tpcc` of perdura-bench and judges its results.

use anyhow::Result;

use super::plan::Plan;
use super::program;
use super::report::Report;

const METRICS: [(&str, &str); 4] = [(TPS, "1/s"), (CPU, "us"), ("us_per_tx", "us"), ("retries_per_1000_tx", "1")];
const TPS: &str = "tps";
const CPU: &str = "cpu_us_per_tx";
/// Falcon's best figures (SOSP'23), on Optane: transactions a second by threads.
const FALCON: [(u32, f64); 2] = [(1, 38_300.0), (48, 793_000.0)];

/// Transactions a second, by threads.
pub fn run(plan: &Plan) -> Result<Report> {
    let words: &[&str] = if plan.perdura { &[] } else { &["--peers-only"] };
    let lines = program::run("tpcc", words, plan)?;
    let workload =
        "TPC-C through the crate API, without think times, at snapshot isolation, a warehouse a thread; N/10w: ten";
    let mut report = Report::new("tpcc-engine", workload.into(), program::medium(&lines));
    program::add(&mut report, &lines, &METRICS)?;
    for case in ["1", "1/10w"] {
        let ratio = report.paired("perdura", "btreemap", case, TPS, |own, peer| own / peer);
        report.at_least(&format!("{case}: perdura / btreemap"), ratio, 0.4);
    }
    if let Some(tps) = report.value("perdura", "1", TPS) {
        let falcon = FALCON.map(|(threads, tps)| format!("{:.1} k with {threads}", tps / 1e3)).join(", ");
        report.note(format!("one thread: {:.1} k a second; Falcon on Optane: {falcon}", tps / 1e3));
    }
    Ok(report)
}
