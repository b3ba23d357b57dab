//! Results of the last full run of a benchmark, `docs/benchmarks/NAME.json`: median, least and most
//! by system, case and metric. `bench --docs` writes it, and pictures are drawn from it.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// Digits that are kept of a value; no run repeats the fourth.
const DIGITS: usize = 4;

/// A benchmark's results.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Name of the benchmark.
    pub bench: String,
    /// The machine.
    pub machine: String,
    /// The medium.
    pub medium: String,
    /// The workload.
    pub workload: String,
    /// One for each series of runs.
    pub results: Vec<Outcome>,
}

/// The values of one metric of one system in one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Lower-case name of the system.
    pub system: String,
    /// Variant of the workload.
    pub case: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The median of the runs.
    pub median: f64,
    /// The least of them, if known.
    pub least: Option<f64>,
    /// The most of them, if known.
    pub most: Option<f64>,
}

impl Kept {
    /// Reads a file. Errors name it, and the place in it.
    pub fn read(path: &Path) -> Result<Self> {
        let named = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(named)?;
        Self::parse(&text).with_context(|| format!("{}: write it anew with `cargo xtask bench --docs`", named()))
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let word = |name: &str| text_of(&value, name);
        let results = value["results"].as_array().context("no list \"results\"")?;
        let results = results.iter().enumerate();
        let results =
            results.map(|(number, result)| Outcome::parse(result).with_context(|| format!("results[{number}]")));
        Ok(Self {
            bench: word("bench")?,
            machine: word("machine")?,
            medium: word("medium")?,
            workload: word("workload")?,
            results: results.collect::<Result<_>>()?,
        })
    }

    /// The text of the file, a line for each result.
    pub fn to_text(&self) -> String {
        let mut text = String::from("{\n");
        for (name, value) in
            [("bench", &self.bench), ("machine", &self.machine), ("medium", &self.medium), ("workload", &self.workload)]
        {
            writeln!(text, "\"{name}\": {},", json!(value)).expect("a string takes all");
        }
        let results: Vec<String> = self.results.iter().map(Outcome::to_text).collect();
        writeln!(text, "\"results\": [\n{}\n]\n}}", results.join(",\n")).expect("a string takes all");
        text
    }

    /// The result of a system in a case.
    pub fn find(&self, system: &str, case: &str, metric: &str) -> Option<&Outcome> {
        self.results.iter().find(|result| result.system == system && result.case == case && result.metric == metric)
    }

    /// The median of a system in a case.
    pub fn median(&self, system: &str, case: &str, metric: &str) -> Option<f64> {
        self.find(system, case, metric).map(|result| result.median)
    }

    /// The line below a picture that says where its figures are from.
    pub fn source(&self) -> String {
        let what = if self.medium.contains("emulated") { "Here (memory emulated in DRAM)" } else { "Here" };
        let whiskers = "Medians; whiskers, where there are any, go from the least to the most.";
        format!("{what}: {}; {}. {whiskers}", self.machine, self.medium)
    }

    /// The medium in a word or two, for a name in a picture.
    pub fn medium_in_brief(&self) -> String {
        let after = |word: &str| self.medium.split_once(word).map(|(_, rest)| rest);
        let end = |rest: &str| rest.split([',', ' ', '(']).next().unwrap_or_default().to_owned();
        match (after("modelled "), after("mode ")) {
            (Some(model), _) => format!("modelled {}", end(model)),
            (None, Some(mode)) => end(mode),
            (None, None) => self.medium.clone(),
        }
    }
}

#[cfg(test)]
impl Kept {
    /// Results without spread, each a system, a case and a median.
    pub fn of_medians(bench: &str, metric: &str, medians: &[(&str, &str, f64)]) -> Self {
        let outcome = |(system, case, median): &(&str, &str, f64)| Outcome {
            system: (*system).to_owned(),
            case: (*case).to_owned(),
            metric: metric.to_owned(),
            unit: "s".to_owned(),
            median: *median,
            least: None,
            most: None,
        };
        Self {
            bench: bench.to_owned(),
            machine: "a machine".to_owned(),
            medium: "mode emulated, granularity cache line (tmpfs)".to_owned(),
            workload: String::new(),
            results: medians.iter().map(outcome).collect(),
        }
    }
}

