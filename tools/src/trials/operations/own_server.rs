//! Tests `make server` as a newcomer meets it: does what the command prints, stops it, and starts
//! it again.
//!
//! The hazards: the printed command does not connect; a stop by signal loses rows; a second server
//! starts on the same directory; the command writes to somebody else's directory.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::shared::paths;

/// Runs the command on a directory of its own.
pub fn run() -> Result<()> {
    let place = paths::medium().join(format!("server-{}-own", std::process::id()));
    std::fs::create_dir_all(&place)?;
    let outcome = try_out(&place);
    std::fs::remove_dir_all(&place)?;
    outcome
}

fn try_out(place: &Path) -> Result<()> {
    let directory = place.join("mine");
    let first = Running::start(&directory)?;
    let printed = first.printed.clone();
    let (client, statements) = printed.split_first().context("nothing printed to connect with")?;
    ensure!(statements.iter().any(|line| line.contains("ENGINE=Perdura")), "no example: {statements:?}");
    let rows = shell(client, &statements.join("\n"))?;
    ensure!(rows.contains("UA\t1400") && rows.contains("AA\t1089"), "the example shows {rows}");

    refused(&directory, "is running on")?;
    first.stop()?;
    ensure!(!directory.join("s").exists(), "the server was not shut down: its socket is still there");

    let again = Running::start(&directory)?;
    let rows = shell(client, "SELECT carrier, miles FROM flights WHERE miles = 1400")?;
    ensure!(rows.contains("UA\t1400"), "after the restart: {rows}");
    again.stop()?;

    std::fs::write(directory.join("made-by"), "11.4.2-1\n")?;
    refused(&directory, "belongs to MariaDB 11.4.2-1")?;
    let foreign = place.join("foreign");
    std::fs::create_dir(&foreign)?;
    std::fs::write(foreign.join("letter"), "of somebody else")?;
    refused(&foreign, "did not make")?;
    ensure!(std::fs::read_dir(&foreign)?.count() == 1, "something was put into a directory of somebody else");
    refused(&foreign.join("letter/server"), "cannot be made")?;
    refused(&place.join("a server"), "no path with a space")?;
    refused(&place.join("x".repeat(100)), "socket")
}

/// A running server, and the indented lines that it printed: the client's command, then statements
/// to try.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    printed: Vec<String>,
}

impl Running {
    fn start(directory: &Path) -> Result<Running> {
        let mut child = command(directory)?.stdout(Stdio::piped()).spawn()?;
        let mut output = BufReader::new(child.stdout.take().context("no output")?);
        let mut printed = Vec::new();
        loop {
            let mut line = String::new();
            ensure!(output.read_line(&mut line)? > 0, "the server ended at start: {}", child.wait()?);
            if line.starts_with("Ctrl-C") {
                return Ok(Running { child, output, printed });
            }
            printed.extend(line.strip_prefix("    ").map(|line| line.trim_end().to_owned()));
        }
    }

    /// Stops it with SIGTERM, as an init system would.
    fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("no process id")?;
        kill_process(pid, Signal::TERM)?;
        let mut rest = String::new();
        self.output.read_to_string(&mut rest)?;
        let status = self.child.wait()?;
        ensure!(status.success() && rest.contains("has shut down"), "after SIGTERM: {status}: {rest}");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // On failure the kernel still tells the server to shut down.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(directory: &Path) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("server").arg("--dir").arg(directory);
    Ok(command)
}

/// Checks that the command fails and says why.
fn refused(directory: &Path, why: &str) -> Result<()> {
    let output = command(directory)?.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && said.contains(why), "{}: expected `{why}`, got: {said}", directory.display());
    Ok(())
}

/// Runs a line as a user's shell would, with `input` on its standard input; returns its output.
fn shell(line: &str, input: &str) -> Result<String> {
    let mut child =
        Command::new("sh").args(["-c", line]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("sh")?;
    child.stdin.take().context("no input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{line}: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
