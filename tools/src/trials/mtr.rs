//! The server's own test driver, mysql-test-run, over the suites of tests/mysql-test.
//!
//! The driver looks for a plugin's suites under its own plugin/NAME, so ours are linked there. A
//! directory with the name of one of the driver's own suites (storage_engine) overlays that suite
//! for this engine.

mod enforce;
mod series;
mod suites;

use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::drive::{plugin, server};

use crate::shared::paths;
use suites::Suites;

/// Runs all suites, or the tests named, or with `--enforce` suites of the server in both engines,
/// and closes with `N passed, N failed`.
pub fn run(tests: &[String]) -> Result<()> {
    plugin::build()?;
    if let [first, names @ ..] = tests
        && first == "--enforce"
    {
        return enforce::run(names);
    }
    let suites = series::tests()?;
    let driver = paths::test_driver()?;
    let link = driver.join("plugin/perdura");
    if std::fs::symlink_metadata(&link).is_ok() {
        std::fs::remove_file(&link)?;
    }
    symlink(&suites, &link).with_context(|| link.display().to_string())?;

    let suites = Suites::find(&suites)?;
    let scratch = paths::medium().join(format!("mtr-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    server::remove_leftovers(&paths::medium())?;
    let mut command = Command::new("perl");
    command.current_dir(&driver).arg("./mariadb-test-run.pl").arg(format!("--vardir={}", scratch.display()));
    command.args(["--force", "--max-test-fail=0", "--retry=0", "--testcase-timeout=5", "--suite-timeout=20"]);
    if tests.iter().filter(|test| !test.starts_with("--")).all(|test| suites.has(test)) {
        command.args(suites.options()?);
    }
    match tests.iter().any(|test| !test.starts_with("--")) {
        true => command.args(tests),
        false => command.args(tests).arg(format!("--suite={}", suites.names())),
    };
    let output = command.stderr(Stdio::inherit()).output().context("cannot run perl")?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let (passed, failed, skipped) = count(&text);
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    ensure!(
        output.status.success() && failed == 0,
        "SQL tests failed: {failed}; their logs are in {}",
        scratch.display()
    );
    ensure!(passed > 0, "no SQL test ran");
    std::fs::remove_dir_all(&scratch).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    Ok(())
}

/// Result lines read `suite.test  [ pass ]  ms`.
fn count(text: &str) -> (usize, usize, usize) {
    let of = |mark: &str| text.lines().filter(|line| line.contains(mark)).count();
    (of("[ pass ]"), of("[ fail ]"), of("[ skipped ]") + of("[ disabled ]"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn counts_result_lines() {
        let text = "a.x   [ pass ]  1\na.y [ fail ]\na.z [ skipped ] why\na.w [ disabled ] why\nCompleted: ...\n";
        assert_eq!(super::count(text), (1, 1, 2));
    }
}
