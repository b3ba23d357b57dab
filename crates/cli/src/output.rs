//! Lines on standard output. A full device behind it ends no command half-way: the first failure is
//! told on standard error, and a reader that has gone away is none.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write, stdout};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

static FAILED: AtomicBool = AtomicBool::new(false);

/// Writes a line, as `println!` does where nothing fails.
macro_rules! say {
    ($($part:tt)*) => { $crate::output::line(format_args!($($part)*)) };
}
pub(crate) use say;

/// Writes a line.
pub fn line(text: Arguments<'_>) {
    let mut out = stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
        && !FAILED.swap(true, Ordering::Relaxed)
    {
        eprintln!("perdura: standard output cannot be written: {error}");
    }
}

/// Exit status of a command that has done nothing but to write lines.
pub fn status() -> ExitCode {
    ExitCode::from(if FAILED.load(Ordering::Relaxed) { 2 } else { 0 })
}
