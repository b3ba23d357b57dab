//! Errors of reasoning in space and files.

use crate::subject::{Planted, planted};
use perdura_pmem::Mutant;

pub(super) const PLANTED: &[Planted] = &[
    planted(
        Mutant::PreparedRidsReused,
        "recovery, prepared",
        "the RIDs that a prepared transaction inserted are given to others",
        "prepared",
    ),
    planted(
        Mutant::SweepPurgesNewDeletions,
        "sweep",
        "a sweep purges deletions of this run as if they were older than the restart",
        "restarted",
    ),
    planted(Mutant::SweepCountsDeadCells, "(I4), sweep", "a cell counts as in use whenever its row is", "reuse"),
    planted(Mutant::LinkBeforeHeader, "(I3), link", "a file is linked before its header is durable", "expansion"),
    planted(
        Mutant::DirectorySegmentKeepsContent,
        "(I3), directory",
        "a new directory segment keeps its old content",
        "used segments",
    ),
    planted(
        Mutant::PagePublishedWithLeftWords,
        "(I4), pages",
        "a page is published with the words that a rollback or a crash left in it",
        "mixed",
    ),
    planted(
        Mutant::OwnedSegmentFreed,
        "allocator: an owner's segment",
        "an empty segment is free although an owner is filling it",
        "races, reuse",
    ),
    planted(
        Mutant::NearCellOfAnyClass,
        "allocator: a cell near another",
        "a version is put near the one before it although it is longer than the cells there",
        "mixed",
    ),
    planted(
        Mutant::ExtentsSweptEarly,
        "sweep, extents",
        "extents count as swept while the first who needs one still looks for them",
        "races, restarted",
    ),
    planted(
        Mutant::ReturnedPageCountsAsClean,
        "(I4), bulk pages",
        "a page that a rollback returns counts as clean",
        "mixed",
    ),
    planted(Mutant::ReusedRidKeepsIncarnation, "(I8), incarnations", "a reused RID keeps its old incarnation", "reuse"),
    planted(Mutant::StorePastMedium, "(I10)", "directory words are stored past the one door", "mixed"),
    planted(
        Mutant::DeletedVersionFreedEarly,
        "(I8), deleted rows",
        "the version of a deleted row is free before its word is empty",
        "restarted",
    ),
    planted(
        Mutant::PageReturnedBeforeRedo,
        "(I8), pages given back",
        "a page is given back although redo may still publish it",
        "reload",
    ),
    planted(
        Mutant::PageReturnedWithRidInUse,
        "(I8), pages given back",
        "a page is given back although a transaction has one of its RIDs",
        "races, reload",
    ),
    planted(
        Mutant::LeftPageLosesIncarnations,
        "(I8), incarnations",
        "a page that a rollback or a crash left loses its incarnations",
        "races, reload",
    ),
    planted(
        Mutant::ReturnedPageKeepsRids,
        "(I8), pages given back",
        "the RIDs of a page that is given back stay in the list",
        "races, reload",
    ),
    planted(
        Mutant::FileRemovedBeforeUnlink,
        "(I3), files given back",
        "a file is removed before the link to it is cleared",
        "file return",
    ),
    planted(Mutant::KeptFileUnwiped, "(I3), kept files", "a kept file keeps its link and its descriptors", "kept file"),
    planted(
        Mutant::KeptFileLinkedBeforeWipe,
        "(I3), kept files",
        "a kept file is linked before its wipe is fenced",
        "kept file",
    ),
    planted(
        Mutant::FileReturnedWithOwnedSegment,
        "(I8), files given back",
        "a file is given back although an owner has a segment of it",
        "races, file return",
    ),
    planted(
        Mutant::IncarnationsLostWithFile,
        "(I8), incarnations",
        "RIDs begin again at incarnation 0 after their pages went with a file",
        "tables that shrink",
    ),
    planted(
        Mutant::RidInUnusedPart,
        "files/directory.rs, rows in use",
        "a RID is given out in a part of its page that does not count as in use",
        "mixed",
    ),
];
