//! Suites of the server's own driver with every table made in one engine
//! (`enforce_storage_engine`): once InnoDB, once Perdura.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::drive::{mariadbd, server};

use crate::shared::paths;

/// Lines shown of a test whose outputs differ.
const LINES_SHOWN: usize = 12;
/// Columns of EXPLAIN at least.
const EXPLAIN_COLUMNS: usize = 9;
/// Error of the server about an engine other than the enforced one, in a mode with
/// NO_ENGINE_SUBSTITUTION.
const REFUSED_ENGINE: &str = "Unknown storage engine '";

/// How a test ended: its mark, and what it printed if that is not the expected result.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    mark: String,
    output: String,
    /// Whether the server has refused an engine that the test names, which it is not to do.
    refuses_engine: bool,
}

type Outcomes = BTreeMap<String, Outcome>;

/// Runs suites, or tests named `SUITE.TEST`, with both engines, and closes with
/// `N passed, N failed, N skipped, N not compared`.
///
/// The expected results of those tests are of other settings, so most of what differs from them
/// says nothing. What counts is what the two runs have in common: a test fails only if its output
/// with Perdura is not that with InnoDB, apart from the engines' names, the order of lines and the
/// plans of EXPLAIN.
///
/// Tables without ENGINE are in the engine as the server's default: partitioned ones are not
/// enforced. A test that sets a mode with NO_ENGINE_SUBSTITUTION, such as TRADITIONAL, has the
/// server refuse the engine that a statement names. It may end there in both runs, and alike: such
/// tests are counted as not compared.
pub fn run(names: &[String]) -> Result<()> {
    ensure!(!names.is_empty(), "mtr --enforce needs a suite or a test of the server's own");
    let scratch = paths::medium().join(format!("mtr-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    server::remove_leftovers(&paths::medium())?;
    let theirs = with_engine("InnoDB", names, &scratch)?;
    let ours = with_engine("Perdura", names, &scratch)?;
    std::fs::remove_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
    let directory = paths::build().join("mtr-enforce");
    std::fs::create_dir_all(&directory)?;
    let (mut passed, mut failed, mut skipped, mut not_compared) = (0, 0, 0, 0);
    for (name, ours) in &ours {
        let Some(theirs) = theirs.get(name) else { continue };
        if [ours, theirs].iter().any(|outcome| outcome.mark == "skipped" || outcome.mark == "disabled") {
            skipped += 1;
        } else if ours.refuses_engine || theirs.refuses_engine {
            not_compared += 1;
            println!("mtr: {name}: not compared: it names an engine while its mode has NO_ENGINE_SUBSTITUTION");
        } else if ours.mark == "pass" && theirs.mark == "pass" || comparable(&ours.output) == comparable(&theirs.output)
        {
            passed += 1;
        } else {
            failed += 1;
            println!("mtr: {name}: [ {} ] with Perdura, [ {} ] with InnoDB", ours.mark, theirs.mark);
            show(&directory, name, ours, theirs)?;
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped, {not_compared} not compared");
    ensure!(passed > 0 && failed == 0, "{failed} tests differ; their outputs are in {}", directory.display());
    Ok(())
}

/// The lines in an order of their own, since rows without ORDER BY come in any. Those of EXPLAIN
/// are left out, and the notes with the rewritten query and about the engine.
fn comparable(output: &str) -> Vec<&str> {
    let notes = ["Warnings:", "Note\t1003\t", "Note\t1266\t"];
    let mut lines: Vec<&str> =
        output.lines().filter(|line| !is_plan(line) && !notes.iter().any(|note| line.starts_with(note))).collect();
    lines.sort_unstable();
    lines
}

/// Whether a line is one of EXPLAIN: a number, then what it is a part of, in capitals.
fn is_plan(line: &str) -> bool {
    let words: Vec<&str> = line.split('\t').collect();
    words.len() >= EXPLAIN_COLUMNS
        && (words[0] == "NULL" || words[0].parse::<u32>().is_ok())
        && !words[1].is_empty()
        && words[1].bytes().all(|byte| byte.is_ascii_uppercase() || byte == b' ')
}

/// Keeps both outputs and prints the first lines that differ.
fn show(directory: &Path, name: &str, ours: &Outcome, theirs: &Outcome) -> Result<()> {
    let path = |engine: &str| directory.join(format!("{}.{engine}", name.replace(['\'', ' ', '/', ','], "_")));
    let (left, right) = (path("innodb"), path("perdura"));
    std::fs::write(&left, &theirs.output)?;
    std::fs::write(&right, &ours.output)?;
    let diff = Command::new("diff").arg("-U0").args([&left, &right]).output().context("cannot run diff")?;
    for line in String::from_utf8_lossy(&diff.stdout).lines().skip(2).take(LINES_SHOWN) {
        println!("    {}", line.chars().take(200).collect::<String>());
    }
    Ok(())
}

/// One run of the driver.
fn with_engine(engine: &str, names: &[String], scratch: &Path) -> Result<Outcomes> {
    let driver = paths::test_driver()?;
    for old in rejects(&driver)? {
        std::fs::remove_file(old)?;
    }
    let mut command = Command::new("perl");
    command.current_dir(&driver).arg("./mariadb-test-run.pl").arg(format!("--vardir={}", scratch.display()));
    command.args(["--force", "--max-test-fail=0", "--retry=0", "--testcase-timeout=3", "--suite-timeout=300"]);
    command.args(["--nocheck-testcases", "--nowarnings", "--skip-rpl"]);
    let mut options = vec![
        format!("--enforce-storage-engine={engine}"),
        format!("--default-storage-engine={engine}"),
        // Without NO_ENGINE_SUBSTITUTION, with which another engine in CREATE TABLE would be an
        // error.
        "--sql-mode=STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER".to_owned(),
    ];
    // The driver leaves InnoDB out of tests that do not ask for it.
    options.extend(["--innodb=ON", "--loose-innodb-stats-persistent=OFF"].map(str::to_owned));
    // Both servers have the engine, so that information_schema shows the same.
    let mut load = Command::new("mariadbd");
    mariadbd::add_perdura(&mut load, scratch, None);
    let load = load.get_args().map(|option| option.to_string_lossy().into_owned());
    options.extend(load.filter(|option| !option.starts_with("--perdura-dir")));
    command.args(options.iter().map(|option| format!("--mysqld={option}")));
    let (tests, suites): (Vec<&String>, Vec<&String>) = names.iter().partition(|name| name.contains('.'));
    if !suites.is_empty() {
        let suites: Vec<&str> = suites.into_iter().map(String::as_str).collect();
        command.arg(format!("--suite={}", suites.join(",")));
    }
    command.args(tests);
    println!("mtr: {} with {engine}", names.join(" "));
    let output = command.stderr(Stdio::null()).output().context("cannot run perl")?;
    let text = String::from_utf8_lossy(&output.stdout);
    std::fs::write(paths::build().join(format!("mtr-enforce-{engine}.log")), text.as_bytes())?;
    let mut outcomes = outcomes(&text);
    ensure!(!outcomes.is_empty(), "no test ran; the driver's output is in build/mtr-enforce-{engine}.log");
    for path in rejects(&driver)? {
        let output = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
        let test = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let suite = suite_of(&path);
        // A test in several combinations leaves one file, which is of the last one.
        for (name, outcome) in &mut outcomes {
            let plain = name.split(' ').next().unwrap_or_default();
            if plain == format!("{suite}.{test}") && outcome.mark == "fail" {
                outcome.output = named_alike(&output);
            }
        }
        std::fs::remove_file(&path)?;
    }
    for (name, outcome) in &mut outcomes {
        let expected = named_alike(&expected(&driver, name));
        match outcome.mark.as_str() {
            "pass" => outcome.output = expected,
            _ => outcome.refuses_engine = refuses_engine(&outcome.output, &expected),
        }
    }
    Ok(outcomes)
}

/// Whether a test's output tells of more engines refused than the expected one does.
fn refuses_engine(output: &str, expected: &str) -> bool {
    let count = |text: &str| text.matches(REFUSED_ENGINE).count();
    count(output) > count(expected)
}

/// The expected result of a test, which is the output of one that passes; empty if the test has
/// several.
fn expected(driver: &Path, name: &str) -> String {
    let Some((suite, test)) = name.split_once('.') else { return String::new() };
    let folder = if suite == "main" { driver.join(suite) } else { driver.join("suite").join(suite) };
    let file = format!("{test}.result");
    let paths = [folder.join(&file), folder.join("r").join(&file)];
    paths
        .iter()
        .find_map(|path| std::fs::read(path).ok())
        .map_or_else(String::new, |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// `main` for `main/NAME.reject`, the suite's name for `suite/NAME/r/TEST.reject` and
/// `suite/NAME/TEST.reject`.
fn suite_of(path: &Path) -> String {
    let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let folders = &parts[..parts.len().saturating_sub(1)];
    match folders.iter().rposition(|part| part == "suite") {
        Some(at) => folders[at + 1..].iter().filter(|part| *part != "r").cloned().collect::<Vec<_>>().join("/"),
        None => "main".to_owned(),
    }
}

fn rejects(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
            let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
            if kind.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "reject") {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// The marks and, of tests that end with an error, the error: what the driver prints.
fn outcomes(text: &str) -> Outcomes {
    let mut found = Outcomes::new();
    let mut current = None;
    for line in text.lines() {
        if let Some((name, rest)) = line.split_once("[ ") {
            let mark = rest.split(' ').next().unwrap_or_default();
            if name.contains('.') && ["pass", "fail", "skipped", "disabled"].contains(&mark) {
                let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
                let outcome = Outcome { mark: mark.to_owned(), ..Outcome::default() };
                found.insert(name.clone(), outcome);
                current = Some(name);
                continue;
            }
        }
        let says_why = line.starts_with("mysqltest: ") || line.contains("Server failed during test run");
        let is_summary = line.contains("Result content mismatch") || line.contains("Result length mismatch");
        let outcome = current.as_ref().and_then(|name| found.get_mut(name)).filter(|_| says_why && !is_summary);
        if let Some(outcome) = outcome {
            outcome.output += &(named_alike(line) + "\n");
        }
    }
    found
}

/// Output without what names the engine.
fn named_alike(text: &str) -> String {
    ["Perdura", "perdura", "PERDURA", "innodb", "INNODB"]
        .iter()
        .fold(text.to_owned(), |text, name| text.replace(name, "InnoDB"))
}

#[cfg(test)]
mod tests {
    use super::{Outcome, comparable, outcomes, refuses_engine, suite_of};

    #[test]
    fn plans_and_notes_are_left_out_and_rows_are_not() {
        let plan = "1\tSIMPLE\tt1\tALL\tNULL\tNULL\tNULL\tNULL\t3\t";
        let output = format!("b\nWarnings:\nNote\t1266\tUsing storage engine\n{plan}\n1\tSIMPLE\na");
        assert_eq!(comparable(&output), ["1\tSIMPLE", "a", "b"]);
    }

    #[test]
    fn a_test_is_known_by_its_mark_and_its_error() {
        let text = "main.a                [ pass ]     12\nmain.b 'innodb'       [ fail ]\nmysqltest: At line 3: query 'x' on \
                    Perdura failed\nother\nvcol.c [ skipped ]  why\n";
        let found = outcomes(text);
        assert_eq!(found["main.a"], Outcome { mark: "pass".into(), ..Outcome::default() });
        assert_eq!(found["main.b 'innodb'"].output, "mysqltest: At line 3: query 'x' on InnoDB failed\n");
        assert_eq!(found["vcol.c"].mark, "skipped");
    }

    #[test]
    fn a_refused_engine_counts_unless_the_test_expects_it() {
        let end = "mysqltest: At line 9: query 'create table t1 (a int) engine=MyISAM' failed: ER_UNKNOWN_STORAGE_ENGINE (1286): \
                   Unknown storage engine 'MyISAM'\n";
        let expected = "create table t1 (a int) engine=none;\nERROR 42000: Unknown storage engine 'none'\n";
        assert!(refuses_engine(end, ""));
        assert!(refuses_engine(&(expected.to_owned() + end), expected));
        assert!(!refuses_engine(expected, expected));
        assert!(!refuses_engine("other", expected));
    }

    #[test]
    fn a_reject_file_belongs_to_its_suite() {
        let suite = |path: &str| suite_of(std::path::Path::new(path));
        assert_eq!(suite("/x/mysql-test/main/a.reject"), "main");
        assert_eq!(suite("/x/mysql-test/suite/vcol/r/a.reject"), "vcol");
    }
}
