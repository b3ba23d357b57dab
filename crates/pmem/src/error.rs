//! Errors of the medium, grouped by what the caller must do.
//!
//! Each names the file or directory, what was seen and the remedy. Those that the operating system
//! caused keep its answer as their source.

use rustix::io::Errno;
use std::fmt::Display;

/// Result of a call on a medium or region.
pub type Result<T> = std::result::Result<T, Error>;

/// Kinds of errors, by the caller's remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such file or directory: correct the path, or restore the file.
    NotFound,
    /// The name is taken: remove the file or choose another name.
    Exists,
    /// The device, file system or quota has no room: free some. Only the call has failed.
    Full,
    /// The directory is not on byte-addressable persistent memory: choose one that is, or allow
    /// emulation.
    NotDax,
    /// The platform, or this build, does not do what was asked: ask for something else.
    Unsupported,
    /// Another process, or another medium of this one, has the directory open: close it there.
    InUse,
    /// The memory or the disk below the file is damaged: clear the bad blocks and restore the file
    /// from a backup.
    Poisoned,
    /// The process has as many memory mappings or open files as it may have: raise the limit. Only
    /// the call has failed.
    Exhausted,
    /// The directories are not those of one pool: name the right ones, or restore both from one
    /// backup.
    Mismatch,
    /// The operating system refused for another reason: remove the cause.
    Io,
}

error_type!(ErrorKind);

impl Error {
    /// `what` does not exist.
    #[cold]
    pub(crate) fn not_found(what: &str) -> Error {
        let message = format!("{what} does not exist; check the path, or restore the file from a backup");
        Error::new(ErrorKind::NotFound, message).in_file(what)
    }

    /// There is no directory `what`.
    #[cold]
    pub(crate) fn no_directory(what: &str) -> Error {
        let message = match what {
            "" => "no directory is named; name one".to_owned(),
            what => format!(
                "the directory {what} does not exist; check the path, or make it for the account that this process runs as"
            ),
        };
        Error::new(ErrorKind::NotFound, message).in_file(what)
    }

    /// `what` exists already.
    #[cold]
    pub(crate) fn exists(what: &str) -> Error {
        let message = format!("{what} exists already; remove it or choose another name");
        Error::new(ErrorKind::Exists, message).in_file(what)
    }

    /// There is no room for `wanted` bytes of `what`.
    #[cold]
    pub(crate) fn full(what: &str, wanted: u64, free: Option<u64>) -> Error {
        Error::new(ErrorKind::Full, full_message(what, wanted, free)).in_file(what)
    }

    /// The same error; if it tells of a full device, with the bytes `wanted` and those free there.
    pub(crate) fn with_free(mut self, wanted: u64, free: Option<u64>) -> Error {
        if let (ErrorKind::Full, Some(file)) = (self.kind(), self.file()) {
            self.0.message = full_message(file, wanted, free);
        }
        self
    }

    /// The directory `what` is not on DAX, as `seen` shows.
    #[cold]
    pub(crate) fn not_dax(what: &str, seen: &str) -> Error {
        let message = format!(
            "{what} is not on DAX persistent memory ({seen}); use a file system mounted with -o dax, or allow emulation (data \
             then survive a process crash, not a power loss)"
        );
        Error::new(ErrorKind::NotDax, message).in_file(what)
    }

    /// The directory `what` is of a `mode` that takes its own time, not that of a `model`.
    #[cold]
    pub(crate) fn not_emulated(what: &str, mode: &dyn Display, model: &dyn Display) -> Error {
        let message = format!(
            "{what} is of mode {mode}, which takes its own time: only emulated memory can take that of {model}; switch the \
             model of the medium off, or emulate persistent memory"
        );
        Error::new(ErrorKind::Unsupported, message).in_file(what)
    }

    /// `seen`, asked of or met in `what`, is not supported.
    #[cold]
    pub(crate) fn unsupported(what: &str, seen: &str) -> Error {
        Error::new(ErrorKind::Unsupported, format!("{what}: {seen}, which is not supported here")).in_file(what)
    }

    /// Another process, or another medium of this one, has the directory `what` open.
    #[cold]
    pub(crate) fn in_use(what: &str) -> Error {
        let message = format!("{what} is in use by another server; stop that server or choose another directory");
        Error::new(ErrorKind::InUse, message).in_file(what)
    }

    /// The memory below `what` is damaged from `offset` on, as `seen` shows.
    #[cold]
    pub(crate) fn poisoned(what: &str, offset: u64, seen: &str) -> Error {
        let message = format!(
            "{what} is damaged at offset {offset} ({seen}); clear the bad blocks with `ndctl clear-errors` and restore the file \
             from a backup"
        );
        Error::new(ErrorKind::Poisoned, message).in_file(what).at(offset)
    }

    /// The journal file `what` of a page medium is damaged at `offset`, as `seen` shows.
    #[cold]
    pub(crate) fn damaged_journal(what: &str, offset: u64, seen: &str) -> Error {
        let message = format!(
            "{what}, a file of the medium's journal, is damaged at offset {offset} ({seen}); restore all files of the directory \
             from one backup"
        );
        Error::new(ErrorKind::Poisoned, message).in_file(what).at(offset)
    }

