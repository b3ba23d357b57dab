//! Outcomes of calls on maps, and the message that goes with a failed one.
//!
//! A call that fails leaves its message in the calling thread, until the next failure there.

use crate::code::perdura_message;
use perdura_map::{Error, ErrorKind};
use std::ffi::c_char;

/// Outcome of a call on a map. Everything from NOT_FOUND on is a failure with a message: see `perdura_map_message`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerduraMapCode {
    /// Done.
    Ok = 0,
    /// No further entry or chunk.
    End,
    /// The key has no value.
    Absent,
    /// The key has another value than the one expected; nothing is changed.
    Differs,
    /// No such directory or map.
    NotFound,
    /// The name is taken.
    Exists,
    /// An argument is null, out of its range, or not a name.
    Argument,
    /// The key or the value is longer than a map takes.
    TooLarge,
    /// The timestamp is not allowed for this call now.
    Timestamp,
    /// The versions asked for have been forgotten.
    Forgotten,
    /// The region has no room. Nothing is changed; delete, forget and collect.
    Full,
    /// The file is not a map.
    Foreign,
    /// The file was made by another version of the format.
    Version,
    /// Bytes in the file or in a snapshot are not what they must be.
    Damaged,
    /// The map takes no changes now: a snapshot is being loaded, or one is held that stands in the way.
    ReadOnly,
    /// The medium refused.
    Medium,
    /// Values, cursors, snapshots or loaders of the map are not released, or the map is open already.
    Busy,
    /// A defect: the map takes no more changes.
    Internal,
}

/// A failure: its code and what to say.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) code: PerduraMapCode,
    pub(super) message: String,
}

impl Failure {
    #[cold]
    pub(super) fn new(code: PerduraMapCode, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        let code = match error.kind() {
            ErrorKind::NotFound => PerduraMapCode::NotFound,
            ErrorKind::Exists => PerduraMapCode::Exists,
            ErrorKind::Configuration => PerduraMapCode::Argument,
            ErrorKind::TooLarge => PerduraMapCode::TooLarge,
            ErrorKind::Timestamp => PerduraMapCode::Timestamp,
            ErrorKind::Forgotten => PerduraMapCode::Forgotten,
            ErrorKind::Full => PerduraMapCode::Full,
            ErrorKind::Foreign => PerduraMapCode::Foreign,
            ErrorKind::Version => PerduraMapCode::Version,
            ErrorKind::Damaged => PerduraMapCode::Damaged,
            ErrorKind::ReadOnly => PerduraMapCode::ReadOnly,
            ErrorKind::Medium => PerduraMapCode::Medium,
            // A kind that is newer than this file.
            _ => PerduraMapCode::Internal,
        };
        Failure::new(code, error.to_string())
    }
}

/// Outcome inside this module.
pub(super) type Outcome<T = PerduraMapCode> = Result<T, Failure>;

/// Copies the message of the calling thread's last failure to `target`, cut to `bytes` and ended with a zero byte.
///
/// # Safety
/// `target` must be null or writable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_message(target: *mut c_char, bytes: usize) {
    if !target.is_null() {
        // SAFETY: as the caller vouches for.
        unsafe { perdura_message(target.cast(), bytes) }
    }
}
