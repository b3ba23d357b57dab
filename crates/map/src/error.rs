//! Errors, grouped by what the caller must do about them.

use std::fmt;

/// Result of a call on a map.
pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such file: create the map, or correct the name.
    NotFound,
    /// The name is taken.
    Exists,
    /// A layout, setting or argument is out of its range.
    Configuration,
    /// The key or the value is longer than a map takes.
    TooLarge,
    /// The timestamp is not allowed for this operation now.
    Timestamp,
    /// The versions asked for have been forgotten.
    Forgotten,
    /// The region has no room. The operation changed nothing; delete, forget, and collect.
    Full,
    /// The file is not a map, or not one of this kind.
    Foreign,
    /// The file was made by another version of the format.
    Version,
    /// Bytes in the file or in a snapshot are not what they must be.
    Damaged,
    /// The map takes no changes now: a snapshot is being loaded, or one is held that stands in the way.
    ReadOnly,
    /// The medium refused (missing, not DAX, in use, I/O).
    Medium,
}

/// An error: its kind, and a message that names the thing and the remedy.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// An error of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, message: message.into() }
    }

    /// Bytes at `offset` of `file` that cannot be right.
    #[cold]
    pub(crate) fn damaged(file: &str, offset: u64, what: impl fmt::Display) -> Error {
        let remedy = "restore the file from a backup, or load a snapshot of another replica into a new one";
        Error::new(ErrorKind::Damaged, format!("{file} at offset {offset}: {what}; {remedy}"))
    }

    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<perdura_pmem::Error> for Error {
    fn from(error: perdura_pmem::Error) -> Error {
        let kind = match &error {
            perdura_pmem::Error::NotFound { .. } => ErrorKind::NotFound,
            perdura_pmem::Error::Exists { .. } => ErrorKind::Exists,
            perdura_pmem::Error::Full { .. } => ErrorKind::Full,
            perdura_pmem::Error::Poisoned { .. } => ErrorKind::Damaged,
            _ => ErrorKind::Medium,
        };
        Error::new(kind, error.to_string())
    }
}
