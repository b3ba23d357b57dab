//! `cargo xtask sqlalchemy [PATH...]`: SQLAlchemy's suite for dialects (`sqlalchemy.testing.suite`)
//! and its tests of the dialect for MySQL and MariaDB, driven by PyMySQL.
//!
//! SQLAlchemy's own `test/requirements.py`, in the source archive, decides which tests MariaDB must
//! pass; those of foreign keys and sequences are among them.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result};
use mysql::prelude::Queryable;

use super::environment::Environment;
use super::results::{Known, Results};
use super::suite::Suite;
use crate::drive::server::Server;
use crate::shared::args::Args;

const SUITE: Suite =
    Suite { name: "sqlalchemy", package: "SQLAlchemy", parts: PATHS, options: OPTIONS, known: KNOWN, command, read };

/// Paths in the source archive.
const PATHS: &[&str] = &["test/dialect/test_suite.py", "test/dialect/mysql"];

/// The tests of locks set InnoDB's timeout by itself. FULLTEXT keys that are refused would have one
/// class of tests leave its tables behind, for others to find.
const OPTIONS: &[&str] = &["--perdura-lock-wait-timeout=1", "--perdura-missing-features=warn"];

const KNOWN: &[Known] = &[
    Known { name: "test_query.py::MatchTest", why: "no FULLTEXT keys" },
    Known { name: "test_reflection_with_subpartition_options", why: "expects the definition to name InnoDB" },
];

/// Databases that the suite expects beside `test`.
const SCHEMAS: [&str; 2] = ["test_schema", "test_schema_2"];

/// Closes with `N passed, N failed`.
pub fn run(args: Args) -> Result<()> {
    SUITE.run(args)
}

fn command(environment: &Environment, server: &Server, paths: &[String]) -> Result<Command> {
    let mut connection = server.connect()?;
    for schema in SCHEMAS {
        connection.query_drop(format!("CREATE DATABASE {schema}")).context(schema)?;
    }
    let socket = server.socket();
    let mut command = environment.python();
    command.current_dir(environment.suite()).args(["-m", "pytest", "--tb=short", "-rfE", "--maxfail=0"]);
    command.args(["-p", "no:cacheprovider"]);
    command.arg(format!("--dburi=mariadb+pymysql://root@/test?unix_socket={}&charset=utf8mb4", socket.display()));
    command.args(paths);
    Ok(command)
}

/// Reads `FAILED path::Class::test - why` and `ERROR ...` of pytest's summary, and its last line:
/// `== 3 failed, 900 passed, 40 skipped, 1 error in 12.34s ==`. A file that cannot be read ends the
/// run before its first test: `!! Interrupted: 1 error during collection !!`.
fn read(text: &str) -> Option<Results> {
    if text.lines().any(|line| line.starts_with('!') && line.contains("Interrupted")) {
        return None;
    }
    let (_, summary) = text.rsplit_once("short test summary info").unwrap_or(("", text));
    let head = |line: &str| {
        let name = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "))?;
        Some(name.split(" - ").next()?.to_owned())
    };
    let failed: BTreeSet<String> = summary.lines().filter_map(head).collect();
    let last = text.lines().rev().find(|line| line.starts_with('=') && line.contains(" in "))?;
    let counts = last.trim_matches(['=', ' ']).split(" in ").next()?.split(", ");
    let counts = counts.filter_map(|count| count.split_once(' '));
    let counts = counts.filter(|(_, kind)| ["failed", "passed", "error", "errors"].contains(kind));
    let ran: Option<u64> = counts.map(|(number, _)| number.parse::<u64>().ok()).sum();
    Some(Results { failed, ran: ran? })
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_report_names_the_failed_tests() {
        let text = "test/a.py::A::test_a FAILED\n===== FAILURES =====\nERROR 1062 - x\n== short test summary info ==\n\
                    FAILED test/a.py::A::test_a[x-1] - AssertionError: 1 in 2\nERROR test/a.py::A::test_b\n\
                    == 1 failed, 9 passed, 4 skipped, 1 error in 12.34s (0:00:12) ==\n";
        let results = read(text).expect("a whole report");
        let failed: Vec<&String> = results.failed.iter().collect();
        assert_eq!(failed, ["test/a.py::A::test_a[x-1]", "test/a.py::A::test_b"]);
        assert_eq!(results.ran, 11);
        assert_eq!(read("test/a.py::A::test_a FAILED\n"), None);
        let unread = "ERROR test/a.py\n!!! Interrupted: 1 error during collection !!!\n== 1 error in 0.1s ==\n";
        assert_eq!(read(unread), None);
        assert_eq!(read("== 9 passed in 1.00s ==\n").expect("a whole report").ran, 9);
    }
}
