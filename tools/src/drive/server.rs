//! A private mariadbd: its own data directory and Unix socket under the medium's directory, no
//! network, removed on drop.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use mysql::Conn;
use mysql::prelude::Queryable;

use crate::drive::mariadbd;

use crate::shared::args::Args;
use crate::shared::{client, paths, process};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);

/// How a server is started.
#[derive(Clone, Default)]
pub struct Options {
    /// Loads our plugin, with its pool beside the data directory.
    pub perdura: bool,
    /// Where its directory is made, and that of the pool's log, if not where the environment says.
    pub place: Option<Place>,
    /// Further options of mariadbd.
    pub extra: Vec<String>,
    /// Keeps InnoDB's redo log on a tmpfs of the server's own. InnoDB maps its log as persistent
    /// memory only on /dev/shm, so here it writes the log with pwrite. The log is gone with the
    /// process, so such a server cannot start again.
    pub own_log_mount: bool,
    /// Reads its configuration from `my.cnf` in this directory and its plugins from `plugins`
    /// there.
    pub installed: Option<PathBuf>,
}

/// The media of a server, and how its pool writes to them.
#[derive(Clone)]
pub struct Place {
    pub medium: PathBuf,
    /// Of the pool's log, if that is another.
    pub log: Option<PathBuf>,
    /// Ways of the pool's records to its log, by turns: another at each start.
    pub log_paths: Vec<String>,
}

impl Place {
    pub fn new(medium: PathBuf, log: Option<PathBuf>) -> Place {
        Place { medium, log, log_paths: Vec::new() }
    }

    /// That which the environment names.
    pub fn of_environment() -> Place {
        Place::new(paths::medium(), paths::log_medium())
    }

    /// That which the option `--placement` names: `page` is a disk, `split` a disk with the log in
    /// memory; without it that of the environment. `--log-path` names a way to the log, or several
    /// with commas in between. `None`, which is said, where the disk's directory is in DRAM: there
    /// nothing can be tried.
    pub fn wanted(command: &str, args: &mut Args) -> Result<Option<Place>> {
        let name: Option<String> = args.option("--placement")?;
        let log_paths: Option<String> = args.option("--log-path")?;
        let log_paths = log_paths.iter().flat_map(|names| names.split(',')).map(str::to_owned).collect();
        let log = match name.as_deref() {
            None => return Ok(Some(Place { log_paths, ..Place::of_environment() })),
            Some("page") => None,
            Some("split") => Some(paths::log_medium().unwrap_or_else(paths::medium)),
            Some(other) => bail!("--placement {other}: page or split"),
        };
        let medium = paths::disk();
        std::fs::create_dir_all(&medium).with_context(|| medium.display().to_string())?;
        if process::is_in_dram(&medium) {
            println!(
                "{command}: left out, since {} is in DRAM: PERDURA_DISK_DIR names a directory on a disk",
                medium.display()
            );
            return Ok(None);
        }
        println!("{command}: data in {}{}", medium.display(), if log.is_some() { ", log in memory" } else { "" });
        Ok(Some(Place { medium, log, log_paths }))
    }
}

/// Mounts a tmpfs at $1 in a mount namespace of the server alone, moves the redo log at $2 there
/// and becomes the server.
const WITH_OWN_LOG: &str = r#"set -e; mount -t tmpfs tmpfs "$1"; cp "$2" "$1/"; shift 2; exec "$@""#;

/// A server's directory and, while it runs, its process.
///
/// Invariants:
/// - Only processes started here are ended, by their pid. The server dies with the thread that
///   started it (parent-death signal), so the main thread starts it.
/// - Nothing of the machine's own server or configuration is read (`--no-defaults`) or touched.
/// - The directory is named after this process. The next start removes those of dead processes,
///   kept ones too.
pub struct Server {
    dir: PathBuf,
    /// Directory of the pool's log, if that is another.
    log: Option<PathBuf>,
    options: Options,
    child: Option<Child>,
    keep: bool,
    starts: usize,
}

impl Server {
    /// Creates a data directory without starting a server.
    pub fn create(options: Options) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let place = options.place.clone().unwrap_or_else(Place::of_environment);
        for medium in std::iter::once(&place.medium).chain(&place.log) {
            std::fs::create_dir_all(medium).with_context(|| format!("the medium {}", medium.display()))?;
            remove_leftovers(medium)?;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let own = |medium: &PathBuf| medium.join(format!("server-{}-{number}", std::process::id()));
        let (dir, log) = (own(&place.medium), place.log.as_ref().map(own));
        for needed in [dir.join("pool"), dir.join("tmp")].iter().chain(&log) {
            std::fs::create_dir_all(needed)?;
        }
        let server = Self { dir, log, options, child: None, keep: false, starts: 0 };
        mariadbd::install(&server.dir.join("data"))?;
        Ok(server)
    }

    /// Creates a data directory and starts a server on it.
    pub fn start_new(options: Options) -> Result<Self> {
        let mut server = Self::create(options)?;
        server.start()?;
        Ok(server)
    }

    /// Starts once more with further options, which count this time only.
    pub fn try_start(&mut self, extra: &[String]) -> Result<Duration> {
        let own = self.options.extra.len();
        self.options.extra.extend_from_slice(extra);
        let started = self.start();
        self.options.extra.truncate(own);
        started
    }

