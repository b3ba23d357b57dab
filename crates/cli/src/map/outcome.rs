//! How a command on a map ends: done, or with an exit status and a message.

use super::text;
use perdura_map::ErrorKind;
use std::io;

/// Why a command failed.
pub struct Failure {
    /// The exit status.
    pub status: u8,
    /// Text for standard error; nothing is printed if it is empty.
    pub message: String,
}

/// Result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A failure that says nothing about the map's soundness.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure { status: 2, message: message.into() }
    }
}

impl From<perdura_map::Error> for Failure {
    fn from(error: perdura_map::Error) -> Failure {
        let status = if error.kind() == ErrorKind::Damaged { 1 } else { 2 };
        Failure { status, message: error.to_string() }
    }
}

/// The key has no value.
pub fn absent(key: &[u8]) -> Failure {
    Failure { status: 3, message: format!("{} has no value", text::printable(key)) }
}

/// Turns a failed write to `target` into a failure. A reader that has closed the pipe early, as
/// head does, is none.
pub fn written(outcome: io::Result<()>, target: &str) -> Outcome {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::new(format!("{target} cannot be written: {error}"))),
        Ok(()) => Ok(()),
    }
}
