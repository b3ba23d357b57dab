//! Errors of the log, grouped by what the caller must do.
//!
//! Each names the file and offset where there is one, the value seen and the remedy.

use std::fmt;

/// Result of a call on the log.
pub type Result<T> = std::result::Result<T, Error>;

/// Kinds of errors, by the caller's remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting is out of range: correct it.
    Configuration,
    /// All generations are in use and the log cannot grow: roll the transaction back, end long
    /// ones, or raise the limit.
    LogFull,
    /// A group is longer than a lane, or a transaction has too many chunks: write the redo in
    /// chunks, or in smaller transactions.
    TooLarge,
    /// The pool failed stop and takes no more changes: remove the cause and recover it.
    FailStop,
    /// The file is not the superblock of a pool: choose the directory of one, or restore the file.
    NotAPool,
    /// A newer build wrote the pool: use that build.
    NewerFormat,
    /// Bytes of the pool are not what they must be: restore it from a backup.
    Damaged,
    /// The device may have lost data since the pool was last opened: check the pool, then accept.
    UnsafeShutdown,
    /// The device has no room: free some. Only the call has failed.
    DeviceFull,
    /// The medium refused: its own error is the source.
    Medium,
}

perdura_pmem::error_type!(ErrorKind);

impl Error {
    /// Bytes at `offset` of `file` that cannot be right; `seen` says what they are and what to do.
    #[cold]
    pub(crate) fn damaged(file: impl Into<String>, offset: u64, seen: impl fmt::Display) -> Error {
        let file = file.into();
        Error::new(ErrorKind::Damaged, format!("{file} at offset {offset}: {seen}")).in_file(file).at(offset)
    }

    /// Something needs `wanted` bytes or pieces where at most `limit` are possible.
    #[cold]
    pub(crate) fn too_large(wanted: u64, limit: u64) -> Error {
        let message = format!("a log record needs {wanted} where {limit} is the most; commit in smaller transactions");
        Error::new(ErrorKind::TooLarge, message)
    }

    /// The pool stopped for `reason`.
    #[cold]
    pub(crate) fn fail_stop(reason: &str) -> Error {
        let message = format!(
            "the pool is read-only since a failure: {reason}; remove the cause and restart the server, which recovers it"
        );
        Error::new(ErrorKind::FailStop, message)
    }
}

impl From<perdura_pmem::Error> for Error {
    #[cold]
    fn from(error: perdura_pmem::Error) -> Error {
        let kind = match error.kind() {
            perdura_pmem::ErrorKind::Full => ErrorKind::DeviceFull,
            _ => ErrorKind::Medium,
        };
        Error(error.pass_on(kind))
    }
}
