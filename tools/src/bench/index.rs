//! An index of the engine beside ordered maps in DRAM, through the engine's API: runs the program
//! `index` of perdura-bench and judges its results.

use anyhow::Result;

use super::plan::Plan;
use super::program;
use super::report::{Report, Series};

const METRICS: [(&str, &str); 2] = [(JUDGED, "ns"), ("cpu_ns_per_op", "ns")];
/// The metric that has targets.
const JUDGED: &str = "ns_per_op";
/// The B-tree in DRAM by which the index is judged.
const PEER: &str = "scc_treeindex";
/// Most that an operation may take, in times of the peer's.
const TARGETS: [(&str, f64); 2] = [("insert", 2.5), ("lookup", 1.5)];

/// Nanoseconds an operation, by length of key, number of keys and threads.
pub fn run(plan: &Plan) -> Result<Report> {
    let words: &[&str] = if plan.perdura { &[] } else { &["--peers-only"] };
    let lines = program::run("index", words, plan)?;
    let workload = "a unique index: keys inserted (with a row of 16 bytes, 1000 in a transaction) and looked up in random orders, \
                    and read in ranges of 100";
    let mut report = Report::new("index", workload.into(), program::medium(&lines));
    program::add(&mut report, &lines, &METRICS)?;
    for (operation, most) in TARGETS {
        let is_judged = |series: &&Series| {
            series.system == PEER && series.metric == JUDGED && series.case.split('/').next() == Some(operation)
        };
        let cases: Vec<String> = report.series.iter().filter(is_judged).map(|series| series.case.clone()).collect();
        for case in cases {
            let ratio = report.paired("perdura", PEER, &case, JUDGED, |own, peer| own / peer);
            report.at_most(&format!("{case}: perdura / {PEER}"), ratio, most);
        }
    }
    for case in ["insert/8B/1M/1t", "insert/40B/1M/1t"] {
        let index = report.paired("perdura", "rows_alone", case, JUDGED, |own, rows| own - rows);
        if let Some(ns) = index {
            report.note(format!("{case}: {ns:.0} ns are the index', the rest is the row's"));
        }
    }
    Ok(report)
}
