//! Django's own test suite on a server with every table in one engine: once InnoDB, once Perdura.
//!
//! The suite and its driver come from PyPI in the versions of tests/django/requirements.txt, into
//! build/django. The backend in tests/django tells Django that either engine is InnoDB, so both get
//! the same statements. A test counts as failed if it fails with Perdura and not with InnoDB.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::drive::plugin;
use crate::drive::server::{Options, Server};
use crate::shared::args::Args;
use crate::shared::{paths, process};

/// The parts of the suite that run without being named: those that are about the database.
const LABELS: &[&str] = &[
    "aggregation",
    "aggregation_regress",
    "annotations",
    "backends",
    "basic",
    "bulk_create",
    "constraints",
    "custom_pk",
    "datatypes",
    "dates",
    "datetimes",
    "db_functions",
    "defer",
    "delete",
    "delete_regress",
    "distinct_on_fields",
    "expressions",
    "expressions_case",
    "expressions_window",
    "get_or_create",
    "indexes",
    "introspection",
    "lookup",
    "m2m_through",
    "many_to_many",
    "many_to_one",
    "migrations",
    "model_fields",
    "null_queries",
    "one_to_one",
    "or_lookups",
    "ordering",
    "prefetch_related",
    "queries",
    "raw_query",
    "schema",
    "select_for_update",
    "select_related",
    "transactions",
    "unmanaged_models",
    "update",
    "update_only_fields",
];

/// Results of one run.
struct Found {
    /// `FAIL: ...` and `ERROR: ...` of each test that failed, without the kind.
    failed: BTreeSet<String>,
    ran: u64,
    took: Duration,
}

/// `django [LABEL...]`: closes with `N passed, N failed`.
pub fn run(mut args: Args) -> Result<()> {
    let mut labels = Vec::new();
    while let Some(label) = args.positional() {
        labels.push(label);
    }
    args.finish()?;
    if labels.is_empty() {
        labels = LABELS.iter().map(|&label| label.to_owned()).collect();
    }
    plugin::build()?;
    let home = fetch()?;
    let (theirs, ours) = (suite(&home, "InnoDB", &labels)?, suite(&home, "Perdura", &labels)?);
    println!(
        "django: {} tests with Perdura in {} s, {} with InnoDB in {} s; {} fail with both",
        ours.ran,
        ours.took.as_secs(),
        theirs.ran,
        theirs.took.as_secs(),
        ours.failed.intersection(&theirs.failed).count()
    );
    let only: Vec<&String> = ours.failed.difference(&theirs.failed).collect();
    for test in &only {
        println!("django: fails with Perdura alone: {test}");
    }
    println!("{} passed, {} failed", ours.ran.saturating_sub(only.len() as u64), only.len());
    ensure!(ours.ran > 0 && ours.ran == theirs.ran, "{} tests ran with Perdura, {} with InnoDB", ours.ran, theirs.ran);
    ensure!(only.is_empty(), "the outputs are in {}", home.display());
    Ok(())
}

fn requirements() -> PathBuf {
    paths::top().join("tests/django/requirements.txt")
}

/// Makes build/django: a virtual environment with the driver, and the suite beside it. Does nothing
/// if both are there in the versions wanted.
fn fetch() -> Result<PathBuf> {
    let home = paths::build().join("django");
    let wanted = std::fs::read_to_string(requirements()).context("tests/django/requirements.txt")?;
    let mark = home.join("requirements.txt");
    if std::fs::read_to_string(&mark).is_ok_and(|there| there == wanted) {
        return Ok(home);
    }
    if home.exists() {
        std::fs::remove_dir_all(&home).with_context(|| home.display().to_string())?;
    }
    std::fs::create_dir_all(&home)?;
    let environment = home.join("venv");
    process::run(Command::new("python3").args(["-m", "venv"]).arg(&environment))
        .context("a virtual environment (package python3-venv)")?;
    let pip = environment.join("bin/pip");
    process::run(Command::new(&pip).args(["install", "--quiet", "--requirement"]).arg(requirements()))?;
    let django = wanted.lines().find(|line| line.starts_with("Django==")).context("no Django in requirements.txt")?;
    let mut download = Command::new(&pip);
    download.args(["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest"]).arg(&home).arg(django);
    process::run(&mut download)?;
    let archive = home.join(format!("{}.tar.gz", django.replace("==", "-")));
    process::run(Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(&home))?;
    std::fs::write(mark, wanted)?;
    Ok(home)
}

/// Runs the suite on a server of its own.
fn suite(home: &std::path::Path, engine: &str, labels: &[String]) -> Result<Found> {
    let extra = vec![
        format!("--enforce-storage-engine={engine}"),
        format!("--default-storage-engine={engine}"),
        "--character-set-server=utf8mb4".to_owned(),
        // Without NO_ENGINE_SUBSTITUTION, with which another engine in CREATE TABLE would be an
        // error.
        "--sql-mode=STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER".to_owned(),
    ];
    let mut server = Server::start_new(Options { perdura: true, extra, ..Options::default() })?;
    let version = std::fs::read_to_string(requirements())?;
    let version = version.lines().find(|line| line.starts_with("Django==")).unwrap_or_default().replace("==", "-");
    let log = home.join(format!("{}.log", engine.to_lowercase()));
    let output = File::create(&log).with_context(|| log.display().to_string())?;
    println!("django: {} labels with {engine}", labels.len());
    let begun = Instant::now();
    let mut command = Command::new(home.join("venv/bin/python"));
    command.current_dir(home.join(version).join("tests")).args([
        "runtests.py",
        "--settings=perdura_settings",
        "--parallel=1",
    ]);
    command.args(["--noinput"]).args(labels).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    command.env("PYTHONPATH", paths::top().join("tests/django")).env("PERDURA_SOCKET", server.socket());
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.status().context("cannot run Django's suite")?;
    let took = begun.elapsed();
    let text = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    let found = Found { failed: failures(&text), ran: count(&text).with_context(|| end_of(&text))?, took };
    server.stop()?;
    Ok(found)
}

/// The last lines, for a message.
fn end_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    format!("the suite did not come to its end:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"))
}

/// The tests that failed, as the suite heads its reports:
/// `FAIL: test_name (module.Class.test_name)`.
fn failures(text: &str) -> BTreeSet<String> {
    let head = |line: &str| line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: ")).map(str::to_owned);
    text.lines().filter_map(head).collect()
}

/// The number in `Ran N tests in T s`.
fn count(text: &str) -> Option<u64> {
    text.lines().rev().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::{count, failures};

    #[test]
    fn a_report_names_the_failed_tests() {
        let text = "..F\n====\nFAIL: test_a (basic.tests.A.test_a)\n----\nERROR: test_b (x.B.test_b)\n----\nRan 12 tests in 3.4s\n\nFAILED";
        let failed: Vec<String> = failures(text).into_iter().collect();
        assert_eq!(failed, ["test_a (basic.tests.A.test_a)", "test_b (x.B.test_b)"]);
        assert_eq!(count(text), Some(12));
    }
}