    /// The server's directory: its data in `data`, its pool in `pool`.
    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// The Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("s")
    }

    /// The server's process id; it must be running.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server runs").id()
    }

    /// Opens a session.
    pub fn connect(&self) -> Result<Conn> {
        client::connect(&self.socket()).with_context(|| self.log_tail())
    }

    fn command(&self) -> Result<Command> {
        let at = |name: &str| self.dir.join(name).display().to_string();
        let mut command = if self.options.own_log_mount {
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", WITH_OWN_LOG, "sh", &at("log"), &at("data/ib_logfile0"), "setpriv"]);
            command
        } else {
            Command::new("setpriv")
        };
        command.args(["--pdeathsig", "KILL"]).arg(paths::mariadb()?.join("sbin/mariadbd"));
        let (defaults, plugins) = match &self.options.installed {
            Some(place) => (format!("--defaults-file={}", place.join("my.cnf").display()), place.join("plugins")),
            None => ("--no-defaults".to_owned(), paths::server_plugins()?),
        };
        command.arg(defaults);
        if self.options.own_log_mount {
            std::fs::create_dir_all(self.dir.join("log"))?;
            command.arg(format!("--innodb-log-group-home-dir={}", at("log")));
        }
        command.arg(format!("--plugin-dir={}", plugins.display()));
        mariadbd::add_places(&mut command, &self.dir, &self.socket())?;
        command.args(["--skip-networking", "--local-infile=1", "--secure-file-priv="]);
        command.args(["--innodb-buffer-pool-dump-at-shutdown=0", "--innodb-buffer-pool-load-at-startup=0"]);
        command.arg("--plugin-load-add=ha_blackhole");
        if self.options.perdura {
            mariadbd::add_perdura(&mut command, &self.dir, self.log.as_deref());
            let paths = self.options.place.iter().flat_map(|place| &place.log_paths);
            let ways: Vec<String> = paths.map(|path| format!("--perdura-log-path={path}")).collect();
            command.args(ways.get(self.starts % ways.len().max(1)));
        }
        command.args(&self.options.extra).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    /// Starts and waits until a session opens. Returns the time from the start of the process to
    /// that session.
    pub fn start(&mut self) -> Result<Duration> {
        ensure!(self.child.is_none(), "the server runs already");
        let begun = Instant::now();
        self.child = Some(self.command()?.spawn().context("cannot run setpriv (package util-linux)")?);
        self.starts += 1;
        loop {
            if let Ok(connection) = client::connect(&self.socket()) {
                let took = begun.elapsed();
                drop(connection);
                return Ok(took);
            }
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().transpose()) {
                self.child = None;
                bail!("mariadbd ended at start: {}\n{}", status?, self.log_tail());
            }
            if begun.elapsed() > START_TIMEOUT {
                self.kill()?;
                bail!("mariadbd is not ready after {START_TIMEOUT:?}\n{}", self.log_tail());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Shuts the server down in the ordinary way. Fails if it ends otherwise or not at all.
    pub fn stop(&mut self) -> Result<()> {
        let mut connection = self.connect()?;
        connection.query_drop("SHUTDOWN").context("SHUTDOWN")?;
        drop(connection);
        let begun = Instant::now();
        loop {
            let Some(child) = self.child.as_mut() else { return Ok(()) };
            if let Some(status) = child.try_wait()? {
                self.child = None;
                ensure!(status.success(), "mariadbd ended badly at shutdown: {status}\n{}", self.log_tail());
                return Ok(());
            }
            if begun.elapsed() > STOP_TIMEOUT {
                self.kill()?;
                bail!("mariadbd does not shut down in {STOP_TIMEOUT:?}\n{}", self.log_tail());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Shuts the server down and starts it on the same data, with further options.
    pub fn restart_with(&mut self, extra: &[&str]) -> Result<()> {
        self.stop()?;
        self.options.extra.extend(extra.iter().map(|&option| option.to_owned()));
        self.start().map(drop)
    }

    /// A path in the server's directory where nothing exists, for a test's own files. They are
    /// removed with the directory.
    pub fn free_path(&self, name: &str) -> PathBuf {
        let path = self.dir.join(name);
        // An empty directory may exist.
        let _ = std::fs::remove_dir(&path);
        path
    }

    /// Keeps the directory on drop, for inspection, and returns its path.
    pub fn keep(&mut self) -> &Path {
        self.keep = true;
        &self.dir
    }

    /// The whole error log.
    pub fn log(&self) -> String {
        mariadbd::log(&self.dir)
    }

    /// The end of the error log, for messages.
    pub fn log_tail(&self) -> String {
        mariadbd::log_tail(&self.dir)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // On failure the next start removes what is left.
        let _ = self.kill();
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.dir);
            self.log.iter().for_each(|log| drop(std::fs::remove_dir_all(log)));
        }
    }
}

/// Removes the directories `server-PID-N` and `mtr-PID` of dead processes from the medium's
/// directory.
pub fn remove_leftovers(medium: &Path) -> Result<()> {
    for entry in std::fs::read_dir(medium)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let rest = name.strip_prefix("server-").or_else(|| name.strip_prefix("mtr-"));
        let pid = rest.and_then(|rest| rest.split('-').next()).and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            match std::fs::remove_dir_all(entry.path()) {
                // Another test may have removed it at the same time.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed.with_context(|| entry.path().display().to_string())?,
            }
        }
    }
    Ok(())
}
