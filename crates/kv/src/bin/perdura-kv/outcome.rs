//! How a command ends.

use perdura_kv::server::pool::StartError;

/// Why a command was not carried out: the exit status and what is said.
#[derive(Debug)]
pub(crate) struct Failure {
    pub status: u8,
    pub text: String,
}

pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    /// It could not be done.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Self { status: 2, text: text.into() }
    }

    /// The data are damaged.
    pub(crate) fn damaged(text: impl Into<String>) -> Self {
        Self { status: 1, text: text.into() }
    }
}

impl From<StartError> for Failure {
    fn from(start_error: StartError) -> Self {
        match start_error {
            StartError::Damaged(text) => Failure::damaged(text),
            StartError::Refused(text) => Failure::refused(text),
        }
    }
}
