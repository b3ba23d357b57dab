//! Outcomes of calls on a pool.

use crate::{failure, message};
use perdura_engine::{Error, ErrorKind};

/// Outcome of a call. From NOT_FOUND on, a failure with a message.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerduraCode {
    /// Done.
    Ok = 0,
    /// There is no (further) row.
    End,
    /// There is no such table, row, savepoint or prepared transaction.
    NotFound,
    /// Another table has the name.
    Exists,
    /// The row lock did not come free in time. Roll the statement back.
    LockWaitTimeout,
    /// To wait for the row lock would have been a deadlock. Roll the transaction back, and run it
    /// again.
    Deadlock,
    /// The row was changed after the transaction's snapshot. Roll the transaction back, and run it
    /// again.
    RecordChanged,
    /// A kill interrupted the wait for the row lock.
    Killed,
    /// The file system has no room. Roll the statement back.
    DeviceFull,
    /// The transaction's redo does not fit in the log. The transaction has been rolled back.
    LogFull,
    /// The table has as many data files as it can have.
    TableFull,
    /// The row has more bytes than a row may have.
    RowTooLarge,
    /// Bytes in the pool are not what they must be. Check the pool with `perdura check`.
    Damaged,
    /// This build cannot do it.
    NotSupported,
    /// The pool has failed stop and takes no more changes. Restart the server.
    ReadOnlyPool,
    /// A setting or a name is not allowed.
    Configuration,
    /// The system refused access to the pool's files: not DAX, in use by another process, I/O.
    Medium,
    /// There is no memory.
    OutOfMemory,
    /// The table's definition in the pool is another one than the caller's, or newer than the
    /// transaction's snapshot.
    DefinitionChanged,
    /// Another row has the key in an index that is unique.
    DuplicateKey,
    /// A defect: the pool has failed stop.
    Internal,
}

/// A failed call on a pool.
pub type Failure = failure::Failure<PerduraCode>;

/// Outcome inside this room.
pub type Outcome<T = PerduraCode> = Result<T, Failure>;

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        let code = match error.kind() {
            ErrorKind::NotFound => PerduraCode::NotFound,
            ErrorKind::Exists => PerduraCode::Exists,
            ErrorKind::LockWaitTimeout => PerduraCode::LockWaitTimeout,
            ErrorKind::Deadlock => PerduraCode::Deadlock,
            ErrorKind::RecordChanged => PerduraCode::RecordChanged,
            ErrorKind::DefinitionChanged => PerduraCode::DefinitionChanged,
            ErrorKind::DuplicateKey => PerduraCode::DuplicateKey,
            ErrorKind::Killed => PerduraCode::Killed,
            ErrorKind::DeviceFull => PerduraCode::DeviceFull,
            ErrorKind::LogFull => PerduraCode::LogFull,
            ErrorKind::TableFull => PerduraCode::TableFull,
            ErrorKind::RowTooLarge => PerduraCode::RowTooLarge,
            ErrorKind::Damaged => PerduraCode::Damaged,
            ErrorKind::NotSupported => PerduraCode::NotSupported,
            ErrorKind::ReadOnlyPool => PerduraCode::ReadOnlyPool,
            ErrorKind::Configuration => PerduraCode::Configuration,
            ErrorKind::Medium => PerduraCode::Medium,
            // A kind that is newer than this file.
            _ => PerduraCode::Internal,
        };
        Failure { index: error.index(), ..Failure::new(code, error.to_string()) }
    }
}

impl From<perdura_pmem::Error> for Failure {
    fn from(error: perdura_pmem::Error) -> Failure {
        Failure::from(Error::from(error))
    }
}

/// Copies the message of the calling thread's last failure to `target`, cut to `bytes` bytes and
/// ended with a zero byte.
///
/// # Safety
/// `target` must be writable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_message(target: *mut u8, bytes: usize) {
    // SAFETY: as the caller vouches for.
    unsafe { message::copy(target, bytes) }
}

/// No index.
pub const PERDURA_NO_INDEX: u32 = u32::MAX;

/// Number of the index that the message of the calling thread's last failure is about;
/// [`PERDURA_NO_INDEX`] if it is about none.
#[unsafe(no_mangle)]
pub extern "C" fn perdura_message_index() -> u32 {
    message::index().unwrap_or(PERDURA_NO_INDEX)
}
