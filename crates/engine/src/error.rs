//! Errors, grouped by what the caller must do about them.

use std::fmt;

/// Result of an engine call.
pub type Result<T> = std::result::Result<T, Error>;

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such table or row.
    NotFound,
    /// The name is taken.
    Exists,
    /// Another transaction kept the row locked for longer than the lock wait timeout. The statement is to be rolled back.
    LockWaitTimeout,
    /// Waiting would have closed a circle of waiters. The transaction is to be rolled back.
    Deadlock,
    /// Another transaction committed a newer version of the row than this snapshot sees. The transaction is to be rolled back and
    /// tried again, as after a deadlock.
    RecordChanged,
    /// The table was created or rebuilt after the transaction's snapshot, which therefore does not see its rows. The transaction is
    /// to be ended; a new one sees them.
    DefinitionChanged,
    /// The wait was interrupted by a kill.
    Killed,
    /// The medium has no room. The statement failed, nothing else.
    DeviceFull,
    /// The transaction's redo does not fit the log. The transaction has been rolled back.
    LogFull,
    /// The table has as many files as it can have.
    TableFull,
    /// The row is longer than a row may be.
    RowTooLarge,
    /// Bytes in the pool are not what they must be.
    Damaged,
    /// The pool, or the request, asks for something this build does not do.
    NotSupported,
    /// The pool failed stop and takes no more changes.
    ReadOnlyPool,
    /// A setting is out of range.
    Configuration,
    /// The medium refused (missing, not DAX, in use, I/O).
    Medium,
}

perdura_pmem::error_type!(ErrorKind);

impl Error {
    /// Bytes at `offset` of `file` that cannot be right.
    #[cold]
    pub fn damaged(file: &str, offset: u64, what: impl fmt::Display) -> Error {
        let remedy = "run `perdura check` on the pool and restore the file from a backup";
        let message = format!("{file} at offset {offset}: {what}; {remedy}");
        Error::new(ErrorKind::Damaged, message).in_file(file).at(offset)
    }

    /// The same error, said of table `name`, for which a file could not be made.
    pub(crate) fn of_table(mut self, name: &str) -> Error {
        self.0.message = format!("table {name} cannot grow: {}", self.0.message);
        self
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

impl From<perdura_log::Error> for Error {
    #[cold]
    fn from(error: perdura_log::Error) -> Error {
        use perdura_log::ErrorKind as Log;
        let kind = match error.kind() {
            Log::DeviceFull => ErrorKind::DeviceFull,
            Log::Configuration => ErrorKind::Configuration,
            Log::LogFull | Log::TooLarge => ErrorKind::LogFull,
            Log::FailStop => ErrorKind::ReadOnlyPool,
            Log::NotAPool | Log::Damaged => ErrorKind::Damaged,
            Log::NewerFormat => ErrorKind::NotSupported,
            _ => ErrorKind::Medium,
        };
        Error(error.pass_on(kind))
    }
}
