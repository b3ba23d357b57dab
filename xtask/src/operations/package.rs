//! Installs the package on a fresh server by the commands in the text of the two READMEs.
//!
//! The hazard: steps that do not work as written. The known absolute paths of a command are replaced by ones in the test's directory;
//! a command with any other absolute path is not run. Three of the machine's programs are replaced: `mariadb` connects to the test's
//! server, `apt-get` only checks that the package is installed, and the test itself does the work of `systemctl`.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use mysql::prelude::Queryable;

use crate::server::{Options, Server};
use crate::{client, package, paths, plugin, process};

const RESTART: &str = "systemctl restart mariadb";
/// Start of the step for machines without persistent memory.
const EMULATE: &str = "sed ";
const APT_GET: &str = r#"[ "$1" = install ] || exit 1
for name in "$2" "$2t64"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] && exit 0
done
echo "$2 is not installed" >&2; exit 1"#;

/// Makes the package and follows the READMEs.
pub fn run() -> Result<()> {
    let archive = package::make()?;
    let place = paths::medium().join(format!("server-{}-package", std::process::id()));
    std::fs::create_dir_all(&place)?;
    let outcome = try_out(&archive, &place);
    std::fs::remove_dir_all(&place)?;
    outcome
}

fn try_out(archive: &Path, place: &Path) -> Result<()> {
    let ours = std::fs::read_to_string(paths::top().join("README.md"))?;
    let (statements, commands): (Vec<_>, Vec<_>) =
        commands(&ours, "## Using it").into_iter().partition(|line| line.ends_with(';'));
    let unpack =
        commands.iter().find(|line| line.starts_with("tar ")).context("README.md does not unpack the package")?;
    let unpacked = unpack_as_written(unpack, archive, place)?;
    package::check_links(&unpacked)?;

    let mut machine = Machine::new(place, &unpacked)?;
    let readme = std::fs::read_to_string(unpacked.join("README.md"))?;
    let steps = self::commands(&readme, "## Installing");
    for needed in ["apt-get install libpmem2", "ha_perdura.so", "perdura.cnf", RESTART, "CREATE TABLE"] {
        ensure!(
            steps.iter().any(|step| step.contains(needed)),
            "no step of the package's README has `{needed}`: {steps:?}"
        );
    }
    for step in &steps {
        machine.take(step).with_context(|| format!("a step of the package's README: {step}"))?;
    }
    client::execute(&mut machine.server.connect()?, &statements)?;
    machine.keeps_its_rows()
}

/// Runs README.md's command in a directory with a `build` like the checkout's; returns where it leads.
fn unpack_as_written(command: &str, archive: &Path, place: &Path) -> Result<PathBuf> {
    let top = place.join("top");
    std::fs::create_dir_all(top.join("build"))?;
    symlink(archive, top.join("build").join(archive.file_name().context("the package has no name")?))?;
    let shown = process::output(Command::new("sh").arg("-ec").arg(format!("{command}\npwd")).current_dir(&top))?;
    Ok(PathBuf::from(shown.trim_end()))
}

/// The indented lines of a section: its commands, without the comments after them.
fn commands(text: &str, heading: &str) -> Vec<String> {
    let section = text.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with("## "));
    let code = section.filter_map(|line| line.strip_prefix("    "));
    code.map(|line| line.split("  # ").next().unwrap_or(line).trim().to_owned()).collect()
}

