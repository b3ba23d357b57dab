//! Errors of reasoning in transactions and statements.

use crate::subject::{Planted, planted};
use perdura_pmem::Mutant;

pub(super) const PLANTED: &[Planted] = &[
    planted(Mutant::ValuesUnflushedWithRecord, "(I9), by value", "what a record carries is not flushed", "by value"),
    planted(Mutant::LargeTransactionUnfenced, "(I3), by value", "a large transaction is not fenced", "by value"),
    planted(
        Mutant::PublishBeforeEarlierDurable,
        "(I4)",
        "a commit is published before those before it are durable",
        "three threads",
    ),
    planted(
        Mutant::BulkPagePublishedBeforeRecord,
        "(I4), bulk pages",
        "pages of a bulk insert are published before its record is durable",
        "edited bulk",
    ),
    planted(
        Mutant::UnlockBeforePublication,
        "locks until publication",
        "locks are released before publication",
        "races, edited bulk",
    ),
    planted(Mutant::AckBeforeVisible, "(I1)", "a commit is acknowledged before it is visible", "races, prepared"),
    planted(
        Mutant::PreparedCellsFreedEarly,
        "(I8), two-phase rollback",
        "the cells of a prepared transaction are freed before the log forgets it",
        "undone",
    ),
    planted(
        Mutant::StatementLeavesUnfenced,
        "(I3), another thread's commit",
        "what a statement has flushed is fenced by whichever thread commits",
        "handed over",
    ),
    planted(
        Mutant::UndoLeavesUnfenced,
        "(I3), another thread's commit",
        "what a rollback to a savepoint has flushed is fenced by whichever thread commits",
        "handed over",
    ),
    planted(
        Mutant::SnapshotAheadOfVisible,
        "snapshots: visible in order",
        "a snapshot ahead of what is visible is read at once",
        "races, prepared",
    ),
    planted(
        Mutant::SavepointVersionsFreed,
        "savepoints",
        "own versions that a savepoint brings back are freed with the statement that replaced them",
        "races, mixed",
    ),
    planted(
        Mutant::MovedRowPlaceFreedAtOnce,
        "(I8), moved rows",
        "the place that a moved row has left is free at once",
        "races, sparse",
    ),
    planted(
        Mutant::ParentUnlocked,
        "txn/references.rs",
        "whoever writes a reference does not lock the row that it refers to",
        "rows that refer to others",
    ),
    planted(
        Mutant::ParentLockedUnseen,
        "txn/references.rs",
        "a row that was waited for is taken to be there still",
        "rows that refer to others",
    ),
    planted(
        Mutant::UndecidedParentIgnored,
        "txn/references.rs",
        "a row that another transaction inserts or deletes is taken for none",
        "rows that refer to others",
    ),
    planted(
        Mutant::UndecidedChildIgnored,
        "txn/references.rs",
        "a reference that another transaction inserts or deletes is taken for none",
        "rows that refer to others",
    ),
    planted(
        Mutant::ReaderSkipsWriters,
        "txn/table_lock.rs, announcement",
        "a reader does not look for the writers that are there",
        "tables that stand still",
    ),
    planted(
        Mutant::TableLockKeepsOldSnapshot,
        "txn/table_lock.rs, snapshot",
        "a statement goes on reading at the snapshot from before it locked the table",
        "tables that stand still",
    ),
    planted(
        Mutant::ReadingWriterShares,
        "txn/table_lock.rs, modes",
        "a writer that reads shares the table",
        "tables that stand still",
    ),
    planted(
        Mutant::DuplicateLeavesOtherIndex,
        "undo",
        "a duplicate in one index leaves what was done in another",
        "races, keys, contended",
    ),
    planted(
        Mutant::TableReaderSkipsVisible,
        "txn/table_lock.rs, step 4",
        "a reader of a whole table does not wait until what writers have committed is visible",
        "tables that stand still",
    ),
    planted(
        Mutant::CommitDuringHold,
        "(I2), pool/hold.rs",
        "a transaction ends while the pool is held",
        "a pool that is held",
    ),
    planted(
        Mutant::LockingReadByLeaf,
        "txn/index_scan.rs, rows to be locked",
        "rows to be locked are found among the newest entries, leaf by leaf",
        "rows that change keys",
    ),
    planted(
        Mutant::MovedRowNotMetAgain,
        "txn/moved_rows.rs",
        "a row that has moved on is not met again",
        "rows that change keys",
    ),
    planted(
        Mutant::MovedBackRowLeftOut,
        "txn/moved_rows.rs",
        "a row that has moved back is left out",
        "rows that change keys",
    ),
    planted(
        Mutant::DescendingWalkTakenForAscending,
        "txn/moved_rows.rs, the walk",
        "what is ahead of a descending walk is taken for what is behind it",
        "rows that change keys",
    ),
    planted(
        Mutant::OwnRowReadAhead,
        "txn/rows_ahead.rs",
        "a scan reads what others have committed of a table that the transaction has written",
        "keys",
    ),
];
