//! Errors of reasoning in the engine's recovery, catalog and DDL.

use crate::subject::{Planted, planted};
use perdura_pmem::Mutant;

pub(super) const PLANTED: &[Planted] = &[
    planted(Mutant::ValueSkippedAtRedo, "(I6), by value", "redo writes nothing that records carry", "pages by value"),
    planted(Mutant::ValuesOfPreparedSkipped, "(I6), by value", "redo skips prepared ones", "pages by value"),
    planted(Mutant::ValueInWrongPlace, "(I6), by value", "a version goes to the place behind", "pages by value"),
    planted(Mutant::RedoTrustsUnflushed, "(I2), recovery", "redo takes what it reads for durable", "mixed"),
    planted(
        Mutant::PreparedCellsFree,
        "recovery, prepared",
        "the cells of a prepared transaction are free",
        "prepared",
    ),
    planted(
        Mutant::FilesRemovedBeforeDrop,
        "catalog: files are removed after the commit",
        "a dropped table's files are removed before the commit that drops it",
        "ddl",
    ),
    planted(
        Mutant::RedefinitionsBeforeRename,
        "catalog: definitions that name a renamed table",
        "definitions that name a table follow in a commit before its rename",
        "ddl",
    ),
    planted(Mutant::TableIdReused, "(I8), table ids", "ids of dropped tables are reused", "one after another"),
    planted(
        Mutant::RedoSkipsSpilledPages,
        "(I1), spilled pages",
        "redo passes by the words of spilled pages",
        "spilled",
    ),
    planted(
        Mutant::IndexNumberReused,
        "numbers of indexes",
        "a dropped index gives its number to the next",
        "keys, altered",
    ),
    planted(
        Mutant::RedoVerifiesPublishedPage,
        "redo is repeatable",
        "redo verifies a bulk page that is published already",
        "mixed",
    ),
    planted(
        Mutant::PreparedPagesFree,
        "recovery, prepared",
        "the pages that a prepared transaction filled are free",
        "held",
    ),
    planted(
        Mutant::PreparedSpilledCellsFree,
        "recovery, prepared",
        "the cells of a prepared transaction's spilled words are free",
        "prepared, spilled",
    ),
    planted(Mutant::UnownedFilesStay, "recovery: files", "files that are part of no table stay", "ddl"),
    planted(
        Mutant::RecoveryUnsettled,
        "(I7), a medium that settles",
        "a recovery ends without settling the medium",
        "settled checkpoints",
    ),
    planted(Mutant::RedoBeforeValues, "(I6), by value", "records are redone before values", "pages by value"),
];
