//! Writes the results into docs/benchmarks.md, between its two markers, one section for each
//! benchmark. A new run replaces the benchmark's section, and what is kept of it and drawn beside
//! the page (`plots`). The rest of the page is written by hand.
//!
//! A benchmark with few series shows all values. One with many shows medians, with a column for
//! each system.

use std::fmt::Write;
use std::process::Command;

use anyhow::{Context, Result};

use super::report::{NOT_SUPPORTED, Report, Series};
use crate::plots::{self, Kept, Outcome};
use crate::shared::{paths, process};

const BEGIN: &str = "<!-- measured -->\n";
const END: &str = "<!-- /measured -->";
/// Begins a section. The section's name follows.
const HEAD: &str = "### ";
/// Series above which only medians are shown.
const SERIES_MAX: usize = 40;

/// Replaces the sections of these reports.
pub fn write(reports: &[Report]) -> Result<()> {
    let path = paths::top().join("docs/benchmarks.md");
    let page = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let section = |report: &Report| Ok((report.bench, render(report, &plots::keep(&kept(report))?)?));
    let sections = reports.iter().map(section).collect::<Result<Vec<_>>>()?;
    let page = replace(&page, &sections).with_context(|| format!("{} has no markers", path.display()))?;
    std::fs::write(&path, page).with_context(|| path.display().to_string())
}

/// The page with these sections, `(name, text)`. Each replaces the section of its name or is
/// appended.
fn replace(page: &str, sections: &[(&str, String)]) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (measured, after) = rest.split_once(END)?;
    let head = format!("\n{HEAD}");
    // Drop the text before the first section: each section says what it was measured on.
    let old = measured.split(head.as_str()).skip(1);
    let mut all: Vec<(&str, &str)> = old.filter_map(|part| part.split_once('\n')).collect();
    for (name, text) in sections {
        match all.iter_mut().find(|(other, _)| other == name) {
            Some((_, old)) => *old = text,
            None => all.push((name, text)),
        }
    }
    let all: String = all.iter().map(|(name, text)| format!("{head}{name}\n{text}")).collect();
    Some(format!("{before}{BEGIN}{all}{END}{after}"))
}

/// The part of a report that is kept beside the page.
fn kept(report: &Report) -> Kept {
    let outcome = |series: &Series| Outcome {
        system: series.system.clone(),
        case: series.case.clone(),
        metric: series.metric.to_owned(),
        unit: series.unit.to_owned(),
        median: series.median(),
        least: series.runs.iter().copied().reduce(f64::min),
        most: series.runs.iter().copied().reduce(f64::max),
    };
    Kept {
        bench: report.bench.to_owned(),
        machine: process::machine(),
        medium: report.medium.clone(),
        workload: report.workload.clone(),
        results: report.series.iter().filter(|series| !series.runs.is_empty()).map(outcome).collect(),
    }
}

/// The state of the code that is measured, as a sentence: the last commit, and whether the product
/// differs from it. Empty where git knows none.
fn state() -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).current_dir(paths::top()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["log", "-1", "--format=%h of %cs"]) else { return String::new() };
    let changes = git(&["status", "--porcelain", "--", "crates", "plugin", "bench"]).unwrap_or_default();
    format!(" Commit {commit}{}.", if changes.is_empty() { "" } else { ", with changes" })
}

fn render(report: &Report, pictures: &[String]) -> Result<String> {
    let mut text = format!("\n{}\n\n", report.workload);
    writeln!(text, "Machine: {}. Medium: {}.{}\n", process::machine(), report.medium, state())?;
    for name in pictures {
        writeln!(text, "{}\n", plots::link(name))?;
    }
    if report.series.len() > SERIES_MAX {
        render_medians(&mut text, report)?;
    } else {
        render_series(&mut text, report)?;
    }
    if !report.targets.is_empty() {
        writeln!(text, "\n| target | found | |\n|---|---:|---|")?;
    }
    for target in &report.targets {
        let verdict = if target.met { "met" } else { "**missed**" };
        writeln!(text, "| {} | {:.2} | {verdict} |", target.text, target.found)?;
    }
    match report.notes.as_slice() {
        [] => {}
        notes if report.series.len() > SERIES_MAX => {
            writeln!(text)?;
            notes.iter().try_for_each(|note| writeln!(text, "- {note}"))?;
        }
        notes => writeln!(text, "\n{}.", notes.join("; "))?,
    }
    Ok(text)
}

fn render_series(text: &mut String, report: &Report) -> Result<()> {
    writeln!(text, "| case | system | metric | median | least | most |\n|---|---|---|---:|---:|---:|")?;
    for series in &report.series {
        if series.runs.is_empty() {
            writeln!(text, "| {} | {} | {} | {NOT_SUPPORTED} | | |", series.case, series.system, series.metric)?;
            continue;
        }
        let least = series.runs.iter().copied().fold(f64::MAX, f64::min);
        let most = series.runs.iter().copied().fold(f64::MIN, f64::max);
        let (median, metric) = (series.median(), series.metric);
        writeln!(text, "| {} | {} | {metric} | {median:.3} | {least:.3} | {most:.3} |", series.case, series.system)?;
    }
    Ok(())
}

