//! Errors of reasoning in indexes.

use crate::subject::{Planted, planted};
use perdura_pmem::Mutant;

pub(super) const PLANTED: &[Planted] = &[
    planted(Mutant::ValueInWrongSlot, "(I6), by value", "an entry goes to the slot behind", "pages by value"),
    planted(
        Mutant::LeafInUseBeforeContent,
        "(I3), leaves",
        "a new leaf is in use before its content is durable",
        "keys",
    ),
    planted(
        Mutant::FullLeafVoidBeforeRight,
        "(I3), leaves",
        "a full leaf is void before the one on its right is durable",
        "keys that come and go",
    ),
    planted(
        Mutant::EntryValidBeforeCommit,
        "(I4), valid words",
        "a valid word has entries before their commit is durable",
        "keys",
    ),
    planted(
        Mutant::SlotReusedBeforeRedo,
        "(I8), slots",
        "a slot is used again although redo may still name its entry",
        "keys, restarted",
    ),
    planted(
        Mutant::SlotReusedUnderSnapshot,
        "(I8), snapshots",
        "a slot is used again although a snapshot sees its entry",
        "races, keys, contended",
    ),
    planted(
        Mutant::LeafPlaceReusedBeforeRedo,
        "(I8), places",
        "a leaf's place is used again although redo needs its entries",
        "left leaves",
    ),
    planted(
        Mutant::ReaderSkipsLeafCheck,
        "index/find.rs, readers",
        "a reader does not look whether the leaf is still the one",
        "races, keys, crowded",
    ),
    planted(
        Mutant::SplitLeavesChangesBehind,
        "splits",
        "changes under way stay behind in a leaf that is replaced",
        "races, keys, crowded",
    ),
    planted(
        Mutant::SplitHiddenFromTransaction,
        "splits",
        "a transaction does not learn where its changes have gone",
        "races, keys, crowded",
    ),
    planted(
        Mutant::LeafEndTakenAlong,
        "leaves: the next one's low key is the end",
        "what lies beyond a leaf's end is taken along",
        "keys that come and go",
    ),
    planted(
        Mutant::UncountedEntriesCountAfterSplit,
        "splits",
        "entries that do not count do in the leaf that replaces theirs",
        "races, keys, crowded",
    ),
    planted(
        Mutant::JoinKeepsRightLeaf,
        "joins",
        "the leaf on the right of a join stays in use",
        "keys that come and go",
    ),
    planted(Mutant::RedoByPlace, "redo by key", "redo inserts an entry where its record says", "keys that come and go"),
    planted(Mutant::RedoSkipsDeletions, "redo by key", "redo does not delete entries", "keys, restarted"),
    planted(
        Mutant::RollbackLeavesEntries,
        "undo",
        "a rollback leaves what the transaction did to a leaf",
        "races, keys",
    ),
    planted(
        Mutant::PendingInsertIsFree,
        "unique keys: what is pending",
        "a key that another transaction has inserted is free",
        "races, keys, contended",
    ),
    planted(
        Mutant::PendingDeleteIsFree,
        "unique keys: what is pending",
        "a key that another transaction is deleting is free",
        "races, keys, contended",
    ),
    planted(
        Mutant::WalkMeetsOwnLaterWrites,
        "own writes by steps",
        "a walk over an index meets what its transaction wrote after it began",
        "races, keys, contended",
    ),
    planted(
        Mutant::PreparedKeysFree,
        "recovery, prepared",
        "the keys of a prepared transaction are free",
        "keys, prepared",
    ),
    planted(
        Mutant::CheckpointPastUnflushedValid,
        "(I9), valid words flushed behind",
        "a checkpoint goes past valid words that nobody has flushed",
        "keys",
    ),
    planted(
        Mutant::SeenEntryMergedAway,
        "(I8), merged history",
        "an entry that a snapshot sees is merged away",
        "races, keys, contended",
    ),
    planted(
        Mutant::EntryDeletedWithinLoggedAsInserted,
        "log",
        "an entry inserted and deleted by one transaction is logged as inserted",
        "keys",
    ),
    planted(
        Mutant::OldContentLooksLikeLeaves,
        "(I3), segments of leaves",
        "what a segment held before looks like leaves",
        "keys, restarted",
    ),
    planted(
        Mutant::LateCommitRevivesEntry,
        "leaves: commits store in any order",
        "a commit that stores late brings a deleted entry back",
        "races, keys, contended",
    ),
    planted(
        Mutant::NewLeavesNotInUse,
        "(I3), new indexes",
        "the leaves do not say that they are in use",
        "keys, altered",
    ),
    planted(
        Mutant::VacantLeafMissed,
        "index/vacant.rs, walks",
        "a leaf that becomes vacant during a look is missed",
        "races, keys, crowded",
    ),
    planted(
        Mutant::LeafSegmentReturnedInUse,
        "(I3), segments of leaves",
        "a segment is given back although a leaf there is in use",
        "races, keys, crowded",
    ),
    planted(Mutant::CompactLeafLacksSeen, "(I8), leaves", "a copy lacks what snapshots see", "races, keys, by value"),
    planted(Mutant::CompactLeafLacksUndecided, "(I8), leaves", "a copy lacks what is open", "races, keys, by value"),
    planted(Mutant::EntryLeftBehindIsDamage, "(I6), leaves", "redo wants what a copy lacks", "pages by value"),
];
