//! The engine's errors, grouped by what the caller must do about them.

use std::fmt;

/// The result of an engine call.
pub type Result<T> = std::result::Result<T, Error>;

/// Groups errors by what the caller can do about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such table or row.
    NotFound,
    /// The name is taken.
    Exists,
    /// Another transaction kept the row locked for longer than the lock wait timeout. The statement
    /// is to be rolled back.
    LockWaitTimeout,
    /// The wait would have closed a cycle of waiters. The transaction is to be rolled back.
    Deadlock,
    /// Another transaction committed a newer version of the row than this snapshot sees. The
    /// transaction is to be rolled back and retried, as after a deadlock.
    RecordChanged,
    /// The table was created or rebuilt after the transaction's snapshot, which does not see its
    /// rows. The transaction is to be ended; the next one sees them.
    DefinitionChanged,
    /// A kill interrupted the statement while it waited.
    Killed,
    /// The medium has no room. Only the statement failed.
    DeviceFull,
    /// The transaction's redo does not fit into the log. The engine has rolled the transaction
    /// back.
    LogFull,
    /// The table has as many data files as it can have, or the pool has given out all table ids.
    TableFull,
    /// The row is longer than 2^31 - 1 bytes.
    RowTooLarge,
    /// Another row has the key, in an index that is unique.
    DuplicateKey,
    /// The bytes at this place of the pool cannot be right.
    Damaged,
    /// The pool has a format that this build does not read, or the request asks for something that
    /// the engine does not do.
    NotSupported,
    /// The pool failed stop and takes no more changes. The process is to be restarted.
    ReadOnlyPool,
    /// A setting is out of range, or an argument can never be right.
    Configuration,
    /// The medium refused: missing, not DAX, in use, or an I/O error.
    Medium,
}

perdura_pmem::error_type!(ErrorKind);

impl Error {
    /// Damage at `offset` of `file`; `what` says what is wrong there.
    #[cold]
    pub(crate) fn damaged(file: &str, offset: u64, what: impl fmt::Display) -> Error {
        let remedy = "run `perdura check` on the pool and restore the file from a backup";
        let message = format!("{file} at offset {offset}: {what}; {remedy}");
        Error::new(ErrorKind::Damaged, message).in_file(file).at(offset)
    }

    /// Damage of an index at `offset` of `file`. The rows are elsewhere.
    #[cold]
    pub(crate) fn damaged_index(file: &str, offset: u64, what: impl fmt::Display) -> Error {
        let remedy = "the rows have not suffered: drop the index and add it again, or rebuild the table, and run `perdura check`";
        let message = format!("{file} at offset {offset}: {what}; {remedy}");
        Error::new(ErrorKind::Damaged, message).in_file(file).at(offset)
    }

    /// The damaged index, by its number in the table, if the error is about one.
    pub fn index(&self) -> Option<u32> {
        self.0.index
    }

    /// Puts in front which index of the table it is.
    #[cold]
    pub(crate) fn in_index(mut self, position: usize) -> Error {
        if self.kind() == ErrorKind::Damaged {
            self.0.index = u32::try_from(position).ok();
            self.0.message = format!("index {position}: {}", self.0.message);
        }
        self
    }

    /// Puts the row in front.
    #[cold]
    pub(crate) fn in_row(mut self, row: u64) -> Error {
        self.0.message = format!("row {row:#x}: {}", self.0.message);
        self
    }

    /// Puts in front that table `name` cannot be opened.
    #[cold]
    pub(crate) fn opening(mut self, name: &str) -> Error {
        self.0.message = format!("table {name} cannot be opened: {}", self.0.message);
        self
    }

    /// Puts in front that table `name` cannot grow.
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