/// A table for each metric and each kind of case (the first part of its name): a row for each case,
/// a column for each system. Where most kinds have a case or two, one table has all kinds; cases
/// that are alone of their kind share one.
fn render_medians(text: &mut String, report: &Report) -> Result<()> {
    let kind = |series: &Series| series.case.split('/').next().unwrap_or_default().to_owned();
    let cases = distinct(report.series.iter().map(|series| series.case.as_str())).len();
    let is_of_many_kinds = distinct(report.series.iter().map(kind)).len() * 2 >= cases.max(SERIES_MAX);
    let is_alone = |series: &Series| {
        let mut others =
            report.series.iter().filter(|other| other.metric == series.metric && kind(other) == kind(series));
        others.all(|other| other.case == series.case)
    };
    let table = |series: &Series| {
        (if is_of_many_kinds || is_alone(series) { String::new() } else { kind(series) }, series.metric)
    };
    for (number, name) in distinct(report.series.iter().map(table)).into_iter().enumerate() {
        let rows: Vec<&Series> = report.series.iter().filter(|series| table(series) == name).collect();
        let systems = distinct(rows.iter().map(|series| series.system.as_str()));
        let separator = if number == 0 { "" } else { "\n" };
        writeln!(text, "{separator}| case, {} | {} |", name.1, systems.join(" | "))?;
        writeln!(text, "|---|{}", "---:|".repeat(systems.len()))?;
        for case in distinct(rows.iter().map(|series| series.case.as_str())) {
            let cell = |system: &&str| {
                let found = rows.iter().find(|series| series.case == case && series.system == **system);
                let value = |series: &&Series| {
                    if series.runs.is_empty() { NOT_SUPPORTED.into() } else { digits(series.median()) }
                };
                found.as_ref().map_or_else(String::new, |series| value(series))
            };
            let cells: Vec<String> = systems.iter().map(cell).collect();
            writeln!(text, "| {case} | {} |", cells.join(" | "))?;
        }
    }
    Ok(())
}

/// Each value once, in the order of first appearance.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// A number with about three digits.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Report;
    use super::{BEGIN, END, kept, render, render_medians, render_series, replace};

    #[test]
    fn only_the_sections_given_change() {
        let page = format!("head\n{BEGIN}\n### one\n\n1\n\n### two\n\n2\n{END}\ntail\n");
        let sections = [("two", "\nnew\n".to_owned()), ("three", "\n3\n".to_owned())];
        let new = replace(&page, &sections).unwrap();
        let expected = format!("head\n{BEGIN}\n### one\n\n1\n\n### two\n\nnew\n\n### three\n\n3\n{END}\ntail\n");
        assert_eq!(new, expected);
        assert_eq!(replace("no markers", &sections), None);
    }

    #[test]
    fn a_section_shows_its_pictures_and_what_is_kept_has_the_spread() {
        let mut report = Report::new("load", "rows".into(), "tmpfs".into());
        [3.0, 1.0, 2.0].into_iter().for_each(|value| report.add("perdura", "local", "time_s", "s", value));
        report.not_supported("memory", "local", "time_s", "s");
        let text = render(&report, &["load".to_owned()]).unwrap();
        assert!(text.contains("\n\n![load](benchmarks/load.svg)\n\n| case"), "{text}");
        let kept = kept(&report);
        let [outcome] = kept.results.as_slice() else { panic!("a case without values has none to keep") };
        assert_eq!((outcome.median, outcome.least, outcome.most), (2.0, Some(1.0), Some(3.0)));
    }

    /// A median of no values would look like a figure.
    #[test]
    fn a_case_that_is_not_supported_says_so() {
        let mut report = Report::new("mass", String::new(), String::new());
        report.not_supported("perdura", "limit", "dram_bytes", "B");
        for render in [render_series, render_medians] {
            let mut text = String::new();
            render(&mut text, &report).unwrap();
            assert!(text.contains("| not supported |") && !text.contains('0'), "{text}");
        }
    }

    #[test]
    fn medians_stand_beside_each_other() {
        let mut report = Report::new("map", String::new(), String::new());
        for (system, case, value) in [("list", "read/1", 123.4), ("btree", "read/1", 5.678), ("btree", "read/2", 12.34)]
        {
            report.add(system, case, "ns_per_op", "ns", value);
        }
        for (case, value) in [("1", 1.0), ("8", 8.0)] {
            report.add("list", case, "ns_per_op", "ns", value);
        }
        let mut text = String::new();
        render_medians(&mut text, &report).unwrap();
        let expected = "| case, ns_per_op | list | btree |\n|---|---:|---:|\n| read/1 | 123 | 5.68 |\n| read/2 |  | 12.3 |\n\
             \n| case, ns_per_op | list |\n|---|---:|\n| 1 | 1.00 |\n| 8 | 8.00 |\n";
        assert_eq!(text, expected);
    }
}
