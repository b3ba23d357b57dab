//! Rows a second through the engine's API, without SQL: runs a program of the engine's crate and
//! reports its results.
//!
//! The program is the example `throughput` of perdura-engine. Its standard output has one JSON
//! object a line: `{"system", "case", "metric", "unit", "value"}` for each value of each round, and
//! `{"medium": "..."}`, which names the medium. Any other line is an error.

use anyhow::{Context, Result};
use serde_json::Value;

use super::plan::Plan;
use super::report::{Report, Series};
use super::usl::Usl;
use crate::shared::{paths, process};

const RATE: &str = "rows_per_s";

/// Reports `rows_per_s` by threads, the ratio to a memcpy of the same bytes, and what fits the
/// growth with threads: `serial_fraction` and, where there are processors enough, `coherence`.
pub fn run(plan: &Plan) -> Result<Report> {
    let mut command = process::cargo();
    command.args(["run", "--quiet", "--release", "--package", "perdura-engine", "--example", "throughput", "--"]);
    command.arg("--dir").arg(paths::medium());
    if plan.quick {
        command.arg("--quick");
    }
    let text = process::output(&mut command)?;
    let lines = text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned()));
    let lines: Vec<Value> = lines.collect::<Result<_>>()?;
    let medium = lines.iter().find_map(|line| line["medium"].as_str()).unwrap_or("unknown");
    let mut report =
        Report::new("engine", "inserts through the crate API, and a memcpy of the same bytes".into(), medium.into());
    for line in lines.iter().filter(|line| line["medium"].is_null()) {
        let text = |name: &str| line[name].as_str().with_context(|| format!("no {name}: {line}"));
        let value = line["value"].as_f64().with_context(|| format!("no value: {line}"))?;
        report.add(text("system")?, text("case")?, RATE, "rows/s", value);
    }
    for system in ["perdura", "memcpy"] {
        fit(&mut report, system);
    }
    for case in ["1 thread", "2 threads"] {
        if let Some(ratio) = report.paired("perdura", "memcpy", case, RATE, |own, copy| own / copy) {
            report.note(format!("{case}: perdura / memcpy {ratio:.3}"));
        }
    }
    Ok(report)
}

/// Adds what the universal scalability law says of each round.
fn fit(report: &mut Report, system: &str) {
    let is_rate = |series: &&Series| series.system == system && series.metric == RATE;
    let threads = |series: &Series| series.case.split(' ').next()?.parse().ok();
    let measured: Vec<(u32, Vec<f64>)> = report
        .series
        .iter()
        .filter(is_rate)
        .filter_map(|series| Some((threads(series)?, series.runs.clone())))
        .collect();
    let rounds = measured.iter().map(|(_, runs)| runs.len()).min().unwrap_or_default();
    for round in 0..rounds {
        let points: Vec<(u32, f64)> = measured.iter().map(|(threads, runs)| (*threads, runs[round])).collect();
        let Some(law) = Usl::fit(&points) else { return };
        report.add(system, "usl", "serial_fraction", "1", law.serial);
        if points.len() > 2 {
            report.add(system, "usl", "coherence", "1", law.coherence);
        }
    }
}
