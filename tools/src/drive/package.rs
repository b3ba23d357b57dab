//! Makes the tarball that a user installs: the plugin, the command, a configuration to start from,
//! the installation steps, the pages for operators, the licences; and what keeps the engine through
//! updates of the server: the plugin's source with the crates as a library, a script that builds a
//! plugin for another version and has each server load its own, a drop-in for systemd, a hook for
//! apt.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::drive::plugin;

use crate::shared::{paths, process};

/// Files that only the package has, and their modes.
const FILES: [(&str, &str, u32); 5] = [
    ("README.md", include_str!("package/README.md"), 0o644),
    ("perdura.cnf", include_str!("package/perdura.cnf"), 0o644),
    ("mariadb.service.conf", include_str!("package/mariadb.service.conf"), 0o644),
    ("apt.conf", include_str!("package/apt.conf"), 0o644),
    ("perdura-plugin", include_str!("package/perdura-plugin"), 0o755),
];
/// Directories whose files another plugin is built from.
const SOURCES: [&str; 2] = ["plugin/mariadb", "crates/capi/include"];
/// The pages it includes. They link only to each other.
const PAGES: [&str; 2] = ["docs/operations.md", "docs/compatibility.md"];
const LICENCES: [&str; 3] = ["LICENSE-MIT", "LICENSE-APACHE", "LICENSE-GPL-2.0"];

/// Writes build/perdura-VERSION-mariadb-VERSION.tar.gz and returns its path.
pub fn make() -> Result<PathBuf> {
    plugin::build()?;
    process::cargo_build_release("perdura-cli")?;
    let server = std::fs::read_to_string(paths::of_server("mariadb").join("DEBIAN_VERSION"))?;
    let server = server.trim().rsplit(':').next().unwrap_or_default().to_owned();
    let name = format!("perdura-{}-mariadb-{server}", env!("CARGO_PKG_VERSION"));
    let staging = paths::build().join(&name);
    if staging.exists() {
        std::fs::remove_dir_all(&staging)?;
    }
    let library = format!("plugins/{}/ha_perdura.so", server.split('-').next().unwrap_or_default());
    copy(&paths::of_server("plugin").join("ha_perdura.so"), &staging.join(library))?;
    copy(&release("perdura"), &staging.join("perdura"))?;
    for path in LICENCES.iter().chain(&PAGES) {
        copy(&paths::top().join(path), &staging.join(path))?;
    }
    for (name, text, mode) in FILES {
        std::fs::write(staging.join(name), text)?;
        std::fs::set_permissions(staging.join(name), Permissions::from_mode(mode))?;
    }
    add_source(&staging.join("source"))?;
    let archive = paths::build().join(format!("{name}.tar.gz"));
    process::run(Command::new("tar").arg("-czf").arg(&archive).arg("-C").arg(paths::build()).arg(&name))?;
    Ok(archive)
}

/// Files that `perdura-plugin rebuild` needs besides the server's headers, in a checkout's layout.
fn add_source(to: &Path) -> Result<()> {
    for directory in SOURCES {
        let from = paths::top().join(directory);
        for entry in std::fs::read_dir(&from).with_context(|| from.display().to_string())? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                copy(&entry.path(), &to.join(directory).join(entry.file_name()))?;
            }
        }
    }
    copy(&paths::top().join("scripts/mariadb-source.sh"), &to.join("mariadb-source.sh"))?;
    let library = to.join("libperdura_capi.a");
    copy(&release("libperdura_capi.a"), &library)?;
    process::run(Command::new("strip").arg("--strip-debug").arg(&library))
}

fn copy(source: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to.parent().unwrap_or(to))?;
    std::fs::copy(source, to).with_context(|| source.display().to_string())?;
    Ok(())
}

/// The `perdura` command as `make` builds it.
pub fn command() -> PathBuf {
    release("perdura")
}

/// A file that cargo has built in release mode.
fn release(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| paths::top().join("target"), PathBuf::from);
    target.join("release").join(name)
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
