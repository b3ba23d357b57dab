//! A machine for the steps of the package's README: a server that knows nothing of the engine yet,
//! and a directory for each place that they change.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use mysql::prelude::Queryable;

use crate::drive::plugin;
use crate::drive::server::{Options, Server};
use crate::shared::{paths, process};

/// The step that the test does itself.
pub const RESTART: &str = "systemctl restart mariadb";
/// The step that has no effect here.
pub const RELOAD: &str = "systemctl daemon-reload";
/// Start of the step for machines without persistent memory.
const EMULATE: &str = "sed ";
const APT_GET: &str = r#"[ "$1" = install ] || exit 1
for name in "$2" "$2t64"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = installed ] && exit 0
done
echo "$2 is not installed" >&2; exit 1"#;

/// A server, and the directories that the steps change.
pub struct Machine {
    place: PathBuf,
    unpacked: PathBuf,
    server: Server,
    /// Paths and owners in the READMEs, and their replacements.
    moved: Vec<(&'static str, String)>,
}

impl Machine {
    /// A running server that knows nothing of the engine yet.
    pub fn new(place: &Path, unpacked: &Path) -> Result<Machine> {
        for name in ["programs", "local", "conf.d", "plugins", "apt.conf.d"] {
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
            ("/usr/local/lib/perdura", at("home")),
            ("/etc/systemd/system", at("systemd")),
            ("/etc/apt/apt.conf.d", at("apt.conf.d")),
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
        machine.program("mariadbd", &format!("exec {} \"$@\"", paths::mariadb()?.join("sbin/mariadbd").display()))?;
        machine.program("my_print_defaults", &machine.defaults()?)?;
        // Its directory is the one line of the configuration that a user changes.
        let file = unpacked.join("perdura.cnf");
        let configuration = std::fs::read_to_string(&file)?;
        std::fs::write(&file, machine.here(&configuration))?;
        Ok(machine)
    }

    /// Makes one of the test's own programs, from a text for the shell.
    pub fn program(&self, name: &str, text: &str) -> Result<()> {
        let path = self.place.join("programs").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n"))?;
        Ok(std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?)
    }

    /// The text of one of them.
    pub fn program_text(&self, name: &str) -> Result<String> {
        let text = std::fs::read_to_string(self.place.join("programs").join(name))?;
        Ok(text.trim_start_matches("#!/bin/sh\n").trim_end().to_owned())
    }

    /// A text with the places of the README replaced by those of the test.
    pub fn here(&self, text: &str) -> String {
        self.moved.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    /// `my_print_defaults` for the test's configuration, and for what the test passes on the
    /// server's command line.
    fn defaults(&self) -> Result<String> {
        let program = paths::mariadb()?.join("bin/my_print_defaults");
        let (file, plugins) = (self.place.join("my.cnf"), self.place.join("plugins"));
        let log = self.server.directory().join("server.err");
        Ok(format!(
            "echo --plugin-dir={}; echo --log-error={}; exec {} --defaults-file={} \"$@\"",
            plugins.display(),
            log.display(),
            program.display(),
            file.display()
        ))
    }

    /// A shell command, with the test's programs before the machine's.
    pub fn shell(&self, command: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", self.place.join("programs").display());
        let mut shell = Command::new("sh");
        shell.args(["-ec", command]).env("PATH", path).current_dir(&self.unpacked);
        shell
    }

    /// Follows a step of the package's README.
    pub fn take(&mut self, step: &str) -> Result<()> {
        if step == RELOAD {
            return Ok(());
        }
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
        // Debian's server has no database `test`. The test itself opens its sessions there.
        let mut session = self.server.connect()?;
        session.query_drop("DROP DATABASE test")?;
        process::output(&mut self.shell(&command))?;
        Ok(session.query_drop("CREATE DATABASE test")?)
    }

    /// The server.
    pub fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// A path in the test's directory.
    pub fn at(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }
}
