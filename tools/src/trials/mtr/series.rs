//! The SQL tests as a server of another series is to run them: copies, whose expected results are
//! changed where that series answers otherwise.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shared::{paths, process};

/// The suite that runs on servers of other series.
const SUITE: &str = "perdura";

/// The list of tests that do not run.
const DISABLED: &str = "disabled.def";

/// The directory of the suites: the one of the checkout, or a copy of what runs on another series,
/// with the differences in `tests/mysql-test-SERIES`.
pub fn tests() -> Result<PathBuf> {
    let tests = paths::top().join("tests/mysql-test");
    let Some(series) = paths::series() else { return Ok(tests) };
    let copy = paths::of_server("mysql-test");
    if copy.exists() {
        std::fs::remove_dir_all(&copy).with_context(|| copy.display().to_string())?;
    }
    std::fs::create_dir_all(&copy)?;
    process::run(Command::new("cp").arg("-r").arg(tests.join(SUITE)).arg(&copy))?;
    let differences = paths::top().join(format!("tests/mysql-test-{series}"));
    apply(&differences, &copy.join(SUITE))?;
    std::fs::copy(differences.join(DISABLED), copy.join(SUITE).join(DISABLED))?;
    Ok(copy)
}

/// Changes each result for which there is a difference.
fn apply(differences: &Path, suite: &Path) -> Result<()> {
    for entry in std::fs::read_dir(differences).with_context(|| differences.display().to_string())? {
        let difference = entry?.path();
        if difference.extension().is_some_and(|extension| extension == "rdiff") {
            let name = difference.file_stem().context("a difference has no name")?;
            let result = suite.join(name).with_extension("result");
            process::run(Command::new("patch").args(["--silent", "--forward"]).arg(result).arg(&difference))?;
        }
    }
    Ok(())
}
