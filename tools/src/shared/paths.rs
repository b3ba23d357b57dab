//! Paths: the checkout, what `make setup` unpacked, and the directory of pools and test servers.
//!
//! The checkout is found when the program runs, never remembered from the build: a checkout is
//! copied with its `target`, and cargo takes the programs in the copy for fresh.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, ensure};

static TOP: OnceLock<PathBuf> = OnceLock::new();

/// Finds the checkout. Fails if there is none, or if this program lies in another one.
pub fn find_top() -> Result<&'static Path> {
    if let Some(top) = TOP.get() {
        return Ok(top);
    }
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let program = std::env::current_exe().context("this program's path")?;
    let start = variable("CARGO_MANIFEST_DIR").into_iter().chain([std::env::current_dir()?]).collect::<Vec<_>>();
    let top = checkout_of(&start, &program, variable("CARGO_TARGET_DIR").as_deref())?;
    Ok(TOP.get_or_init(|| top))
}

/// The root of the checkout. Panics where [`find_top`] fails.
pub fn top() -> &'static Path {
    find_top().unwrap_or_else(|error| panic!("{error:#}"))
}

/// The checkout around the first of the directories that is in one. A program below `shared_target`
/// may be of any checkout.
fn checkout_of(start: &[PathBuf], program: &Path, shared_target: Option<&Path>) -> Result<PathBuf> {
    let mut found = start.iter().filter_map(|directory| checkout_around(directory));
    let top = found.next().with_context(|| {
        let places: Vec<_> = start.iter().map(|path| path.display().to_string()).collect();
        format!("no checkout of Perdura around {}: change to one", places.join(" or "))
    })?;
    if shared_target.is_some_and(|target| program.starts_with(target)) {
        return Ok(top);
    }
    let home = checkout_around(program).filter(|home| *home != top);
    ensure!(
        home.is_none(),
        "{} is the program of another checkout than {}: run `cargo xtask` there",
        program.display(),
        top.display()
    );
    Ok(top)
}

/// The closest directory from `place` upwards that is the workspace with this package.
fn checkout_around(place: &Path) -> Option<PathBuf> {
    let is_top = |path: &&Path| path.join("tools/Cargo.toml").is_file() && path.join("Cargo.lock").is_file();
    let place = place.canonicalize().ok()?;
    place.ancestors().find(is_top).map(Path::to_owned)
}

/// Everything fetched or generated, except Cargo's own directory. Git ignores it.
pub fn build() -> PathBuf {
    top().join("build")
}

/// The directory in `build` of what belongs to the unpacked server, which is of another series if
/// `PERDURA_SERVER` names one.
pub fn of_server(name: &str) -> PathBuf {
    build().join(series().map_or_else(|| name.to_owned(), |series| format!("{name}-{series}")))
}

/// The series that `PERDURA_SERVER` names, if the server is of another than the machine's Debian
/// has.
pub fn series() -> Option<String> {
    std::env::var("PERDURA_SERVER").ok().filter(|series| !series.is_empty())
}

/// `basedir` of the unpacked server. Fails when `make setup` has not run.
pub fn mariadb() -> Result<PathBuf> {
    let place = of_server("mariadb");
    ensure!(place.join("usr/sbin/mariadbd").exists(), "no server under {}: run `make setup` first", place.display());
    Ok(place.join("usr"))
}

/// The plugin directory of the unpacked server, which also gets our plugin.
pub fn server_plugins() -> Result<PathBuf> {
    Ok(mariadb()?.join("lib/mysql/plugin"))
}

/// The directory of the unpacked server's own test driver, by either of its names.
pub fn test_driver() -> Result<PathBuf> {
    let share = mariadb()?.join("share");
    let places = [share.join("mysql/mysql-test"), share.join("mariadb/mariadb-test")];
    places
        .into_iter()
        .find(|place| place.is_dir())
        .context("the unpacked server has no mysql-test: run `make setup` again")
}

/// CSV files: the demo's real data and the generated workloads.
pub fn data() -> PathBuf {
    build().join("data")
}

/// `PERDURA_DIR`, the directory on (emulated) persistent memory; /dev/shm/perdura unless set.
pub fn medium() -> PathBuf {
    std::env::var_os("PERDURA_DIR").map_or_else(|| PathBuf::from("/dev/shm/perdura"), PathBuf::from)
}

/// `PERDURA_LOG_DIR`, the directory on (emulated) persistent memory in which pools have their logs,
/// if that is another.
pub fn log_medium() -> Option<PathBuf> {
    std::env::var_os("PERDURA_LOG_DIR").map(PathBuf::from)
}

/// `PERDURA_DISK_DIR`, a directory on a disk for comparisons; `disk` in `build` unless set.
pub fn disk() -> PathBuf {
    std::env::var_os("PERDURA_DISK_DIR").map_or_else(|| build().join("disk"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::checkout_of;

    /// Two checkouts, of which the second is a copy of the first, and a place that is in none.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let place = std::env::temp_dir().join(format!("perdura-paths-{}-{name}", std::process::id()));
            for checkout in ["first", "copy"].map(|name| place.join(name)) {
                for directory in ["tools/src", "target/release"] {
                    std::fs::create_dir_all(checkout.join(directory)).unwrap();
                }
                for file in ["Cargo.lock", "tools/Cargo.toml", "target/release/xtask"] {
                    std::fs::write(checkout.join(file), "").unwrap();
                }
            }
            std::fs::create_dir_all(place.join("none")).unwrap();
            Place(place.canonicalize().unwrap())
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.join(path)
        }

        /// The checkout in which a program acts that is started from directories.
        fn from(&self, start: &[&str], program: &str, shared_target: Option<&str>) -> Result<PathBuf, String> {
            let start: Vec<PathBuf> = start.iter().map(|path| self.at(path)).collect();
            let target = shared_target.map(|path| self.at(path));
            checkout_of(&start, &self.at(program), target.as_deref()).map_err(|error| error.to_string())
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_program_acts_on_the_checkout_it_is_started_in_though_built_in_another() {
        let place = Place::new("copy");
        assert_eq!(place.from(&["copy/tools"], "copy/target/release/xtask", None), Ok(place.at("copy")));
        assert_eq!(place.from(&["copy/tools/src"], "copy/target/release/xtask", None), Ok(place.at("copy")));
        // Started by a program that cargo has started for another package, elsewhere.
        assert_eq!(place.from(&["none", "first"], "first/target/release/xtask", None), Ok(place.at("first")));
        assert_eq!(place.from(&["copy"], "first/target/release/xtask", Some("first/target")), Ok(place.at("copy")));
    }

    #[test]
    fn another_checkouts_program_and_a_place_outside_are_refused() {
        let place = Place::new("other");
        let refused = place.from(&["copy"], "first/target/release/xtask", None).unwrap_err();
        assert!(refused.contains("first/target/release/xtask is the program of another checkout than"), "{refused}");
        let refused = place.from(&["none"], "first/target/release/xtask", None).unwrap_err();
        assert!(refused.starts_with("no checkout of Perdura around "), "{refused}");
    }

    #[test]
    fn the_checkout_of_this_program_is_the_one_that_cargo_runs_it_in() {
        assert_eq!(super::top(), Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).parent().unwrap());
    }
}
