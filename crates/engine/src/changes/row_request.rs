//! Requests for row locks and writes, and how they end.

use crate::format::{Rid, Word};
use crate::shadow::page::Holders;
use crate::shadow::slots::LockedPage;
use perdura_log::Csn;

/// When a write happens, in the transaction's own order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The present step.
    pub step: u64,
    /// The oldest position that is left to go back to.
    pub floor: u64,
}

/// Obstacle to a lock in place: the lock table decides.
pub(crate) struct Contention<'t> {
    /// The page of the row, which stays locked until the request is in the lock table; `None` if
    /// there is no such row.
    pub page: Option<LockedPage<'t>>,
    /// The transactions that hold the row in place, maybe the one that asks among them.
    pub holders: Holders,
}

/// How a request for a lock in place ends.
pub(crate) enum InPlaceLock<'t> {
    /// The transaction holds the row. If it did not before: the row's newest version and an upper
    /// bound of its CSN.
    Taken(Option<(Word, Csn)>),
    /// The lock table decides.
    Contended(Contention<'t>),
    /// Somebody reads the table as a whole: the transaction must lock the table before it enters
    /// its first row there.
    Barred,
}

/// An update or deletion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowWrite {
    /// The row.
    pub rid: Rid,
    /// Names its new version; `None` deletes the row.
    pub word: Option<Word>,
    /// When the write happens.
    pub at: Step,
    /// The version that the directory names must be at or below it.
    pub limit: Csn,
    /// The snapshot of consistent reads: they find a row by its newest entries from a write on that
    /// replaces a newer version.
    pub read_at: Csn,
    /// The lock table has the row in the transaction's name.
    pub holds: bool,
}

/// How an update or deletion ends.
pub(crate) enum Written<'t> {
    /// The row is written.
    Done {
        /// It has been locked in place for that.
        locked: bool,
        /// Upper bound of the CSN of the version replaced, if that is a committed one.
        replaced: Csn,
    },
    /// There is no such row.
    Gone,
    /// The newest version is above the limit.
    Changed,
    /// The lock table decides.
    Contended(Contention<'t>),
    /// As [`InPlaceLock::Barred`].
    Barred,
}
