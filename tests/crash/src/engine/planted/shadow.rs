//! Errors of reasoning in the words of rows in DRAM, and in what tables show of them.

use crate::subject::{Planted, planted};
use perdura_pmem::Mutant;

pub(super) const PLANTED: &[Planted] = &[
    planted(
        Mutant::SnapshotMissesLastCommit,
        "visibility",
        "a snapshot does not see the last commit before it",
        "races, mixed",
    ),
    planted(
        Mutant::StoredByOtherNotFlushed,
        "(I9), words stored by another",
        "a commit does not have the words flushed that another has stored for it",
        "stored for another",
    ),
    planted(
        Mutant::TakenOverBeforeStored,
        "shadow: a row is taken over stored",
        "a row is taken over before its last commit's words are stored",
        "races, crowded",
    ),
    planted(
        Mutant::ScanWaitsForStoredWords,
        "shadow: visible by one store",
        "a scan sees a commit only once its words are stored",
        "races, crowded",
    ),
    planted(
        Mutant::OldSnapshotSeesStoredWords,
        "shadow: history",
        "a scan at an older snapshot sees the words that are stored",
        "races, crowded",
    ),
    planted(
        Mutant::HistoryInOrderOfStoring,
        "shadow: history",
        "the history of a page is in the order of storing",
        "races, crowded",
    ),
    planted(
        Mutant::PurgeTakesWholeHistory,
        "(I8), history",
        "purge takes the whole history of a page",
        "races, crowded",
    ),
    planted(
        Mutant::SharedLockInPlaceHoldsNobody,
        "locks in place",
        "a row that is shared in place is written by others",
        "rows that refer to others",
    ),
    planted(Mutant::LockInPlaceHoldsNobody, "locks in place", "a lock in place holds nobody off", "races, crowded"),
    planted(
        Mutant::ScanSeesOwnLaterWrites,
        "own writes by steps",
        "a scan sees what its transaction wrote after it began",
        "races, crowded",
    ),
    planted(
        Mutant::UndoKeepsNewerOwnVersion,
        "own writes by steps",
        "undo does not give the row its earlier own version back",
        "races, mixed",
    ),
    planted(
        Mutant::SweepSkipsPurgeQueue,
        "sweep",
        "a sweep does not know which rows purge is about to free",
        "a sweep beside purge",
    ),
    planted(
        Mutant::TableClosedBeforePurge,
        "(I8), closed tables",
        "a table is closed although versions wait for purge",
        "tables that close",
    ),
    planted(
        Mutant::MergedHistoryKeepsOlderWord,
        "shadow: merged history",
        "of two merged commits the word before the newer one counts",
        "races, crowded",
    ),
    planted(
        Mutant::HistoryMergedBeforeCheckpoint,
        "(I8), merged history",
        "commits are merged although no checkpoint covers them",
        "stored behind",
    ),
    planted(Mutant::DeletedRowRead, "visibility", "a deleted row is read", "races, mixed"),
    planted(
        Mutant::NewerTableRead,
        "visibility",
        "a table newer than the snapshot is read",
        "tables that are defined anew",
    ),
    planted(
        Mutant::ScanSeesLaterPage,
        "(I4), bulk pages",
        "a scan sees a page that was published after its snapshot",
        "races, reload",
    ),
];
