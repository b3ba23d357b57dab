//! Errors of reasoning in the log and its recovery.

use crate::subject::{Planted, planted};
use perdura_pmem::Mutant;

pub(super) const PLANTED: &[Planted] = &[
    planted(
        Mutant::ClosedGapForgetsMarks,
        "log/watermark.rs, a closed gap",
        "marks beyond the gap that was closed are forgotten",
        "three threads",
    ),
    planted(
        Mutant::HorizonsLeapOverGap,
        "(I1), (I4)",
        "durable_csn, visible_csn and stored_csn leap over a gap",
        "three threads",
    ),
    planted(
        Mutant::LagClaimsAllDurable,
        "(I6), a proven loss",
        "the lag in a commit record claims that every earlier commit is durable",
        "three threads",
    ),
    planted(Mutant::ArmBeforeStored, "(I9)", "a generation is armed although a commit in it is not stored", "ordered"),
    planted(
        Mutant::ArmOverPreparedEnding,
        "(I9), copied transactions",
        "a generation is armed although it holds the ending of a PREPARE record of another generation",
        "ordered",
    ),
    planted(
        Mutant::ArmWithoutCheckpoint,
        "(I9)",
        "a generation is armed without the checkpoint that covers its records",
        "large transactions",
    ),
    planted(Mutant::OneSaltForAllActivations, "(I6), (I7), salts", "one salt for all activations", "ordered"),
    planted(
        Mutant::CheckpointAtDurable,
        "checkpoint: stored, not only durable",
        "a checkpoint at durable_csn",
        "prepared",
    ),
    planted(Mutant::RecoveryKeepsCheckpoint, "(I7)", "recovery leaves the checkpoint where it was", "mixed"),
    planted(
        Mutant::RecoveryKeepsRecordsAboveHorizon,
        "(I7)",
        "recovery leaves the records above the horizon valid",
        "wrap-around",
    ),
    planted(
        Mutant::RecoveryVoidsPreparedCopies,
        "(I7), (I9)",
        "recovery voids its own copies of prepared transactions",
        "prepared",
    ),
    planted(
        Mutant::LogGoesOnAfterFailedSuperblock,
        "(I11)",
        "the log goes on after the superblock could not be written",
        "failed persist",
    ),
    planted(
        Mutant::SuperblockOverwritesOnlyCopy,
        "(I2), superblock",
        "each superblock write overwrites the only durable copy",
        "mixed",
    ),
    planted(
        Mutant::FirstValidSuperblockCounts,
        "superblock: the newer valid copy counts",
        "the first valid copy counts",
        "mixed",
    ),
    planted(
        Mutant::ReplayPastMissingCsn,
        "(I6), horizon",
        "replay goes on beyond the first missing CSN",
        "three threads",
    ),
    planted(
        Mutant::CommitWithMissingChunks,
        "(I6), chunks",
        "a commit counts with whatever chunks are found",
        "large transactions",
    ),
    planted(
        Mutant::EndingAboveHorizonCounts,
        "a prepared transaction's end",
        "a COMMIT_PREPARED above the horizon ends its transaction",
        "held",
    ),
    planted(Mutant::InvalidGranuleEndsScan, "(I6), scan", "an invalid granule ends the scan of a lane", "prepared"),
    planted(
        Mutant::PreparedRollbackNotLogged,
        "two-phase rollback",
        "the rollback of a prepared transaction is not logged",
        "prepared",
    ),
    planted(
        Mutant::FailedFenceUnasked,
        "(I1), (I11), a page medium",
        "a commit counts as durable although the medium has failed",
        "failed sync",
    ),
    planted(Mutant::SectorSharedByWrites, "(I2), log on a disk", "a sector has acknowledged records too", "pages"),
    planted(
        Mutant::WriteAnnouncedEarly,
        "(I1), the log on a disk",
        "a record counts as written before the write that it shares is made",
        "shared writes",
    ),
    planted(
        Mutant::WriteUnderWayCounts,
        "(I1), the log on a disk",
        "a record counts as written when the write ends that was under way as it came",
        "shared writes",
    ),
    planted(Mutant::CsnFilledWhenTaken, "(I5)", "a CSN counts as filled when it is taken", "three threads"),
    planted(
        Mutant::CheckpointPastUnflushedWords,
        "(I9), words flushed behind",
        "a checkpoint goes past words that nobody has flushed",
        "mixed",
    ),
    planted(
        Mutant::LogFilesRemovedWhileNamed,
        "log/shrink.rs, superblock before files",
        "log files are removed while a superblock still names them",
        "shrinking log",
    ),
    planted(
        Mutant::SuperblockBeforeSettled,
        "(I9), a medium that settles",
        "the superblock names a checkpoint before the medium has settled what it covers",
        "settled checkpoints",
    ),
    planted(
        Mutant::CheckpointBeyondSettled,
        "(I9), a medium that settles",
        "a checkpoint covers what was stored while the medium settled",
        "settled checkpoints",
    ),
];
