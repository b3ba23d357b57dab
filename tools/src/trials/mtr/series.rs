//! The SQL tests as a server of another series is to run them: copies, whose expected results are
//! changed where that series answers otherwise.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shared::{paths, process};

/// The directory of the suites: the one of the checkout, or for another series a copy, with the
/// differences in `tests/mysql-test-SERIES`.
pub fn tests() -> Result<PathBuf> {
    let tests = paths::top().join("tests/mysql-test");
    let Some(series) = paths::series() else { return Ok(tests) };
    let copy = paths::of_server("mysql-test");
    if copy.exists() {
        fs::remove_dir_all(&copy).with_context(|| copy.display().to_string())?;
    }
    process::run(Command::new("cp").arg("-r").arg(tests).arg(&copy))?;
    let differences = paths::top().join(format!("tests/mysql-test-{series}"));
    apply(&differences, &copy, &paths::test_driver()?.join("suite"))?;
    Ok(copy)
}

/// Changes each result of a copied suite for which there is a difference (`*.rdiff`), and replaces
/// other files. `server` is where the server has the suite, if it is one that ours overlays.
fn apply(differences: &Path, suite: &Path, server: &Path) -> Result<()> {
    for entry in fs::read_dir(differences).with_context(|| differences.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().context("a difference has no name")?;
        let copy = suite.join(name);
        if path.is_dir() {
            apply(&path, &copy, &server.join(name))?;
        } else if path.extension().is_some_and(|extension| extension == "rdiff") {
            let result = copy.with_extension("result");
            if !result.exists() {
                overlay(&result, &server.join(name).with_extension("result"))?;
            }
            patch(&result, &path)?;
        } else {
            fs::copy(&path, &copy).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// Makes a result of what the server expects and the difference that our overlay has, if any.
fn overlay(result: &Path, server: &Path) -> Result<()> {
    fs::copy(server, result).with_context(|| server.display().to_string())?;
    let difference = result.with_extension("rdiff");
    if difference.exists() {
        patch(result, &difference)?;
        fs::remove_file(&difference)?;
    }
    Ok(())
}

fn patch(result: &Path, difference: &Path) -> Result<()> {
    process::run(Command::new("patch").args(["--silent", "--forward"]).arg(result).arg(difference))
}

#[cfg(test)]
mod tests {
    use std::fs;

    /// Makes the file `name` in `top`, and its directories.
    fn write(top: &std::path::Path, name: &str, text: &str) {
        let path = top.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_difference_lies_on_top_of_our_overlay() {
        let top = std::env::temp_dir().join(format!("perdura-series-{}", std::process::id()));
        let change = |old, new| format!("--- a\n+++ b\n@@ -1 +1 @@\n-{old}\n+{new}\n");
        write(&top, "server/s/a.result", "one\n");
        write(&top, "suites/s/a.rdiff", &change("one", "two"));
        write(&top, "suites/own/b.result", "one\n");
        write(&top, "series/s/a.rdiff", &change("two", "three"));
        write(&top, "series/s/c.result", "whole\n");
        write(&top, "series/own/b.rdiff", &change("one", "two"));
        super::apply(&top.join("series"), &top.join("suites"), &top.join("server")).unwrap();
        let read = |name: &str| fs::read_to_string(top.join("suites").join(name)).unwrap();
        assert_eq!(read("s/a.result"), "three\n");
        assert_eq!(read("s/c.result"), "whole\n");
        assert_eq!(read("own/b.result"), "two\n");
        assert!(!top.join("suites/s/a.rdiff").exists());
        fs::remove_dir_all(&top).unwrap();
    }
}
