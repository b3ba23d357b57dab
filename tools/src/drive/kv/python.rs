//! Python programs with libraries of their own, which are installed into an environment below
//! build/.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shared::{paths, process};

/// The interpreter with the libraries that `requirements.txt` in `sources` names. They are
/// installed if that has changed.
pub fn interpreter(sources: &Path, name: &str) -> Result<PathBuf> {
    let home = paths::build().join(name).join("venv");
    let requirements = sources.join("requirements.txt");
    let (wanted, mark) = (std::fs::read_to_string(&requirements)?, home.join("requirements.txt"));
    if std::fs::read_to_string(&mark).ok().as_ref() != Some(&wanted) {
        process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home))
            .context("a virtual environment (package python3-venv)")?;
        let mut install = Command::new(home.join("bin/pip"));
        process::run(install.args(["install", "--quiet", "--requirement"]).arg(&requirements))?;
        std::fs::write(mark, wanted)?;
    }
    Ok(home.join("bin/python"))
}
