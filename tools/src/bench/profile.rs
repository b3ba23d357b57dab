//! A profile of a benchmark program by `perf`, where the machine has it: the functions that take
//! most of the processor time of the program's own thread.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::plan::Plan;
use super::program;
use super::report::Report;
use crate::shared::paths;

/// Functions that a profile names.
const FUNCTIONS: usize = 10;

/// Runs the program with these words once more, under `perf record`, and adds `cpu_percent` of each
/// of the functions that take most, or `kernel_percent` of the kernel's, as the case
/// `CASE/FUNCTION`: shares of what the program's own thread took. Without `perf` a note says so.
pub fn add(report: &mut Report, system: &str, case: &str, run: (&str, &[&str]), plan: &Plan) -> Result<()> {
    let (name, words) = run;
    if let Err(error) = Command::new("perf").arg("--version").output() {
        report.note(format!("{case}: no profile, for perf cannot be run: {error}"));
        return Ok(());
    }
    let file = paths::build().join(format!("profile-{}.data", std::process::id()));
    let output = file.to_str().context("a path in UTF-8")?;
    let within = ["perf", "record", "--quiet", "--event", "cpu-clock", "--freq", "4000", "--output", output, "--"];
    program::run_within(&within, name, words, &paths::medium(), plan)?;
    let told = Command::new("perf")
        .args(["report", "--stdio", "--no-children", "--percentage", "relative", "--sort", "symbol"])
        .args(["--comm", name, "--input", output])
        .output()
        .context("perf report")?;
    std::fs::remove_file(&file).with_context(|| file.display().to_string())?;
    ensure!(told.status.success(), "perf report: {}", String::from_utf8_lossy(&told.stderr).trim());
    let shares = shares(&String::from_utf8_lossy(&told.stdout));
    ensure!(!shares.is_empty(), "perf report names no function of {name}");
    for share in shares.iter().take(FUNCTIONS) {
        let metric = if share.is_kernel { "kernel_percent" } else { "cpu_percent" };
        report.add(system, &format!("{case}/{}", share.function), metric, "%", share.percent);
    }
    Ok(())
}

/// A function's part of the processor time.
#[derive(Debug, PartialEq)]
struct Share {
    function: String,
    is_kernel: bool,
    percent: f64,
}

/// Functions and their percentages, in the order of the report: lines such as
/// `92.24%  [k] clear_page_erms`, which some processors add columns to.
fn shares(report: &str) -> Vec<Share> {
    let share = |line: &str| -> Option<Share> {
        let (percent, rest) = line.trim().split_once('%')?;
        let (kind, function) = rest.trim().split_once("] ")?;
        let function = function.trim().split("  ").next()?;
        Some(Share { function: short(function), is_kernel: kind == "[k", percent: percent.parse().ok()? })
    };
    report.lines().filter(|line| !line.starts_with('#')).filter_map(share).collect()
}

/// A function's name, with that of its type.
fn short(path: &str) -> String {
    let (rest, function) = path.rsplit_once("::").unwrap_or(("", path));
    let of = rest.rsplit([':', ' ']).next().unwrap_or_default().trim_end_matches('>');
    if of.starts_with(|first: char| first.is_uppercase()) { format!("{of}::{function}") } else { function.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::{Share, shares};

    #[test]
    fn the_lines_of_functions_are_read_and_no_others() {
        let report = "# Samples: 451  of event 'cpu-clock'\n# Overhead  Symbol\n\n    92.24%  [k] clear_page_erms       -      -\n     \
                      1.77%  [.] a::writes::<impl a::txn::Session>::insert\n     1.50%  [.] a::checksum::short   - - \n\n";
        let expected = [("clear_page_erms", true, 92.24), ("Session::insert", false, 1.77), ("short", false, 1.5)];
        let expected =
            expected.map(|(name, is_kernel, percent)| Share { function: name.to_owned(), is_kernel, percent });
        assert_eq!(shares(report), expected);
        assert!(shares("# nothing\n12% torn\n").is_empty());
    }
}
