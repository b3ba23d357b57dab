//! `cargo xtask django [LABEL...]`: Django's own test suite, foreign keys included.
//!
//! The backend in tests/django is Django's own for MySQL, driven by PyMySQL. Its verbosity has the
//! outputs name each test, also one that is skipped.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::Result;

use super::environment::Environment;
use super::results::Results;
use super::suite::Suite;
use crate::drive::server::Server;
use crate::shared::args::Args;

const SUITE: Suite =
    Suite { name: "django", package: "Django", parts: LABELS, options: &[], known: &[], command, read };

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

/// Closes with `N passed, N failed`.
pub fn run(args: Args) -> Result<()> {
    SUITE.run(args)
}

fn command(environment: &Environment, server: &Server, labels: &[String]) -> Result<Command> {
    let mut command = environment.python();
    command.current_dir(environment.suite().join("tests")).arg("runtests.py");
    command.args(["--settings=perdura_settings", "--parallel=1", "--noinput", "--verbosity=2"]).args(labels);
    command.env("PERDURA_SOCKET", server.socket());
    Ok(command)
}

/// Reads `FAIL: test_name (module.Class.test_name)` and `ERROR: ...`, which head the reports of
/// tests that failed, the number in `Ran N tests in T s`, and `skipped=N` in the last line.
fn read(text: &str) -> Option<Results> {
    let head = |line: &str| line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: ")).map(str::to_owned);
    let failed: BTreeSet<String> = text.lines().filter_map(head).collect();
    let (_, end) = text.rsplit_once("\nRan ")?;
    let ran: u64 = end.split(' ').next()?.parse().ok()?;
    let skipped = end.split_once("skipped=").map_or("", |(_, rest)| rest);
    let skipped = skipped.split(|c: char| !c.is_ascii_digit()).next()?.parse().unwrap_or(0);
    Some(Results { failed, ran: ran.checked_sub(skipped)? })
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_report_names_the_failed_tests() {
        let text = "..F\n====\nFAIL: test_a (basic.tests.A.test_a)\n----\nERROR: test_b (x.B.test_b)\n----\n\
                    Ran 12 tests in 3.4s\n\nFAILED (failures=1, errors=1, skipped=3, expected failures=2)\n";
        let results = read(text).expect("a whole report");
        let failed: Vec<&String> = results.failed.iter().collect();
        assert_eq!(failed, ["test_a (basic.tests.A.test_a)", "test_b (x.B.test_b)"]);
        assert_eq!(results.ran, 9);
        assert_eq!(read("..\n\nRan 2 tests in 0.1s\n\nOK\n").expect("a whole report").ran, 2);
        assert_eq!(read("..F\n====\nFAIL: test_a (basic.tests.A.test_a)\n"), None);
    }
}
