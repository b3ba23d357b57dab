//! The programs of perdura-bench: runs one and reads its results.
//!
//! A program's standard output has one JSON object a line (see `perdura_bench::output`). Its
//! progress goes to our standard error.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::plan::Plan;
use super::report::Report;
use crate::shared::{paths, process};

/// Programs that sample themselves if they are asked to.
const SAMPLED: [&str; 4] = ["lanes", "log", "transactions", "tpcc"];

/// Runs the program `name` with `words`, and with the options that all programs take. Returns its
/// lines.
pub fn run(name: &str, words: &[&str], plan: &Plan) -> Result<Vec<Value>> {
    run_within(&[], name, words, &paths::medium(), plan)
}

/// As [`run`], with its files below `directory`, as the command that `within` precedes.
pub fn run_within(within: &[&str], name: &str, words: &[&str], directory: &Path, plan: &Plan) -> Result<Vec<Value>> {
    let cargo = process::cargo();
    let mut command = match within.split_first() {
        None => cargo,
        Some((program, rest)) => {
            let mut command = Command::new(program);
            command.args(rest).arg(cargo.get_program()).current_dir(paths::top());
            command
        }
    };
    command.args(["run", "--quiet", "--release", "--package", "perdura-bench", "--bin", name, "--"]).args(words);
    command.arg("--dir").arg(directory);
    if plan.quick {
        command.arg("--quick");
    }
    if plan.recorder.is_some() && SAMPLED.contains(&name) {
        command.arg("--series");
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
    ensure!(status.success(), "the benchmark program {name}: {status}");
    let mut lines = lines?;
    if let Some(recorder) = plan.recorder.filter(|_| SAMPLED.contains(&name)) {
        recorder.take_samples(&[name].iter().chain(words).copied().collect::<Vec<_>>().join(" "), &mut lines);
    }
    Ok(lines)
}

/// The medium that the program names.
pub fn medium(lines: &[Value]) -> String {
    let medium = lines.iter().find_map(|line| line["medium"].as_str()).unwrap_or("unknown");
    let file_system = process::mount(&paths::medium()).map_or_else(|| "unknown".to_owned(), |(kind, _)| kind);
    format!("{medium} ({file_system})")
}

/// Adds the values and notes of all lines. `metrics` has each metric that there may be, with its
/// unit.
pub fn add(report: &mut Report, lines: &[Value], metrics: &[(&'static str, &'static str)]) -> Result<()> {
    for line in lines {
        if let Some(note) = line["note"].as_str() {
            report.note(note.to_owned());
        } else if line["metric"].is_string() {
            add_value(report, line, metrics)?;
        }
    }
    Ok(())
}

fn add_value(report: &mut Report, line: &Value, metrics: &[(&'static str, &'static str)]) -> Result<()> {
    let text = |name: &str| line[name].as_str().with_context(|| format!("no {name}: {line}"));
    let value = line["value"].as_f64().with_context(|| format!("no value: {line}"))?;
    let name = text("metric")?;
    let (metric, unit) =
        metrics.iter().find(|(known, _)| *known == name).with_context(|| format!("unknown: {line}"))?;
    report.add(text("system")?, text("case")?, metric, unit, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Report, add};

    /// A program's new metric that nobody declared would otherwise vanish from the report.
    #[test]
    fn a_metric_that_nobody_declared_is_refused() {
        let line = |metric: &str| [json!({"system": "s", "case": "c", "metric": metric, "value": 2.0})];
        let mut report = Report::new("test", String::new(), String::new());
        add(&mut report, &line("max_us"), &[("max_us", "us")]).unwrap();
        assert_eq!(report.value("s", "c", "max_us"), Some(2.0));
        assert!(add(&mut report, &line("max_ns"), &[("max_us", "us")]).is_err());
    }
}
