//! How the commands on maps fail, and with which exit status.

use super::text;
use perdura_map::ErrorKind;
use std::io;

/// Why a command did not do what it should.
pub struct Failure {
    /// The exit status.
    pub status: u8,
    /// What is said; nothing if it is empty.
    pub message: String,
}

impl Failure {
    /// A failure of exit status 2.
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

/// What a command comes to.
pub type Outcome<T = ()> = Result<T, Failure>;

/// `key` has no value.
pub fn absent(key: &[u8]) -> Failure {
    Failure { status: 3, message: format!("{} has no value", text::printable(key)) }
}

/// What a failed write to `target` means. A reader that has seen enough, such as head, is no failure.
pub fn written(outcome: io::Result<()>, target: &str) -> Outcome {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::new(format!("{target} cannot be written: {error}"))),
        Ok(()) => Ok(()),
    }
}
