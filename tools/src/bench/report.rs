//! The report of a benchmark, as text and as JSON: series of runs, ratios within rounds, targets
//! met or missed.

use std::fmt;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// The values of one system in one case, one for each round, in order.
pub struct Series {
    /// Lower-case name of the system.
    pub system: String,
    /// Variant of the workload.
    pub case: String,
    /// The metric, such as `time_s`.
    pub metric: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// One value for each round. None if the system does not support the case.
    pub runs: Vec<f64>,
}

/// How a report marks a series without values.
pub const NOT_SUPPORTED: &str = "not supported";

/// Names a series: its system, case and metric.
pub type Name<'a> = (&'a str, &'a str, &'a str);

impl Series {
    /// The median of the runs.
    pub fn median(&self) -> f64 {
        median(&self.runs)
    }
}

/// A target of the project.
pub struct Target {
    /// The figure judged, and its bound.
    pub text: String,
    /// The measured figure.
    pub found: f64,
    /// Whether it is within the bound.
    pub met: bool,
}

/// The outcome of a benchmark.
pub struct Report {
    /// Name of the benchmark.
    pub bench: &'static str,
    /// The workload.
    pub workload: String,
    /// The medium of the data.
    pub medium: String,
    /// All series.
    pub series: Vec<Series>,
    /// The targets judged.
    pub targets: Vec<Target>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

/// The median; 0 if there are no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

impl Report {
    /// An empty report.
    pub fn new(bench: &'static str, workload: String, medium: String) -> Self {
        Self { bench, workload, medium, series: Vec::new(), targets: Vec::new(), notes: Vec::new() }
    }

    /// Adds one round's value to its series, which begins with the first value.
    pub fn add(&mut self, system: &str, case: &str, metric: &'static str, unit: &'static str, value: f64) {
        let found = self.series.iter_mut().find(|s| s.system == system && s.case == case && s.metric == metric);
        match found {
            Some(series) => series.runs.push(value),
            None => {
                self.series.push(Series { system: system.into(), case: case.into(), metric, unit, runs: vec![value] })
            }
        }
    }

    /// Adds a series without values: the system does not support the case.
    pub fn not_supported(&mut self, system: &str, case: &str, metric: &'static str, unit: &'static str) {
        self.series.push(Series { system: system.into(), case: case.into(), metric, unit, runs: Vec::new() });
    }

    /// Adds a line of explanation.
    pub fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    fn find(&self, system: &str, case: &str, metric: &str) -> Option<&Series> {
        self.series.iter().find(|s| s.system == system && s.case == case && s.metric == metric)
    }

    /// Keeps, of two set-ups of a peer, the one with the lower median in each case, under the name
    /// `peer`.
    pub fn keep_better(&mut self, peer: &str, variant: &str) {
        let losers: Vec<(usize, String)> = (0..self.series.len())
            .filter(|&index| self.series[index].system == variant)
            .filter_map(|index| {
                let other = &self.series[index];
                let usual = self
                    .series
                    .iter()
                    .position(|s| s.system == peer && s.case == other.case && s.metric == other.metric)?;
                let (usual_median, other_median) = (self.series[usual].median(), other.median());
                let better = if usual_median <= other_median { peer } else { variant };
                let text = format!(
                    "{peer}, {}: {usual_median:.3} {unit}; {variant}: {other_median:.3} {unit}; reported: {better}",
                    other.case,
                    unit = other.unit,
                );
                Some((if better == peer { index } else { usual }, text))
            })
            .collect();
        let mut indexes: Vec<usize> = losers.iter().map(|(index, _)| *index).collect();
        indexes.sort_unstable();
        for index in indexes.into_iter().rev() {
            self.series.remove(index);
        }
        self.notes.extend(losers.into_iter().map(|(_, text)| text));
        for series in self.series.iter_mut().filter(|series| series.system == variant) {
            series.system = peer.to_owned();
        }
    }

    /// Median of `combine(system's value, peer's value)` taken within each round.
    pub fn paired(
        &self,
        system: &str,
        peer: &str,
        case: &str,
        metric: &str,
        combine: fn(f64, f64) -> f64,
    ) -> Option<f64> {
        self.paired_series((system, case, metric), (peer, case, metric), combine)
    }

    /// Median over the rounds of `combine` of two metrics of the same system and case.
    pub fn paired_metrics(
        &self,
        system: &str,
        case: &str,
        metrics: (&str, &str),
        combine: fn(f64, f64) -> f64,
    ) -> Option<f64> {
        self.paired_series((system, case, metrics.0), (system, case, metrics.1), combine)
    }

    /// Median over the rounds of `combine` of the values of two series.
    pub fn paired_series(&self, first: Name, second: Name, combine: fn(f64, f64) -> f64) -> Option<f64> {
        let (first, second) = (self.find(first.0, first.1, first.2)?, self.find(second.0, second.1, second.2)?);
        let pairs: Vec<f64> = first.runs.iter().zip(&second.runs).map(|(a, b)| combine(*a, *b)).collect();
        (!pairs.is_empty()).then(|| median(&pairs))
    }

    /// The values of a series, in order.
    pub fn runs(&self, system: &str, case: &str, metric: &str) -> Option<&[f64]> {
        self.find(system, case, metric).map(|series| series.runs.as_slice())
    }

    /// The median of a series.
    pub fn value(&self, system: &str, case: &str, metric: &str) -> Option<f64> {
        self.find(system, case, metric).filter(|series| !series.runs.is_empty()).map(Series::median)
    }

