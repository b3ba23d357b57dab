//! Errors of the log, grouped by what the caller must do.
//!
//! Each names the file and offset where there is one, the value seen and the remedy.

use std::fmt;

/// Result of a call on the log.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, and with it what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A setting is out of range.
    Configuration {
        /// Which, its value and its range.
        what: String,
    },
    /// All generations are needed and no more may or can be added: the transaction is to be rolled back.
    LogFull {
        /// Generations in use.
        generations: u32,
        /// Bytes all lanes of all generations hold.
        bytes: u64,
        /// What keeps them.
        seen: String,
    },
    /// A group is longer than a lane: the redo is to be written in chunks. Or a transaction has too many of those.
    TooLarge {
        /// Bytes the group needs, or chunks the transaction has.
        wanted: u64,
        /// Most there can be.
        limit: u64,
    },
    /// The pool takes no more changes.
    FailStop {
        /// Why it stopped.
        reason: String,
    },
    /// The file is not the superblock of a pool.
    NotAPool {
        /// File.
        file: String,
        /// Offset in bytes.
        offset: u64,
        /// Bytes seen there.
        seen: String,
    },
    /// The pool was written by a newer build.
    NewerFormat {
        /// File.
        file: String,
        /// Offset in bytes.
        offset: u64,
        /// Version seen.
        seen: u32,
        /// Newest version this build reads.
        known: u32,
    },
    /// Bytes of the pool are not what they must be.
    Damaged {
        /// File.
        file: String,
        /// Offset in bytes.
        offset: u64,
        /// What was seen, and what to do.
        seen: String,
    },
    /// The medium refused.
    Medium(perdura_pmem::Error),
}

impl Error {
    /// Whether the device has no room, and that is all that is wrong.
    pub fn is_full(&self) -> bool {
        matches!(self, Error::Medium(error) if error.is_full())
    }

    pub(crate) fn damaged(file: impl Into<String>, offset: u64, seen: impl fmt::Display) -> Error {
        Error::Damaged { file: file.into(), offset, seen: seen.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Configuration { what } => f.write_str(what),
            Error::LogFull { generations, bytes, seen } => write!(
                f,
                "the log is full: {generations} generations of {bytes} bytes in all are in use ({seen}); \
                 end long transactions, commit in smaller ones, or raise the limit of generations"
            ),
            Error::TooLarge { wanted, limit } => {
                write!(f, "a log record needs {wanted} where {limit} is the most; commit in smaller transactions")
            }
            Error::FailStop { reason } => write!(
                f,
                "the pool is read-only since a failure: {reason}; remove the cause and restart the server, which recovers it"
            ),
            Error::NotAPool { file, offset, seen } => write!(
                f,
                "{file} at offset {offset} begins with {seen}, which is not a superblock; \
                 choose the directory of a pool, or restore the file from a backup"
            ),
            Error::NewerFormat { file, offset, seen, known } => write!(
                f,
                "{file} at offset {offset} has format version {seen}, this build reads up to {known}; use the build that wrote it"
            ),
            Error::Damaged { file, offset, seen } => write!(f, "{file} at offset {offset}: {seen}"),
            Error::Medium(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Medium(error) => Some(error),
            _ => None,
        }
    }
}

impl From<perdura_pmem::Error> for Error {
    fn from(error: perdura_pmem::Error) -> Error {
        Error::Medium(error)
    }
}
