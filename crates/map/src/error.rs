//! Errors of maps, grouped by what the caller must do.

use std::fmt;

/// Result of a call on a map.
pub type Result<T> = std::result::Result<T, Error>;

/// Kinds of errors, by the caller's remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such file: create the map, or correct the name.
    NotFound,
    /// The name is taken: open the map, or choose another name.
    Exists,
    /// A layout, setting or argument is out of range: correct it.
    Configuration,
    /// The key or the value is longer than a map takes: store less, or split it.
    TooLarge,
    /// The operation does not accept this timestamp now: choose one from the range in the message.
    Timestamp,
    /// The versions asked for are forgotten: read at a later timestamp.
    Forgotten,
    /// The region has no room. The operation has changed nothing. Delete, forget and collect.
    Full,
    /// The file is not a map, or a map of the other kind: name the right file.
    Foreign,
    /// The file has another version of the format: use the build that made it.
    Version,
    /// Bytes in the file or in a snapshot fail their check: restore the file, or ask for a new
    /// snapshot.
    Damaged,
    /// The map takes no changes now: wait until the snapshot is loaded or released; or, once it has
    /// used up its numbers, copy it to a new file.
    ReadOnly,
    /// The map was emptied for a load that has not ended: load a snapshot.
    Partial,
    /// The snapshot held more garbage than its limit: take a new one.
    Expired,
    /// The medium refused (not DAX, in use, I/O), or the system refused to start a thread: the
    /// source says why.
    Medium,
}

perdura_pmem::error_type!(ErrorKind);

impl Error {
    /// The error for bytes at `offset` of `file` that fail a check.
    #[cold]
    pub(crate) fn damaged(file: &str, offset: u64, what: impl fmt::Display) -> Error {
        let remedy = "restore the file from a backup, or load a snapshot of another replica into a new one";
        let message = format!("{file} at offset {offset}: {what}; {remedy}");
        Error::new(ErrorKind::Damaged, message).in_file(file).at(offset)
    }
}

impl From<perdura_pmem::Error> for Error {
    #[cold]
    fn from(error: perdura_pmem::Error) -> Error {
        use perdura_pmem::ErrorKind as Medium;
        let kind = match error.kind() {
            Medium::NotFound => ErrorKind::NotFound,
            Medium::Exists => ErrorKind::Exists,
            Medium::Full => ErrorKind::Full,
            Medium::Poisoned => ErrorKind::Damaged,
            _ => ErrorKind::Medium,
        };
        Error(error.pass_on(kind))
    }
}
