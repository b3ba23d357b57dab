//! Errors of reasoning in the pool: snapshots, locks, purge and holds.

use crate::subject::{Planted, planted};
use perdura_pmem::Mutant;

pub(super) const PLANTED: &[Planted] = &[
    planted(Mutant::PurgePastCheckpoint, "(I8)", "purge goes beyond the checkpoint", "reuse"),
    planted(Mutant::PurgeIgnoresSnapshots, "(I8), snapshots", "purge ignores snapshots", "races, contended"),
    planted(
        Mutant::SharedLockUpgradedBesideOthers,
        "locks",
        "a shared lock is upgraded while others hold it too",
        "races, contended",
    ),
    planted(
        Mutant::ReleasedLockEntersTable,
        "locks in place",
        "a holder may have released what is then put into the lock table in its name",
        "races, moved",
    ),
    planted(
        Mutant::QueuedAheadNotInWay,
        "locks: who is in the way",
        "those before a waiter in the queue are not in its way",
        "workers in order",
    ),
    planted(Mutant::OnlyShortCyclesFound, "locks: deadlocks", "only cycles of two are found", "locks in cycles"),
    planted(
        Mutant::ReleasedWriterEntered,
        "txn/table_lock.rs, writers entered",
        "a writer is entered that has released its locks",
        "tables that stand still",
    ),
    planted(
        Mutant::QueueHeadIgnoresShared,
        "locks: queues",
        "the first in the queue gets a lock that others hold shared",
        "tables that stand still",
    ),
    planted(
        Mutant::SnapshotBehindPurge,
        "(I8), snapshots",
        "a snapshot is taken behind what purge has announced",
        "races, purged",
    ),
    planted(
        Mutant::ChangeSkipsHold,
        "(I2), pool/hold.rs",
        "a change does not look whether the pool is held",
        "a pool that is held",
    ),
    planted(
        Mutant::HoldIgnoresChangesUnderWay,
        "(I2), pool/hold.rs",
        "changes under way go on while the pool is held",
        "a pool that is held",
    ),
    planted(
        Mutant::HoldLooksBeforeMark,
        "(I2), pool/hold.rs",
        "the holder looks for changes before it sets its mark",
        "a pool that is held",
    ),
    planted(
        Mutant::ReleasedHoldTakesNext,
        "pool/hold.rs, releases",
        "a hold that was released while it waited takes the next one for its own",
        "a pool that is held by turns",
    ),
    planted(
        Mutant::PurgeDuringHold,
        "(I2), pool/hold.rs",
        "purge goes on while the pool is held",
        "a pool that is held",
    ),
    planted(
        Mutant::ReleaseEndsAnyHold,
        "pool/hold.rs, releases",
        "a release ends whatever hold there is",
        "a pool that is held by turns",
    ),
    planted(
        Mutant::CheckpointUnsettled,
        "(I9), a medium that settles",
        "a checkpoint does not settle the medium",
        "settled checkpoints",
    ),
    planted(
        Mutant::JournalHalfFullUnheeded,
        "pool/checkpoints.rs, the medium's journal",
        "a journal that is half full makes no checkpoint due",
        "checkpoints by themselves",
    ),
    planted(
        Mutant::LogVolumeUnheeded,
        "pool/checkpoints.rs, the next redo",
        "no length of the log makes a checkpoint due",
        "checkpoints by themselves",
    ),
];