/// A server, and the directories that the steps change.
struct Machine {
    place: PathBuf,
    unpacked: PathBuf,
    server: Server,
    /// Paths and owners in the READMEs, and their replacements.
    moved: Vec<(&'static str, String)>,
}

impl Machine {
    /// A running server that knows nothing of the engine yet.
    fn new(place: &Path, unpacked: &Path) -> Result<Machine> {
        for name in ["programs", "local", "conf.d", "plugins"] {
            std::fs::create_dir(place.join(name))?;
        }
        let library = Path::new(plugin::LIBRARY).with_extension("so");
        for entry in std::fs::read_dir(paths::server_plugins()?)? {
            let entry = entry?;
            if entry.file_name() != library.as_os_str() {
                symlink(entry.path(), place.join("plugins").join(entry.file_name()))?;
            }
        }
        let configuration = format!("!includedir {}\n", place.join("conf.d").display());
        std::fs::write(place.join("my.cnf"), configuration)?;
        let server = Server::start_new(Options { installed: Some(place.to_owned()), ..Options::default() })?;
        let owner = std::fs::metadata(place)?;
        let at = |name: &str| place.join(name).display().to_string();
        let moved = vec![
            ("/usr/local/bin", at("local")),
            ("/etc/mysql/mariadb.conf.d", at("conf.d")),
            ("/mnt/pmem0/perdura", at("pool")),
            ("-o mysql -g mysql", format!("-o {} -g {}", owner.uid(), owner.gid())),
        ];
        let client = paths::mariadb()?.join("bin/mariadb");
        let connect = format!(
            "exec {} --no-defaults --user=root --socket={} \"$@\"",
            client.display(),
            server.socket().display()
        );
        let machine = Machine { place: place.to_owned(), unpacked: unpacked.to_owned(), server, moved };
        machine.program("mariadb", &connect)?;
        machine.program("apt-get", APT_GET)?;
        // Its directory is the one line of the configuration that a user changes.
        let file = unpacked.join("perdura.cnf");
        let configuration = std::fs::read_to_string(&file)?;
        std::fs::write(&file, machine.here(&configuration))?;
        Ok(machine)
    }

    fn program(&self, name: &str, text: &str) -> Result<()> {
        let path = self.place.join("programs").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n"))?;
        Ok(std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?)
    }

    fn here(&self, text: &str) -> String {
        self.moved.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    /// Follows a step of the package's README.
    fn take(&mut self, step: &str) -> Result<()> {
        if step == RESTART {
            self.server.stop()?;
            self.server.start()?;
            return Ok(());
        }
        if step.starts_with(EMULATE) && process::is_dax(&self.place) {
            return Ok(());
        }
        let command = self.here(step);
        let outside = |word: &&str| word.starts_with('/') && !Path::new(word).starts_with(&self.place);
        let words = command.split([' ', '"', '\'', '=']);
        ensure!(words.filter(outside).count() == 0, "the test knows no place of its own for a path in it: {command}");
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.place.join("programs").display());
        process::output(Command::new("sh").args(["-ec", &command]).env("PATH", path).current_dir(&self.unpacked))?;
        Ok(())
    }

    /// Checks that rows survive a restart, that the command reads the pool, and that the server does not start without the pool.
    fn keeps_its_rows(mut self) -> Result<()> {
        let statement = "INSERT INTO t VALUES (1, 'one'), (2, 'two')";
        self.server.connect()?.query_drop(statement).context(statement)?;
        self.server.stop()?;
        let (pool, aside) = (self.place.join("pool"), self.place.join("pool.aside"));
        process::output(Command::new(self.place.join("local/perdura")).arg("check").arg(&pool))?;
        std::fs::rename(&pool, &aside)?;
        ensure!(self.server.start().is_err(), "the server started although the pool's directory is missing");
        ensure!(self.server.log().contains("does not exist"), "the log does not say what is missing");
        std::fs::rename(&aside, &pool)?;
        self.server.start()?;
        let rows: Vec<(i32, String)> = self.server.connect()?.query("SELECT id, name FROM t ORDER BY id")?;
        ensure!(rows == [(1, "one".to_owned()), (2, "two".to_owned())], "after the restart: {rows:?}");
        ensure!(self.server.log().contains("perdura backup"), "the log does not say how to back up");
        self.server.stop()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn commands_are_the_indented_lines_of_their_section() {
        let text = "    no\n## A\ntext\n    make x   # why\n1. Do it:\n\n       cp a b\n   more\n## B\n    no\n";
        assert_eq!(super::commands(text, "## A"), ["make x", "cp a b"]);
    }
}
