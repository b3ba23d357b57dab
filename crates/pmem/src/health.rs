//! The health of a medium: whether it could make durable what it was told to, and read what it has.
//!
//! A failure is final: after a failed sync the kernel has forgotten which pages were dirty, so
//! another one says that all is well. Whoever announces that something is durable asks first, after
//! its fence (I1, I11).

use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// Whether a medium has failed. Clones tell of the same medium.
///
/// A fence returns nothing, so a commit that has its CSN stays infallible (I5). What a thread has
/// fenced is durable iff [`Health::check`] finds no failure *after* the fence.
#[derive(Clone, Default)]
pub struct Health {
    failure: Option<Arc<Failure>>,
    /// That of the other medium, where there are two.
    other: Option<Arc<Failure>>,
}

impl Health {
    /// Health of a medium whose fences cannot fail.
    pub const SOUND: Health = Health { failure: None, other: None };

    pub(crate) fn of(failure: Arc<Failure>) -> Health {
        Health { failure: Some(failure), other: None }
    }

    /// Health of two media, neither of which is such a pair.
    pub(crate) fn and(self, other: Health) -> Health {
        match self.failure {
            None => other,
            failure => Health { failure, other: other.failure },
        }
    }

    /// The medium's failure, if it has failed: the first one, which names the file, the system's
    /// answer and the remedy.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if any_failed() { self.check_own() } else { Ok(()) }
    }

    #[cold]
    fn check_own(&self) -> Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(failure) if failure.is_noted() => Err(failure.error()),
            Some(_) => match &self.other {
                Some(other) if other.is_noted() => Err(other.error()),
                _ => Ok(()),
            },
        }
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Health").field(&self.check()).finish()
    }
}

/// A medium of this process has failed.
static ANY_FAILED: AtomicBool = AtomicBool::new(false);

/// Whether any medium of this process has failed. As long as none has, one load is all that
/// [`Health::check`] costs.
#[inline]
pub fn any_failed() -> bool {
    ANY_FAILED.load(Ordering::SeqCst)
}

/// No offset noted.
const NOWHERE: u64 = u64::MAX;
/// No descriptor noted.
const NO_FILE: i32 = -1;

/// The first failure of a medium.
///
/// Invariant: once `noted` is set, `error` or the fault's descriptor says what has failed, except
/// for the moment in which another thread's signal handler notes it.
pub(crate) struct Failure {
    /// Names the medium, where the file is not known.
    medium: String,
    noted: AtomicBool,
    /// The medium's files are out of reach (or about to be, under the lock of the freezer).
    frozen: AtomicBool,
    error: Mutex<Option<Error>>,
    /// Descriptor and offset of the file that could not be read: all that a signal handler can
    /// tell.
    fault_file: AtomicI32,
    fault_offset: AtomicU64,
}

impl Failure {
    /// None yet, of the medium that `medium` names.
    pub(crate) fn none(medium: String) -> Failure {
        Failure {
            medium,
            noted: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            error: Mutex::new(None),
            fault_file: AtomicI32::new(NO_FILE),
            fault_offset: AtomicU64::new(NOWHERE),
        }
    }

    #[inline]
    pub(crate) fn is_noted(&self) -> bool {
        self.noted.load(Ordering::SeqCst)
    }

    /// Whether [`Failure::begin_freeze`] was called.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::SeqCst)
    }

    /// Notes that the medium's files are being put out of reach; whether the caller is the first.
    pub(crate) fn begin_freeze(&self) -> bool {
        !self.frozen.swap(true, Ordering::SeqCst)
    }

    /// Notes that `action` on `what` was refused with `source`. Returns the medium's first failure.
    #[cold]
    pub(crate) fn note(&self, what: &str, action: &str, source: std::io::Error) -> Error {
        let mut error = self.error.lock();
        // A fault that came first is the first failure.
        let is_fault = self.fault_file.load(Ordering::SeqCst) != NO_FILE;
        let first = error.get_or_insert_with(|| {
            if is_fault { self.fault_error() } else { Error::not_durable(what, action, source) }
        });
        let first = first.clone();
        self.set_noted();
        first
    }

    fn set_noted(&self) {
        ANY_FAILED.store(true, Ordering::SeqCst);
        self.noted.store(true, Ordering::SeqCst);
    }

    /// Notes that the page at `offset` of the open file `descriptor` cannot be read.
    /// Async-signal-safe.
    pub(crate) fn note_fault(&self, descriptor: i32, offset: u64) {
        if self.fault_offset.compare_exchange(NOWHERE, offset, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.fault_file.store(descriptor, Ordering::SeqCst);
        }
        self.set_noted();
    }

    /// The first failure, once one is noted. After the first call it does not need the descriptor
    /// any more: whoever closes a file of a failed medium calls this before.
    #[cold]
    pub(crate) fn error(&self) -> Error {
        self.error.lock().get_or_insert_with(|| self.fault_error()).clone()
    }

    fn fault_error(&self) -> Error {
        let path = match self.fault_file.load(Ordering::SeqCst) {
            NO_FILE => None,
            descriptor => std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok(),
        };
        let what = path.map_or_else(|| format!("a file of {}", self.medium), |path| path.display().to_string());
        let offset = self.fault_offset.load(Ordering::SeqCst);
        Error::unreadable(&what, if offset == NOWHERE { 0 } else { offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use std::io;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_first_failure_is_kept_and_named() {
        let failure = Arc::new(Failure::none("/pool".to_owned()));
        let health = Health::of(failure.clone());
        health.clone().check().expect("nothing has failed");
        Health::SOUND.check().expect("it cannot fail");
        failure.note("/pool/t.1", "sync", io::Error::from_raw_os_error(5));
        failure.note("/pool/t.2", "sync", io::Error::from_raw_os_error(28));
        failure.note_fault(0, 4096);
        let error = health.check().expect_err("it has failed");
        assert!(any_failed());
        assert_eq!((error.kind(), error.file()), (ErrorKind::Io, Some("/pool/t.1")), "{error}");
        let text = error.to_string();
        assert!(text.contains("os error 5") && text.contains("restart"), "{text}");
    }

    #[test]
    fn a_fault_is_named_by_its_descriptor() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let failure = Failure::none("/pool".to_owned());
        failure.note_fault(file.as_file().as_raw_fd(), 8192);
        failure.note("/pool/t.2", "sync", io::Error::from_raw_os_error(5));
        let error = Health::of(Arc::new(failure)).check().expect_err("it has failed");
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Poisoned, Some(8192)), "{error}");
        assert_eq!(error.file(), file.path().to_str());
    }
}
