//! Errors of reasoning that can be planted in the maps.

use crate::subject::Planted;

const fn error(number: u32, rule: &'static str, error: &'static str, shown_by: &'static str) -> Planted {
    Planted { number, rule, error, shown_by }
}

/// All planted errors by number, from 100 on. A rule that is not one of the invariants is named by
/// its page and heading, or by the source file that states it.
pub const PLANTED: &[Planted] = &[
    error(100, "(I3)", "the root word is stored before what it names is fenced", "list mixed"),
    error(101, "(I2)", "the root record in force is overwritten", "list mixed"),
    error(102, "maps.md, Persisting", "two persists have the same number", "list mixed"),
    error(103, "(I1)", "a batch closes one change late", "btree each persisted"),
    error(104, "(I1)", "timestamps that moved without a change are not persisted", "list mixed"),
    error(105, "(I8)", "what a persist no longer needs is released before the persist is durable", "btree mixed"),
    error(106, "(I1)", "a change is called persisted when it is made", "btree rivals"),
    error(107, "maps.md, Pages", "a page belongs to the persist after the one that covers it", "list mixed"),
    error(108, "maps.md, Pages", "at a start the pages of the newest persist are free", "list mixed"),
    error(109, "(I8)", "a snapshot does not hold off the freeing of pages", "btree crowded"),
    error(110, "(I8)", "pages are free although a reader is pinned", "btree crowded"),
    error(111, "maps.md, Pages", "a run releases the page that it has partly filled", "list mixed"),
    error(
        112,
        "maps.md, Collection",
        "a page without live records is released although records in it are linked",
        "list mixed",
    ),
    error(113, "maps.md, Collection", "an object is counted only in the page where it begins", "list mixed"),
    error(114, "maps.md, Readers", "nodes are placed in pages that are about to be freed", "btree mixed"),
    error(115, "maps.md, Collection", "a page that a run is filling may be released", "btree reopened"),
    error(116, "maps.md, Readers", "a view does not hold off forgetting", "list each persisted"),
    error(117, "(I8)", "a persisted node is reused before a persist without it is durable", "btree mixed"),
    error(118, "maps.md, Snapshots", "a snapshot does not hold off the reuse of nodes", "btree crowded"),
    error(119, "maps.md, Readers", "a node in a page is reused although a reader is pinned", "btree crowded"),
    error(
        121,
        "maps.md, Snapshots",
        "free places of nodes survive a load that replaces the content they lie in",
        "btree loaded",
    ),
    error(122, "(I3)", "a link names a copy that is not persisted", "list mixed"),
    error(123, "(I8)", "unlinked records are released before the links are durable", "list mixed"),
    error(124, "maps.md, Collection", "a deletion is unlinked together with the versions it hides", "list mixed"),
    error(126, "maps.md, Snapshots", "a snapshot does not hold off the collector", "list crowded"),
    error(127, "maps.md, Rollback records", "the collector moves records that may be rolled back", "btree mixed"),
    error(128, "maps.md, Rollback records", "a rolled-back record stays linked", "list mixed"),
    error(129, "ordered_map.rs, rollback", "a rollback leaves the newest timestamp one too high", "list mixed"),
    error(130, "ordered_map.rs, forget", "forgetting drops the newest version", "list mixed"),
    error(
        132,
        "state.rs, forgotten",
        "readers learn what is forgotten only after it is dropped",
        "list each persisted",
    ),
    error(
        133,
        "maps.md, Rollback records",
        "after a restart every record counts as a version, replaced ones included",
        "btree mixed",
    ),
    error(134, "maps.md, Rollback records", "a replaced record is released while it is linked", "btree loaded"),
    error(135, "change.rs", "a failed change keeps its room", "btree crowded"),
    error(136, "(I1)", "a batch closes between a change and its application", "list each persisted"),
    error(137, "maps.md, Snapshots", "a snapshot contains changes that are not persisted", "list loaded"),
    error(138, "(I2)", "a leaf is changed in place", "btree mixed"),
    error(139, "tree.rs", "the only child of a root is dropped with it", "btree mixed"),
    error(140, "maps.md, One idea", "a node's entry in its parent is not the node's first key", "btree mixed"),
    error(141, "maps.md, Snapshots", "of several changes of a key at one timestamp all count", "list mixed"),
    error(
        142,
        "ordered_map.rs, forget",
        "opening drops the version that reads at the forgotten timestamp need",
        "list mixed",
    ),
    error(143, "load.rs", "a load links records that may be rolled back by key, not by timestamp", "list loaded"),
    error(144, "(I8)", "an epoch takes over counts in which there still are readers", "btree each persisted"),
    error(145, "maps.md, Crash story", "a map gets its name before it is complete", "list mixed"),
    error(146, "(I2)", "a root word stored by a killed process counts as durable", "btree each persisted"),
    error(147, "(I2)", "a link stored by a killed process counts as durable", "list each persisted"),
    error(148, "maps.md, Snapshots", "a load does not release the pages of the content it replaces", "list loaded"),
    error(149, "(I8)", "retired pages count as retired one epoch earlier", "btree each persisted"),
    error(
        150,
        "maps.md, Pages",
        "a block of the page table belongs to the persist after the one that covers it",
        "list mixed",
    ),
    error(152, "(I1)", "what was persisted once counts as persisted, whatever came in its place", "list mixed"),
    error(153, "maps.md, Snapshots", "a map that was emptied for a load passes for an empty one", "list loaded"),
    error(154, "(I1)", "a batch of changes is persisted between them", "list mixed"),
    error(155, "maps.md, Collection", "a milestone outlives its record", "runs, list overwritten"),
];