impl Outcome {
    fn parse(value: &Value) -> Result<Self> {
        let text = |name: &str| text_of(value, name);
        let optional = |name: &str| match &value[name] {
            Value::Null => Ok(None),
            found => found.as_f64().map(Some).with_context(|| format!("\"{name}\" is no number: {found}")),
        };
        Ok(Self {
            system: text("system")?,
            case: text("case")?,
            metric: text("metric")?,
            unit: text("unit")?,
            median: optional("median")?.context("no number \"median\"")?,
            least: optional("least")?,
            most: optional("most")?,
        })
    }

    fn to_text(&self) -> String {
        let mut text = format!(
            "{{\"system\": {}, \"case\": {}, \"metric\": {}, \"unit\": {}, \"median\": {}",
            json!(self.system),
            json!(self.case),
            json!(self.metric),
            json!(self.unit),
            shortened(self.median)
        );
        for (name, value) in [("least", self.least), ("most", self.most)] {
            if let Some(value) = value {
                write!(text, ", \"{name}\": {}", shortened(value)).expect("a string takes all");
            }
        }
        text + "}"
    }
}

fn text_of(value: &Value, name: &str) -> Result<String> {
    value[name].as_str().map(str::to_owned).with_context(|| format!("no text \"{name}\""))
}

/// A value with the digits that are kept of it.
fn shortened(value: f64) -> Value {
    let text = format!("{value:.*e}", DIGITS - 1);
    json!(text.parse::<f64>().expect("a number that was just written"))
}

#[cfg(test)]
mod tests {
    use super::{Kept, Outcome};

    fn kept() -> Kept {
        let outcome = |case: &str, median, least, most| Outcome {
            system: "perdura".into(),
            case: case.into(),
            metric: "time_s".into(),
            unit: "s".into(),
            median,
            least,
            most,
        };
        Kept {
            bench: "load".into(),
            machine: "two \"CPUs\"".into(),
            medium: "mode emulated, granularity cache line (tmpfs)".into(),
            workload: "rows".into(),
            results: vec![outcome("local", 0.5, Some(0.25), Some(1.5)), outcome("server", 12_340.0, None, None)],
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let kept = kept();
        assert_eq!(Kept::parse(&kept.to_text()).unwrap(), kept);
        assert_eq!(kept.to_text().lines().count(), 10, "{}", kept.to_text());
        assert_eq!(kept.median("perdura", "local", "time_s"), Some(0.5));
        assert_eq!(kept.median("perdura", "local", "tps"), None);
    }

    #[test]
    fn four_digits_are_kept() {
        let mut kept = kept();
        kept.results[0].median = 0.780_345_6;
        kept.results[1].median = 123_456_789.0;
        let read = Kept::parse(&kept.to_text()).unwrap();
        assert_eq!((read.results[0].median, read.results[1].median), (0.7803, 123_500_000.0));
    }

    /// Whoever edits a file by hand, or merges two, has to learn where it is broken.
    #[test]
    fn a_bad_file_is_named_with_the_place() {
        let directory = std::env::temp_dir().join(format!("perdura-kept-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("load.json");
        let good = kept().to_text();
        let cases = [
            (good.replace("\"median\": 0.5", "\"median\": \"fast\""), "results[0]"),
            (good.replace("\"case\": \"server\", ", ""), "results[1]: no text \"case\""),
            (good.replace("\"least\": 0.25", "\"least\": []"), "\"least\" is no number: []"),
            (good.replace("\"machine\"", "\"device\""), "no text \"machine\""),
            (good.replace("\"results\"", "\"result\""), "no list \"results\""),
            (good[..good.len() / 2].to_owned(), "EOF while parsing"),
        ];
        for (text, expected) in cases {
            std::fs::write(&path, &text).unwrap();
            let error = format!("{:#}", Kept::read(&path).unwrap_err());
            let is_named = error.contains("load.json") && error.contains("cargo xtask bench --docs");
            assert!(is_named && error.contains(expected), "{expected}: {error}");
        }
        std::fs::remove_dir_all(&directory).unwrap();
        let error = format!("{:#}", Kept::read(&path).unwrap_err());
        assert!(error.contains("load.json") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn a_modelled_medium_is_called_so() {
        let brief = |medium: &str| Kept { medium: medium.into(), ..kept() }.medium_in_brief();
        assert_eq!(brief("mode emulated, granularity cache line (tmpfs)"), "emulated");
        assert_eq!(brief("mode emulated, modelled optane, granularity cache line (tmpfs)"), "modelled optane");
        assert_eq!(brief("mode dax, granularity byte (ext4)"), "dax");
        assert_eq!(brief("tmpfs"), "tmpfs");
    }
}
