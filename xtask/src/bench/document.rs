//! Writes what was measured into docs/benchmarks.md, between its two markers; the rest of the page is written by hand.

use std::fmt::Write;

use anyhow::{Context, Result};

use super::report::Report;
use crate::{paths, process};

const BEGIN: &str = "<!-- measured -->\n";
const END: &str = "<!-- /measured -->";

/// Replaces the measured part by these reports.
pub fn write(reports: &[Report]) -> Result<()> {
    let path = paths::top().join("docs/benchmarks.md");
    let page = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let page = replace(&page, &render(reports)?).with_context(|| format!("{} has no markers", path.display()))?;
    std::fs::write(&path, page).with_context(|| path.display().to_string())
}

fn replace(page: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{text}{END}{after}"))
}

fn render(reports: &[Report]) -> Result<String> {
    let mut text = String::new();
    let medium = reports.first().map_or("unknown", |report| report.medium.as_str());
    writeln!(text, "Machine: {}. Medium: {medium}.", process::machine())?;
    for report in reports {
        writeln!(text, "\n### {}\n\n{}\n", report.bench, report.workload)?;
        writeln!(text, "| case | system | metric | median | least | most |\n|---|---|---|---:|---:|---:|")?;
        for series in &report.series {
            let least = series.runs.iter().copied().fold(f64::MAX, f64::min);
            let most = series.runs.iter().copied().fold(f64::MIN, f64::max);
            let (median, metric) = (series.median(), series.metric);
            writeln!(
                text,
                "| {} | {} | {metric} | {median:.3} | {least:.3} | {most:.3} |",
                series.case, series.system
            )?;
        }
        if !report.targets.is_empty() {
            writeln!(text, "\n| target | found | |\n|---|---:|---|")?;
        }
        for target in &report.targets {
            let verdict = if target.met { "met" } else { "**missed**" };
            writeln!(text, "| {} | {:.2} | {verdict} |", target.text, target.found)?;
        }
        if !report.notes.is_empty() {
            writeln!(text, "\n{}.", report.notes.join("; "))?;
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, replace};

    #[test]
    fn only_the_part_between_the_markers_changes() {
        let page = format!("head\n{BEGIN}old\n{END}\ntail\n");
        let new = replace(&page, "new\n").unwrap();
        assert_eq!(new, format!("head\n{BEGIN}new\n{END}\ntail\n"));
        assert_eq!(replace("no markers", "new"), None);
    }
}
