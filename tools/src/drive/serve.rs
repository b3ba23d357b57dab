//! `cargo xtask server`: the unpacked MariaDB with our plugin, on a directory of the user's, until
//! it is interrupted.
//!
//! The servers of tests are made for one run and removed (server.rs); this one keeps its data. It
//! runs in its own process group, so an interrupt at the terminal reaches only this process, which
//! then shuts the server down in the ordinary way. If this process is killed, the kernel tells the
//! server to shut down (parent-death signal).

mod directory;

use std::net::TcpListener;
use std::num::NonZeroU16;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use directory::Directory;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::drive::{mariadbd, plugin};
use crate::shared::args::Args;
use crate::shared::{client, paths};

/// How long a server may take to start: recovery of a large InnoDB log takes long. A server that
/// ends is noticed at once.
const START_TIMEOUT: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(20);

const EXAMPLE: &str = "    CREATE TABLE flights (carrier CHAR(2), miles INT) ENGINE=Perdura;
    INSERT INTO flights VALUES ('UA', 1400), ('AA', 1089);
    SELECT * FROM flights;";

/// `server [--dir DIR] [--port N]`: DIR is `server` in PERDURA_DIR unless named; without a port
/// there is only the socket.
pub fn run(mut args: Args) -> Result<()> {
    let path = args.option::<PathBuf>("--dir")?.unwrap_or_else(|| paths::medium().join("server"));
    let port = args.option::<NonZeroU16>("--port").context("a port is a number from 1 to 65535")?.map(NonZeroU16::get);
    args.finish()?;
    let directory = Directory::claim(&path)?;
    plugin::build()?;
    if let Some(port) = port {
        TcpListener::bind(("127.0.0.1", port)).with_context(|| format!("port {port} cannot be used"))?;
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted)).context("cannot wait for signals")?;
    }
    let mut child = start(&directory, port)?;
    if wait_until_ready(&mut child, &directory, &interrupted)? {
        greet(&directory, port);
    }
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "{}", ended(status, &directory));
            println!("\nThe server has shut down; its data are in {}.", directory.path().display());
            return Ok(());
        }
        if interrupted.swap(false, Ordering::SeqCst) {
            println!("\nStopping the server.");
            let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("the server has no process id")?;
            kill_process(pid, Signal::TERM).context("the server cannot be stopped")?;
        }
        std::thread::sleep(POLL);
    }
}

fn start(directory: &Directory, port: Option<u16>) -> Result<Child> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM"]).arg(paths::mariadb()?.join("sbin/mariadbd")).arg("--no-defaults");
    command.arg(format!("--plugin-dir={}", paths::server_plugins()?.display()));
    mariadbd::add_places(&mut command, directory.path(), &directory.socket())?;
    mariadbd::add_perdura(&mut command, directory.path(), None);
    // Without the engine the server would hide its tables.
    command.args(["--perdura=FORCE", "--local-infile=1"]);
    match port {
        Some(port) => command.arg("--bind-address=127.0.0.1").arg(format!("--port={port}")),
        None => command.arg("--skip-networking"),
    };
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("cannot run setpriv (package util-linux)")
}

/// Waits until the server answers. Returns false if an interrupt came first.
fn wait_until_ready(child: &mut Child, directory: &Directory, interrupted: &AtomicBool) -> Result<bool> {
    let begun = Instant::now();
    while !interrupted.load(Ordering::SeqCst) {
        // A refusal, since the user has set a password, is an answer too.
        if matches!(client::connect(&directory.socket()), Ok(_) | Err(mysql::Error::MySqlError(_))) {
            return Ok(true);
        }
        if let Some(status) = child.try_wait()? {
            bail!("{}", ended(status, directory));
        }
        if begun.elapsed() > START_TIMEOUT {
            child.kill()?;
            child.wait()?;
            bail!("mariadbd is not ready after {START_TIMEOUT:?}\n{}", mariadbd::log_tail(directory.path()));
        }
        std::thread::sleep(POLL);
    }
    Ok(false)
}

fn ended(status: ExitStatus, directory: &Directory) -> String {
    let (path, tail) = (directory.path().join("server.err"), mariadbd::log_tail(directory.path()));
    format!("mariadbd ended: {status}; the end of its log, {}:\n{tail}", path.display())
}

fn greet(directory: &Directory, port: Option<u16>) {
    let medium = client::connect(&directory.socket()).ok().and_then(|mut session| client::medium(&mut session).ok()?);
    println!("\nMariaDB with ENGINE=Perdura is running. Its data are in {}", directory.path().display());
    if let Some(medium) = medium {
        println!("on the medium: {medium}");
    }
    println!("\nConnect from another terminal:\n\n    {}\n", client_command(&directory.socket()));
    println!("and try:\n\n{EXAMPLE}\n");
    if let Some(port) = port {
        println!("It also listens on 127.0.0.1:{port}. The account root has no password: every user of this machine");
        println!("can connect there until you set one.\n");
    }
    println!("Ctrl-C stops it; the same command starts it again with its data.");
}

/// The unpacked client's path, quoted for a shell.
fn client_command(socket: &Path) -> String {
    let client = paths::build().join("mariadb/usr/bin/mariadb");
    format!("{} --no-defaults --user=root --socket={} test", quoted(&client), quoted(socket))
}

fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@,=".contains(letter);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn a_shell_takes_every_path_as_one_word() {
        assert_eq!(super::quoted(Path::new("/dev/shm/a-b.c/s")), "/dev/shm/a-b.c/s");
        assert_eq!(super::quoted(Path::new("/my disk/it's")), r"'/my disk/it'\''s'");
    }
}
