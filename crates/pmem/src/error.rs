//! Errors of the medium, grouped by what the caller must do.
//!
//! Each names the file or directory, what was seen and the remedy.

use std::fmt;

/// Result of a call on a medium or region.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, and with it what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// No such file or directory.
    NotFound {
        /// File or directory.
        what: String,
    },
    /// The name is taken.
    Exists {
        /// File.
        what: String,
    },
    /// The device, file system or quota has no room.
    Full {
        /// File that was to be created or extended.
        what: String,
        /// Bytes asked for.
        wanted: u64,
        /// Bytes free, where known.
        free: Option<u64>,
    },
    /// The directory is not on byte-addressable persistent memory and `emulate` is off.
    NotDax {
        /// Directory.
        what: String,
        /// What speaks against DAX.
        seen: String,
    },
    /// The platform, or this build, does not do what was asked.
    Unsupported {
        /// File or directory.
        what: String,
        /// What was asked or seen.
        seen: String,
    },
    /// Another process (or another medium of this one) has the directory open.
    InUse {
        /// Directory.
        what: String,
    },
    /// The memory below the file is damaged.
    Poisoned {
        /// File.
        what: String,
        /// Offset of the first damaged byte known, in bytes.
        offset: u64,
        /// What was seen.
        seen: String,
    },
    /// The operating system refused for another reason.
    Io {
        /// File or directory.
        what: String,
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether room is all that is missing: the statement fails, nothing else does.
    pub fn is_full(&self) -> bool {
        matches!(self, Error::Full { .. })
    }

    /// The error for a failed system call; `wanted` bytes were asked for, if any.
    pub(crate) fn from_io(what: impl Into<String>, action: &'static str, wanted: u64, source: std::io::Error) -> Error {
        let what = what.into();
        match source.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::NOENT) => Error::NotFound { what },
            Some(rustix::io::Errno::EXIST) => Error::Exists { what },
            Some(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT | rustix::io::Errno::FBIG) => {
                Error::Full { what, wanted, free: None }
            }
            Some(rustix::io::Errno::HWPOISON) => {
                Error::Poisoned { what, offset: 0, seen: format!("{action} failed: {source}") }
            }
            _ => Error::Io { what, action, source },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotFound { what } => {
                write!(f, "{what} does not exist; check the path, or restore the file from a backup")
            }
            Error::Exists { what } => write!(f, "{what} exists already; remove it or choose another name"),
            Error::Full { what, wanted, free } => {
                write!(f, "no room for {what}: {wanted} bytes wanted")?;
                if let Some(free) = free {
                    write!(f, ", {free} free")?;
                }
                f.write_str("; free space on the device or raise its quota")
            }
            Error::NotDax { what, seen } => write!(
                f,
                "{what} is not on DAX persistent memory ({seen}); use a file system mounted with -o dax, \
                 or allow emulation (data then survive a process crash, not a power loss)"
            ),
            Error::Unsupported { what, seen } => write!(f, "{what}: {seen}, which is not supported here"),
            Error::InUse { what } => {
                write!(f, "{what} is in use by another server; stop that server or choose another directory")
            }
            Error::Poisoned { what, offset, seen } => write!(
                f,
                "{what} is damaged at offset {offset} ({seen}); clear the bad blocks with `ndctl clear-errors` \
                 and restore the file from a backup"
            ),
            Error::Io { what, action, source } => {
                write!(f, "{what}: {action} failed: {source}; check permissions and the kernel log")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
