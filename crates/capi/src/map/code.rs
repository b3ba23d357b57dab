//! Outcomes of calls on maps.

use crate::{failure, message};
use perdura_map::{Error, ErrorKind};
use std::ffi::c_char;

/// Outcome of a call on a map. From NOT_FOUND on, a failure with a message.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerduraMapCode {
    /// Done.
    Ok = 0,
    /// There is no further entry or chunk.
    End,
    /// The key has no value.
    Absent,
    /// The key has another value than the one expected. Nothing has changed.
    Differs,
    /// There is no such directory or map.
    NotFound,
    /// Another map has the name.
    Exists,
    /// An argument is null, out of range, or not a name.
    Argument,
    /// The key or the value is longer than a map takes.
    TooLarge,
    /// The call does not take this timestamp now.
    Timestamp,
    /// The versions asked for have been forgotten.
    Forgotten,
    /// The file has no room. Delete, forget and collect.
    Full,
    /// The file is not a map.
    Foreign,
    /// The file has another version of the format.
    Version,
    /// Bytes in the file or in a snapshot are not what they must be.
    Damaged,
    /// The map takes no changes now: a snapshot is being loaded, or one that is held stands in the
    /// way; or its numbers of persists are used up, and it must be copied to a new file.
    ReadOnly,
    /// The system refused access to the files: not DAX, in use by another process, I/O.
    Medium,
    /// The map is open already, or has values, views, cursors, snapshots or loaders that are not
    /// released.
    Busy,
    /// A defect. The map takes no more changes.
    Internal,
    /// The map was emptied for a load that has not ended. Load a snapshot.
    Partial,
    /// The snapshot held more garbage than its limit.
    Expired,
}

/// A failed call on a map.
pub(super) type Failure = failure::Failure<PerduraMapCode>;

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
            ErrorKind::Partial => PerduraMapCode::Partial,
            ErrorKind::Expired => PerduraMapCode::Expired,
            // A kind that is newer than this file.
            _ => PerduraMapCode::Internal,
        };
        Failure::new(code, error.to_string())
    }
}

/// Outcome inside this room.
pub(super) type Outcome<T = PerduraMapCode> = Result<T, Failure>;

/// Copies the message of the calling thread's last failure to `target`, cut to `bytes` bytes and
/// ended with a zero byte.
///
/// # Safety
/// `target` must be null or writable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_map_message(target: *mut c_char, bytes: usize) {
    if !target.is_null() {
        // SAFETY: as the caller vouches for.
        unsafe { message::copy(target.cast(), bytes) }
    }
}