    /// The file `what` is damaged at `offset`, as `seen` shows.
    #[cold]
    pub(crate) fn damaged_file(what: &str, offset: u64, seen: &str) -> Error {
        let message = format!("{what} is damaged at offset {offset} ({seen}); restore the directory from a backup");
        Error::new(ErrorKind::Poisoned, message).in_file(what).at(offset)
    }

    /// The directory `what` is not the other half of a pool, as `seen` says.
    #[cold]
    pub(crate) fn mismatch(what: &str, seen: &str) -> Error {
        let message = format!(
            "{what} {seen}; name the two directories with which the pool was used last, or restore both from one backup"
        );
        Error::new(ErrorKind::Mismatch, message).in_file(what)
    }

    /// `action` on `what` met a limit of the process, as `seen` says.
    #[cold]
    fn exhausted(what: &str, action: &str, seen: &std::io::Error) -> Error {
        let message = format!(
            "{what}: {action} failed: {seen}; the process has as many memory mappings or open files as it may have: raise \
             vm.max_map_count, or the limit of open files"
        );
        Error::new(ErrorKind::Exhausted, message).in_file(what)
    }

    /// `action` on `what` failed for a reason that no other kind covers. For other implementations
    /// of [`crate::Medium`] too.
    #[cold]
    pub fn io(what: &str, action: &str, source: std::io::Error) -> Error {
        let remedy = match source.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "make the account that this process runs as the owner of the directory and its files"
            }
            std::io::ErrorKind::NotADirectory => "name a directory",
            _ => "check the kernel log",
        };
        let message = format!("{what}: {action} failed: {source}; {remedy}");
        Error::new(ErrorKind::Io, message).in_file(what).caused_by(source)
    }

    /// `action`, which should have made `what` durable, failed: its medium has failed with it.
    #[cold]
    pub(crate) fn not_durable(what: &str, action: &str, source: std::io::Error) -> Error {
        let message = format!(
            "{what}: {action} failed: {source}; what was stored last may be lost, and the medium takes nothing more: check the \
             device and the kernel log, then restart, which goes on from what the device has"
        );
        Error::new(ErrorKind::Io, message).in_file(what).caused_by(source)
    }

    /// The page at `offset` of `what` could not be read or given a block: its medium has failed.
    #[cold]
    pub(crate) fn unreadable(what: &str, offset: u64) -> Error {
        let message = format!(
            "{what} cannot be accessed at offset {offset} (SIGBUS: an error of the device, or somebody has cut the file), and \
             the medium takes nothing more: check the device and the kernel log, then restart; restore the file from a backup \
             if it is damaged"
        );
        Error::new(ErrorKind::Poisoned, message).in_file(what).at(offset)
    }

    /// A failed system call, sorted by the system's answer; `wanted` bytes were asked for, if any.
    #[cold]
    pub(crate) fn from_io(what: &str, action: &str, wanted: u64, source: std::io::Error) -> Error {
        let error = match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => Error::not_found(what),
            Some(Errno::EXIST) => Error::exists(what),
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => Error::full(what, wanted, None),
            Some(Errno::NOMEM | Errno::MFILE | Errno::NFILE) => Error::exhausted(what, action, &source),
            Some(Errno::HWPOISON) => Error::poisoned(what, 0, &format!("{action} failed: {source}")),
            _ => return Error::io(what, action, source),
        };
        error.caused_by(source)
    }
}

fn full_message(what: &str, wanted: u64, free: Option<u64>) -> String {
    let free = free.map_or(String::new(), |free| format!(", {free} free"));
    format!("no room for {what}: {wanted} bytes wanted{free}; free space on the device or raise its quota")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `Result` must not grow with what an error has to say, and an error must cross threads.
    #[test]
    fn an_error_is_one_pointer_that_any_thread_can_take() {
        fn crosses_threads<T: Send + Sync + Clone + 'static>() {}
        crosses_threads::<Error>();
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }

    /// The kind follows from the system's answer, which stays reachable as the source.
    #[test]
    fn the_systems_answer_decides_the_kind_and_is_kept() {
        let answers = [
            (Errno::NOENT, ErrorKind::NotFound),
            (Errno::EXIST, ErrorKind::Exists),
            (Errno::NOSPC, ErrorKind::Full),
            (Errno::DQUOT, ErrorKind::Full),
            (Errno::HWPOISON, ErrorKind::Poisoned),
            (Errno::NOMEM, ErrorKind::Exhausted),
            (Errno::ACCESS, ErrorKind::Io),
        ];
        for (errno, kind) in answers {
            let error = Error::from_io("/pool/t.1", "opening", 4096, errno.into());
            assert_eq!((error.kind(), error.file()), (kind, Some("/pool/t.1")));
            let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<std::io::Error>());
            assert_eq!(source.and_then(std::io::Error::raw_os_error), Some(errno.raw_os_error()));
            assert!(error.to_string().starts_with(if kind == ErrorKind::Full { "no room for" } else { "/pool/t.1" }));
        }
        let full = Error::from_io("/pool/t.1", "allocating", 4096, Errno::NOSPC.into()).with_free(4096, Some(100));
        assert!(full.to_string().contains("4096 bytes wanted, 100 free"), "{full}");
    }
}
