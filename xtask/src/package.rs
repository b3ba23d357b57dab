//! Makes the tarball that a user installs: the plugin, the command, a configuration to start from, the installation steps, the pages
//! for operators, the licences.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{paths, plugin, process};

const CONFIGURATION: &str = include_str!("package/perdura.cnf");
const README: &str = include_str!("package/README.md");
/// The pages it includes. They link only to each other.
const PAGES: [&str; 2] = ["docs/operations.md", "docs/compatibility.md"];
const LICENCES: [&str; 3] = ["LICENSE-MIT", "LICENSE-APACHE", "LICENSE-GPL-2.0"];

/// Writes build/perdura-VERSION-mariadb-VERSION.tar.gz and returns its path.
pub fn make() -> Result<PathBuf> {
    plugin::build()?;
    process::cargo_build_release("perdura-cli")?;
    let server = std::fs::read_to_string(paths::build().join("mariadb/DEBIAN_VERSION"))?;
    let server = server.trim().rsplit(':').next().unwrap_or_default().to_owned();
    let name = format!("perdura-{}-mariadb-{server}", env!("CARGO_PKG_VERSION"));
    let staging = paths::build().join(&name);
    if staging.exists() {
        std::fs::remove_dir_all(&staging)?;
    }
    std::fs::create_dir_all(staging.join("docs"))?;
    let mut files = vec![(paths::build().join("plugin/ha_perdura.so"), "ha_perdura.so"), (command(), "perdura")];
    files.extend(LICENCES.iter().chain(&PAGES).map(|path| (paths::top().join(path), *path)));
    for (source, to) in files {
        std::fs::copy(&source, staging.join(to)).with_context(|| source.display().to_string())?;
    }
    std::fs::write(staging.join("perdura.cnf"), CONFIGURATION)?;
    std::fs::write(staging.join("README.md"), README)?;
    let archive = paths::build().join(format!("{name}.tar.gz"));
    process::run(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(paths::build()).arg(&name))?;
    Ok(archive)
}

/// The `perdura` command as `make` builds it.
pub fn command() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| paths::top().join("target"), Into::into);
    target.join("release/perdura")
}

/// Makes the package and prints its path.
pub fn run() -> Result<()> {
    println!("{}", make()?.display());
    Ok(())
}

/// Fails if a page below `directory` links to a missing file.
pub fn check_links(directory: &Path) -> Result<()> {
    for page in ["README.md"].iter().chain(&PAGES) {
        let path = directory.join(page);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for link in links(&text) {
            let target = path.parent().unwrap_or(directory).join(link);
            ensure!(target.exists(), "{page} of the package links to {link}, which is not in it");
        }
    }
    Ok(())
}

/// Targets of links to files, without their anchors.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(|link| link.split('#').next().unwrap_or(link)).filter(|link| !link.is_empty() && !link.contains("://"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn links_to_files_are_found() {
        let text = "[a](docs/a.md#part), [b](https://example.org/b) and [c](#here), [d](d.md).";
        assert_eq!(super::links(text).collect::<Vec<_>>(), ["docs/a.md", "d.md"]);
    }
}
