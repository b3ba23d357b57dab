//! Errors of stores, grouped by what the caller must do.

use crate::codec::Malformed;

/// Result of a call on a store.
pub type Result<T> = std::result::Result<T, Error>;

/// Kinds of errors, by the caller's remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no room. Delete keys, or wait until garbage is collected, and call again.
    Full,
    /// Entries that far back are gone: send a snapshot.
    Compacted,
    /// There is no such entry yet.
    Beyond,
    /// Entries or marks that do not fit what is there: the caller is wrong.
    Order,
    /// An entry that no replica may have: longer than the medium takes, or not readable.
    Entry,
    /// The state is being received: wait until it is whole.
    Partial,
    /// No snapshot can be taken now, or received while another holds one: try later.
    Unready,
    /// The snapshot is gone: take another.
    Expired,
    /// Chunks that are not whole or not in order: receive again from the first.
    Refused,
    /// There is no store of this name, or it was never initialised.
    NotFound,
    /// The name is taken.
    Exists,
    /// A setting is out of range.
    Configuration,
    /// Another version of the program has written this: run that one, or a newer one. Nothing is
    /// damaged.
    Version,
    /// Bytes fail their check: this replica must be made anew, as a new member.
    Damaged,
    /// The medium refused.
    Medium,
}

perdura_pmem::error_type!(ErrorKind);

impl From<perdura_map::Error> for Error {
    #[cold]
    fn from(error: perdura_map::Error) -> Error {
        use perdura_map::ErrorKind as Map;
        let kind = match error.kind() {
            Map::Full => ErrorKind::Full,
            Map::NotFound => ErrorKind::NotFound,
            Map::Exists => ErrorKind::Exists,
            Map::Configuration => ErrorKind::Configuration,
            Map::TooLarge => ErrorKind::Entry,
            Map::Timestamp => ErrorKind::Order,
            Map::ReadOnly => ErrorKind::Unready,
            Map::Forgotten => ErrorKind::Compacted,
            Map::Partial => ErrorKind::Partial,
            Map::Expired => ErrorKind::Expired,
            Map::Version => ErrorKind::Version,
            Map::Foreign | Map::Damaged => ErrorKind::Damaged,
            _ => ErrorKind::Medium,
        };
        Error(error.pass_on(kind))
    }
}

impl Error {
    /// An input or output that failed, of a file.
    #[cold]
    pub(super) fn io(file: &str, what: &str, error: std::io::Error) -> Error {
        let kind = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded | std::io::ErrorKind::FileTooLarge => {
                ErrorKind::Full
            }
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::AlreadyExists => ErrorKind::Exists,
            _ => ErrorKind::Medium,
        };
        Error::new(kind, format!("{file}: {what}: {error}")).in_file(file).caused_by(error)
    }

    /// Bytes at an offset of a file that fail a check.
    #[cold]
    pub(super) fn damaged(file: &str, offset: u64, what: impl std::fmt::Display) -> Error {
        let remedy = "remove this replica from the cluster, and let it join again as a new one";
        Error::new(ErrorKind::Damaged, format!("{file} at offset {offset}: {what}; {remedy}")).in_file(file).at(offset)
    }

    /// Bytes of a file that cannot be read, though they are as they were written: they are damaged,
    /// or of another version of the program.
    #[cold]
    pub(super) fn unreadable(file: &str, offset: u64, malformed: Malformed) -> Error {
        if malformed.is_of_other_version() {
            return Error::of_other_version(format!("{file} at offset {offset}")).in_file(file).at(offset);
        }
        Error::damaged(file, offset, malformed)
    }

    #[cold]
    pub(super) fn of_other_version(what: impl std::fmt::Display) -> Error {
        let what =
            format!("{what} was written by another version of perdura-kv: run that one, or a newer one, on this data");
        Error::new(ErrorKind::Version, what)
    }

    #[cold]
    pub(super) fn compacted(index: u64, first: u64) -> Error {
        Error::new(ErrorKind::Compacted, format!("the entry at {index} is gone; the first there is has index {first}"))
    }

    #[cold]
    pub(super) fn beyond(index: u64, last: u64) -> Error {
        Error::new(ErrorKind::Beyond, format!("there is no entry at {index}; the last has index {last}"))
    }

    #[cold]
    pub(super) fn order(what: String) -> Error {
        Error::new(ErrorKind::Order, what)
    }

    #[cold]
    pub(super) fn refused(what: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Refused, format!("a snapshot was refused: {what}; receive it again"))
    }

    #[cold]
    pub(super) fn partial() -> Error {
        let what = "this replica has received a snapshot only in part; it waits for a whole one from the leader";
        Error::new(ErrorKind::Partial, what)
    }
}

/// Writes for which a medium had no room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shortages {
    /// Number of them, those that were tried again included.
    pub count: u64,
    /// Error of the last one.
    pub last: String,
}

impl Shortages {
    /// Counts a result that is the error `Full`.
    pub(super) fn watch<T>(&mut self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| {
            if error.kind() == ErrorKind::Full {
                self.count += 1;
                self.last = error.to_string();
            }
        })
    }
}