    /// Judges `found`, if there is a value, against an upper bound.
    pub fn at_most(&mut self, text: &str, found: Option<f64>, limit: f64) {
        if let Some(found) = found {
            self.targets.push(Target { text: format!("{text} at most {limit}"), found, met: found <= limit });
        }
    }

    /// Judges `found`, if there is a value, against a lower bound.
    pub fn at_least(&mut self, text: &str, found: Option<f64>, limit: f64) {
        if let Some(found) = found {
            self.targets.push(Target { text: format!("{text} at least {limit}"), found, met: found >= limit });
        }
    }

    /// The samples that were taken meanwhile, as JSON, with what they are of.
    pub fn with_series(&self, series: Vec<Value>) -> Value {
        json!({"bench": self.bench, "machine": crate::shared::process::machine(), "medium": self.medium,
               "workload": self.workload, "series": series})
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let results: Vec<Value> = self
            .series
            .iter()
            .map(|s| {
                let value = if s.runs.is_empty() { NOT_SUPPORTED.into() } else { json!(s.median()) };
                json!({"system": s.system, "case": s.case, "metric": s.metric, "unit": s.unit,
                       "value": value, "runs": s.runs})
            })
            .collect();
        let targets: Vec<Value> =
            self.targets.iter().map(|t| json!({"target": t.text, "value": t.found, "met": t.met})).collect();
        json!({"bench": self.bench, "machine": crate::shared::process::machine(), "medium": self.medium,
               "workload": self.workload, "results": results, "targets": targets, "notes": self.notes})
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{}: {}", self.bench, self.workload)?;
        writeln!(f, "machine: {}", crate::shared::process::machine())?;
        writeln!(f, "medium: {}", self.medium)?;
        let first = |series: &Series| self.series.iter().find(|s| s.case == series.case && s.metric == series.metric);
        writeln!(
            f,
            "{:<26} {:<12} {:<20} {:>12} {:>12} {:>12} {:>10}",
            "case", "system", "metric", "median", "least", "most", "ratio"
        )?;
        for series in &self.series {
            if series.runs.is_empty() {
                writeln!(f, "{:<26} {:<12} {:<20} {NOT_SUPPORTED:>12}", series.case, series.system, series.metric)?;
                continue;
            }
            let (least, most) = series.runs.iter().fold((f64::MAX, f64::MIN), |(l, m), &run| (l.min(run), m.max(run)));
            let base = first(series).filter(|base| base.runs.len() == series.runs.len());
            let ratio = base
                .and_then(|base| self.paired(&series.system, &base.system, &series.case, series.metric, |a, b| a / b));
            let ratio = ratio.filter(|ratio| ratio.is_finite()).map_or_else(String::new, |ratio| format!("{ratio:.2}"));
            writeln!(
                f,
                "{:<26} {:<12} {:<20} {:>12.3} {least:>12.3} {most:>12.3} {ratio:>10}",
                series.case,
                series.system,
                series.metric,
                series.median()
            )?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        for target in &self.targets {
            let verdict = if target.met { "met" } else { "MISSED" };
            writeln!(f, "target: {}: {:.2} ({verdict})", target.text, target.found)?;
        }
        Ok(())
    }
}

/// Writes reports as JSON to a file.
pub fn write_json(path: &Path, value: &Value) -> Result<()> {
    let file = File::create(path).with_context(|| path.display().to_string())?;
    Ok(serde_json::to_writer_pretty(file, value)?)
}

#[cfg(test)]
mod tests {
    use super::{Report, median};

    #[test]
    fn median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        let mut report = Report::new("test", String::new(), String::new());
        for (own, peer) in [(1.0, 2.0), (10.0, 40.0), (3.0, 6.0)] {
            report.add("perdura", "a", "time_s", "s", own);
            report.add("innodb", "a", "time_s", "s", peer);
        }
        assert_eq!(report.paired("perdura", "innodb", "a", "time_s", |own, peer| peer / own), Some(2.0));
        assert_eq!(report.paired("perdura", "memory", "a", "time_s", |own, peer| peer / own), None);
    }

    /// A checker that reads the JSON must not take a case that did not run for one that took no
    /// time.
    #[test]
    fn a_case_that_is_not_supported_has_no_value() {
        let mut report = Report::new("test", String::new(), String::new());
        report.not_supported("perdura", "limit", "dram_bytes", "B");
        assert_eq!(report.value("perdura", "limit", "dram_bytes"), None);
        assert_eq!(report.to_json()["results"][0]["value"], "not supported");
        report.at_most("limit", report.value("perdura", "limit", "dram_bytes"), 1.0);
        assert!(report.targets.is_empty());
        assert!(report.to_string().contains("not supported"));
    }

    #[test]
    fn the_better_variant_of_a_peer_is_kept() {
        let mut report = Report::new("test", String::new(), String::new());
        report.add("innodb", "a", "time_s", "s", 2.0);
        report.add("innodb_pwrite", "a", "time_s", "s", 1.0);
        report.add("innodb", "b", "time_s", "s", 1.0);
        report.add("innodb_pwrite", "b", "time_s", "s", 2.0);
        report.keep_better("innodb", "innodb_pwrite");
        let json = report.to_json();
        let values: Vec<_> =
            json["results"].as_array().unwrap().iter().map(|r| (r["system"].clone(), r["value"].clone())).collect();
        assert_eq!(values, [("innodb".into(), 1.0.into()), ("innodb".into(), 1.0.into())]);
    }
}
