//! `limited PROGRAM ...`: runs a program of tests as cargo's runner, for a limited time. One that
//! hangs fails, with the stacks of its threads, and the others go on.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::shared::process;

/// The longest one takes two minutes alone, and five beside other work.
const PROGRAM_MAX: Duration = Duration::from_secs(15 * 60);

/// The setting with which cargo runs its programs so.
pub(super) fn as_runner(own: &Path) -> String {
    format!("target.'cfg(all())'.runner = [{:?}, \"limited\"]", own.display().to_string())
}

/// Fails unless the program ends well, and in time.
pub fn run(words: &[String]) -> Result<()> {
    let (program, words) = words.split_first().context("limited: name a program")?;
    let mut child = Command::new(program).args(words).stdin(Stdio::null()).spawn().with_context(|| program.clone())?;
    let status = process::wait_at_most(&mut child, PROGRAM_MAX)?;
    let status = status.with_context(|| format!("{program} was ended after {} minutes", PROGRAM_MAX.as_secs() / 60))?;
    ensure!(status.success(), "{program}: {status}");
    Ok(())
}
