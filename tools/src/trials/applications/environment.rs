//! A library and its test suite from PyPI, in the versions that tests/NAME/requirements.txt pins:
//! a virtual environment and the library's source archive, both in build/NAME.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shared::{paths, process};

/// A library's directory below build/.
pub struct Environment {
    home: PathBuf,
    /// Our part of the suite: requirements, settings, modules.
    own: PathBuf,
}

impl Environment {
    /// Makes the directory unless it is there in the versions wanted. `package` is the one of the
    /// requirements whose source archive has the suite.
    pub fn fetch(name: &str, package: &str) -> Result<Self> {
        let environment = Self { home: paths::build().join(name), own: paths::top().join("tests").join(name) };
        let requirements = environment.own.join("requirements.txt");
        let wanted = std::fs::read_to_string(&requirements).with_context(|| requirements.display().to_string())?;
        let mark = environment.home.join("requirements.txt");
        let is_wanted = std::fs::read_to_string(&mark).is_ok_and(|there| there == wanted);
        if is_wanted && environment.suite().is_dir() {
            return Ok(environment);
        }
        if environment.home.exists() {
            std::fs::remove_dir_all(&environment.home).with_context(|| environment.home.display().to_string())?;
        }
        std::fs::create_dir_all(environment.suite())?;
        let venv = environment.home.join("venv");
        process::run(Command::new("python3").args(["-m", "venv"]).arg(&venv))
            .context("a virtual environment (package python3-venv)")?;
        let pip = || Command::new(venv.join("bin/pip"));
        process::run(pip().args(["install", "--quiet", "--requirement"]).arg(&requirements))?;
        let pinned = pinned(&wanted, package).with_context(|| format!("{}: no {package}==", requirements.display()))?;
        let mut download = pip();
        download.args(["download", "--quiet", "--no-deps", "--no-binary", package, "--dest"]).arg(&environment.home);
        process::run(download.arg(pinned))?;
        process::run(
            Command::new("tar")
                .args(["xz", "--strip-components=1", "-f"])
                .arg(environment.archive()?)
                .arg("-C")
                .arg(environment.suite()),
        )?;
        std::fs::write(mark, wanted)?;
        Ok(environment)
    }

    /// The directory, which also takes the outputs.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The source archive, unpacked.
    pub fn suite(&self) -> PathBuf {
        self.home.join("suite")
    }

    /// Python with the library and our part of the suite.
    pub fn python(&self) -> Command {
        let mut python = Command::new(self.home.join("venv/bin/python"));
        python.env("PYTHONPATH", &self.own).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONNOUSERSITE", "1");
        python
    }

    fn archive(&self) -> Result<PathBuf> {
        let paths: Vec<PathBuf> =
            std::fs::read_dir(&self.home)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        let archive = paths.into_iter().find(|path| path.extension().is_some_and(|end| end == "gz"));
        archive.with_context(|| format!("pip has put no source archive into {}", self.home.display()))
    }
}

/// The line `PACKAGE==VERSION` of requirements.
fn pinned<'a>(requirements: &'a str, package: &str) -> Option<&'a str> {
    requirements.lines().find(|line| line.strip_prefix(package).is_some_and(|rest| rest.starts_with("==")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_package_is_not_taken_for_another_whose_name_it_begins() {
        let requirements = "pytest-xdist==3.0\npytest==9.2.0\n";
        assert_eq!(super::pinned(requirements, "pytest"), Some("pytest==9.2.0"));
        assert_eq!(super::pinned(requirements, "py"), None);
    }
}
