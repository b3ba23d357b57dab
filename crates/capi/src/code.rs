//! Outcomes of C calls, and the message that goes with a failed one.
//!
//! A call that fails leaves its message in the calling thread, until the next failure there.

use perdura_engine::{Error, ErrorKind};
use std::cell::RefCell;

/// Outcome of a call. Everything from `NotFound` on is a failure with a message.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerduraCode {
    /// Done.
    Ok = 0,
    /// No (further) row.
    End,
    /// No such table or row.
    NotFound,
    /// The name is taken.
    Exists,
    /// A row lock was not free in time; the statement is to be rolled back.
    LockWaitTimeout,
    /// Waiting would never have ended; the transaction is to be rolled back.
    Deadlock,
    /// The row changed after the snapshot; the transaction is to be rolled back.
    RecordChanged,
    /// The wait was interrupted by a kill.
    Killed,
    /// No room on the medium.
    DeviceFull,
    /// The redo does not fit the log; the transaction has been rolled back.
    LogFull,
    /// The table has as many files as it can have.
    TableFull,
    /// The row has more bytes than a row may have.
    RowTooLarge,
    /// Bytes in the pool are not what they must be.
    Damaged,
    /// Not something this build does.
    NotSupported,
    /// The pool failed stop and takes no more changes.
    ReadOnlyPool,
    /// A setting is out of range.
    Configuration,
    /// The medium refused.
    Medium,
    /// No memory.
    OutOfMemory,
    /// The table has another definition than the caller thinks, or a newer one than the transaction's snapshot.
    DefinitionChanged,
    /// A defect: the pool has failed stop.
    Internal,
}

/// A failure: its code and what to say.
#[derive(Debug)]
pub struct Failure {
    /// What the caller can do about it.
    pub code: PerduraCode,
    /// For the person who reads the error.
    pub message: String,
}

impl Failure {
    /// A failure.
    pub fn new(code: PerduraCode, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }
}

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
        Failure::new(code, error.to_string())
    }
}

impl From<perdura_pmem::Error> for Failure {
    fn from(error: perdura_pmem::Error) -> Failure {
        Failure::from(Error::from(error))
    }
}

/// Outcome inside this crate.
pub type Outcome<T = PerduraCode> = Result<T, Failure>;

thread_local! {
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the message of a failure for the calling thread.
#[cold]
pub(crate) fn keep_message(message: &str) {
    MESSAGE.with_borrow_mut(|kept| message.clone_into(kept));
}

/// Copies the message of the calling thread's last failure to `target`, cut to `bytes` and ended with a zero byte.
///
/// # Safety
/// `target` must be writable for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_message(target: *mut u8, bytes: usize) {
    let _ = std::panic::catch_unwind(|| {
        MESSAGE.with_borrow(|message| {
            // SAFETY: as the caller vouches for the target.
            unsafe { copy_text(message, target, bytes) }
        })
    });
}

/// Copies as much of `text` as fits, whole characters only, and a zero byte.
///
/// # Safety
/// `target` must be writable for `bytes` bytes.
pub(crate) unsafe fn copy_text(text: &str, target: *mut u8, bytes: usize) {
    let Some(room) = bytes.checked_sub(1) else { return };
    let mut end = room.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // SAFETY: `end` is less than `bytes`, which the caller vouches for.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), target, end);
        target.add(end).write(0);
    }
}
