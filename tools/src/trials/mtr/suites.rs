//! The suites of tests/mysql-test, and which of their tests do not run.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shared::paths;

/// A suite by the name that the driver has for it.
struct Suite {
    name: String,
    directory: PathBuf,
}

/// All suites.
pub struct Suites(Vec<Suite>);

impl Suites {
    /// Finds them in `tests`. Each is a directory; one with the name of one of the driver's own
    /// suites overlays that for this engine, as `NAME-perdura`, and so do the directories in it.
    pub fn find(tests: &Path) -> Result<Suites> {
        let mut suites = Vec::new();
        for (name, directory) in directories(tests)? {
            if !is_overlay(&name)? {
                suites.push(Suite { name, directory });
                continue;
            }
            for (inner, directory) in directories(&directory)? {
                let inner = format!("{name}/{inner}");
                if is_overlay(&inner)? {
                    suites.push(Suite { name: format!("{inner}-perdura"), directory });
                }
            }
            suites.push(Suite { name: format!("{name}-perdura"), directory });
        }
        suites.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(Suites(suites))
    }

    /// Their names, as the driver takes them.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.0.iter().map(|suite| suite.name.as_str()).collect();
        names.join(",")
    }

    /// Whether the driver's name of a suite or test is of one of them.
    pub fn has(&self, name: &str) -> bool {
        self.0
            .iter()
            .any(|suite| name == suite.name || name.strip_prefix(&suite.name).is_some_and(|rest| rest.starts_with('.')))
    }

    /// The driver's options by which just the tests run that our own lists do not disable. The
    /// server's own suite disables some for all engines, since their expected results are those of
    /// an older server; our overlay has the present ones.
    pub fn options(&self) -> Result<Vec<String>> {
        let mut patterns = Vec::new();
        for Suite { name, directory } in &self.0 {
            let path = directory.join("disabled.def");
            let list = match fs::read_to_string(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                list => list.with_context(|| path.display().to_string())?,
            };
            patterns.extend(disabled(&list).map(|test| format!("{name}\\.{test}")));
        }
        let mut options = vec!["--enable-disabled".to_owned()];
        if !patterns.is_empty() {
            options.push(format!("--skip-test=^({})$", patterns.join("|")));
        }
        Ok(options)
    }
}

/// The directories in a directory, with their names.
fn directories(path: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    Ok(found)
}

/// Whether the driver has a suite of this name.
fn is_overlay(name: &str) -> Result<bool> {
    Ok(paths::test_driver()?.join("suite").join(name).is_dir())
}

/// The tests that a list disables: lines of the form `TEST : REASON`.
fn disabled(list: &str) -> impl Iterator<Item = &str> {
    let lines = list.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(':').map(|(test, _)| test.trim()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_list_names_tests_before_their_reasons() {
        let list = "# none of these\na : why: so\n\n  b_c: why\n";
        assert_eq!(super::disabled(list).collect::<Vec<_>>(), ["a", "b_c"]);
    }
}
