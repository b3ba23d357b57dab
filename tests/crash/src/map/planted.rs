//! Errors of reasoning that can be planted in the maps.

use crate::subject::Planted;
use perdura_pmem::Mutant;

const fn error(mutant: Mutant, rule: &'static str, error: &'static str, shown_by: &'static str) -> Planted {
    Planted { mutant, rule, error, shown_by }
}

/// All planted errors. A rule that is not one of the invariants is named by its page and heading, or by the source file that states it.
pub const PLANTED: &[Planted] = &[
    error(Mutant::RootBeforeContent, "(I3)", "the root word is stored before what it names is fenced", "list mixed"),
    error(Mutant::RootInForceOverwritten, "(I2)", "the root record in force is overwritten", "list mixed"),
    error(Mutant::TwoPersistsOneNumber, "maps.md, Persisting", "two persists have the same number", "list mixed"),
    error(Mutant::BatchClosesLate, "(I1)", "a batch closes one change late", "btree each persisted"),
    error(
        Mutant::TimestampsNotPersisted,
        "(I1)",
        "timestamps that moved without a change are not persisted",
        "list mixed",
    ),
    error(
        Mutant::ReleasedBeforePersist,
        "(I8)",
        "what a persist no longer needs is released before the persist is durable",
        "btree mixed",
    ),
    error(Mutant::PersistedWhenMade, "(I1)", "a change is called persisted when it is made", "btree rivals"),
    error(
        Mutant::PageOfLaterPersist,
        "maps.md, Pages",
        "a page belongs to the persist after the one that covers it",
        "list mixed",
    ),
    error(
        Mutant::NewestPagesFreeAtStart,
        "maps.md, Pages",
        "at a start the pages of the newest persist are free",
        "list mixed",
    ),
    error(Mutant::SnapshotHoldsNoPages, "(I8)", "a snapshot does not hold off the freeing of pages", "btree crowded"),
    error(Mutant::PagesFreedUnderReader, "(I8)", "pages are free although a reader is pinned", "btree crowded"),
    error(
        Mutant::PartlyFilledPageReleased,
        "maps.md, Pages",
        "a run releases the page that it has partly filled",
        "list mixed",
    ),
    error(
        Mutant::LinkedPageReleased,
        "maps.md, Collection",
        "a page without live records is released although records in it are linked",
        "list mixed",
    ),
    error(
        Mutant::ObjectCountedInFirstPage,
        "maps.md, Collection",
        "an object is counted only in the page where it begins",
        "list mixed",
    ),
    error(
        Mutant::NodeInDyingPage,
        "maps.md, Readers",
        "nodes are placed in pages that are about to be freed",
        "btree mixed",
    ),
    error(
        Mutant::FillingPageReleased,
        "maps.md, Collection",
        "a page that a run is filling may be released",
        "btree reopened",
    ),
    error(
        Mutant::ViewHoldsNoForgetting,
        "maps.md, Readers",
        "a view does not hold off forgetting",
        "list each persisted",
    ),
    error(
        Mutant::NodeReusedBeforePersist,
        "(I8)",
        "a persisted node is reused before a persist without it is durable",
        "btree mixed",
    ),
    error(
        Mutant::SnapshotHoldsNoNodes,
        "maps.md, Snapshots",
        "a snapshot does not hold off the reuse of nodes",
        "btree crowded",
    ),
    error(
        Mutant::NodeReusedUnderReader,
        "maps.md, Readers",
        "a node in a page is reused although a reader is pinned",
        "btree crowded",
    ),
    error(
        Mutant::NodePlacesSurviveLoad,
        "maps.md, Snapshots",
        "free places of nodes survive a load that replaces the content they lie in",
        "btree loaded",
    ),
    error(Mutant::LinkToUnpersistedCopy, "(I3)", "a link names a copy that is not persisted", "list mixed"),
    error(
        Mutant::UnlinkedReleasedBeforeLinks,
        "(I8)",
        "unlinked records are released before the links are durable",
        "list mixed",
    ),
    error(
        Mutant::DeletionUnlinkedWithVersions,
        "maps.md, Collection",
        "a deletion is unlinked together with the versions it hides",
        "list mixed",
    ),
    error(
        Mutant::SnapshotHoldsNoCollector,
        "maps.md, Snapshots",
        "a snapshot does not hold off the collector",
        "list crowded",
    ),
    error(
        Mutant::CollectorMovesRollbackRecord,
        "maps.md, Rollback records",
        "the collector moves records that may be rolled back",
        "btree mixed",
    ),
    error(
        Mutant::RolledBackRecordLinked,
        "maps.md, Rollback records",
        "a rolled-back record stays linked",
        "list mixed",
    ),
    error(
        Mutant::RollbackOneTooHigh,
        "ordered_map.rs, rollback",
        "a rollback leaves the newest timestamp one too high",
        "list mixed",
    ),
    error(Mutant::ForgetDropsNewest, "ordered_map.rs, forget", "forgetting drops the newest version", "list mixed"),
    error(
        Mutant::ForgottenPublishedLate,
        "state.rs, forgotten",
        "readers learn what is forgotten only after it is dropped",
        "list each persisted",
    ),
    error(
        Mutant::ReplacedRecordsCountAfterStart,
        "maps.md, Rollback records",
        "after a restart every record counts as a version, replaced ones included",
        "btree mixed",
    ),
    error(
        Mutant::ReplacedReleasedWhileLinked,
        "maps.md, Rollback records",
        "a replaced record is released while it is linked",
        "btree loaded",
    ),
    error(Mutant::FailedChangeKeepsRoom, "change.rs", "a failed change keeps its room", "btree crowded"),
    error(
        Mutant::BatchClosesBeforeApplication,
        "(I1)",
        "a batch closes between a change and its application",
        "list each persisted",
    ),
    error(
        Mutant::SnapshotOfUnpersisted,
        "maps.md, Snapshots",
        "a snapshot contains changes that are not persisted",
        "list loaded",
    ),
    error(Mutant::LeafChangedInPlace, "(I2)", "a leaf is changed in place", "btree mixed"),
    error(Mutant::OnlyChildDropped, "tree.rs", "the only child of a root is dropped with it", "btree mixed"),
    error(
        Mutant::SeparatorNotFirstKey,
        "maps.md, One idea",
        "a node's entry in its parent is not the node's first key",
        "btree mixed",
    ),
    error(
        Mutant::SameTimestampChangesAllCount,
        "maps.md, Snapshots",
        "of several changes of a key at one timestamp all count",
        "list mixed",
    ),
    error(
        Mutant::OpeningDropsNeededVersion,
        "ordered_map.rs, forget",
        "opening drops the version that reads at the forgotten timestamp need",
        "list mixed",
    ),
    error(
        Mutant::LoadLinksByKey,
        "load.rs",
        "a load links records that may be rolled back by key, not by timestamp",
        "list loaded",
    ),
    error(
        Mutant::EpochTakesOverReaders,
        "(I8)",
        "an epoch takes over counts in which there still are readers",
        "btree each persisted",
    ),
    error(
        Mutant::MapNamedBeforeComplete,
        "maps.md, Crash story",
        "a map gets its name before it is complete",
        "list mixed",
    ),
    error(
        Mutant::KilledRootCountsAsDurable,
        "(I2)",
        "a root word stored by a killed process counts as durable",
        "btree each persisted",
    ),
    error(
        Mutant::KilledLinkCountsAsDurable,
        "(I2)",
        "a link stored by a killed process counts as durable",
        "list each persisted",
    ),
    error(
        Mutant::LoadKeepsOldPages,
        "maps.md, Snapshots",
        "a load does not release the pages of the content it replaces",
        "list loaded",
    ),
    error(
        Mutant::RetiredOneEpochEarly,
        "(I8)",
        "retired pages count as retired one epoch earlier",
        "btree each persisted",
    ),
    error(
        Mutant::PageTableOfLaterPersist,
        "maps.md, Pages",
        "a block of the page table belongs to the persist after the one that covers it",
        "list mixed",
    ),
    error(
        Mutant::PersistedOnceStaysPersisted,
        "(I1)",
        "what was persisted once counts as persisted, whatever came in its place",
        "list mixed",
    ),
    error(
        Mutant::EmptiedMapPassesForEmpty,
        "maps.md, Snapshots",
        "a map that was emptied for a load passes for an empty one",
        "list loaded",
    ),
    error(Mutant::BatchPersistedWithin, "(I1)", "a batch of changes is persisted between them", "list mixed"),
    error(
        Mutant::MilestoneOutlivesRecord,
        "maps.md, Collection",
        "a milestone outlives its record",
        "runs, list overwritten",
    ),
];
