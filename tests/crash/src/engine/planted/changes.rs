//! Errors of reasoning in what a transaction changes.

use crate::subject::{Planted, planted};
use perdura_pmem::Mutant;

pub(super) const PLANTED: &[Planted] = &[
    planted(Mutant::LargeTakenForSmall, "(I3), by value", "a large transaction is logged as a small one", "by value"),
    planted(
        Mutant::ChecksumOfInsertedRows,
        "(I6), bulk pages",
        "the checksum of an edited bulk page is that of the rows as inserted",
        "edited bulk",
    ),
    planted(
        Mutant::LostUpdate,
        "the first updater wins",
        "a row that changed since the snapshot is overwritten",
        "races, contended",
    ),
    planted(Mutant::DeletedRowChanged, "write: a live row", "a deleted row is changed", "reuse"),
    planted(
        Mutant::VersionReplacedInUnsweptSegment,
        "a segment is swept before a version in it is replaced",
        "a version is replaced in an unswept segment",
        "restarted",
    ),
    planted(Mutant::RolledBackRidLost, "(I4), RIDs", "the RID of a rolled-back insert is lost", "mixed"),
    planted(
        Mutant::HolesCollectedAfterPublication,
        "RIDs",
        "the holes of a bulk insert are collected after its pages are published",
        "races, emptied",
    ),
    planted(
        Mutant::ReusedRidTakenForOld,
        "(I8), incarnations",
        "a RID that the transaction reuses is taken for the row it named before",
        "races, reuse",
    ),
    planted(
        Mutant::BulkRidsOfIncarnationZero,
        "(I8), incarnations",
        "a bulk insert gives out RIDs of incarnation 0",
        "races, reload",
    ),
    planted(
        Mutant::RowMovedFromStalePlace,
        "moved rows",
        "a row is moved from where it was when it was looked for",
        "races, sparse",
    ),
    planted(
        Mutant::MovedRowPlaceNeverPurged,
        "moved rows",
        "the places that moved rows have left are never purged",
        "races, sparse",
    ),
    planted(Mutant::LockedRowMoved, "moved rows", "a row is moved while another transaction holds it", "races, moved"),
    planted(
        Mutant::WriterSkipsReaders,
        "txn/table_lock.rs, announcement",
        "a writer enters its first change without a look for readers",
        "tables that stand still",
    ),
    planted(
        Mutant::RefusedRowInChecksum,
        "(I6), refused inserts",
        "a refused row counts in the checksum of its bulk page",
        "keys that come and go",
    ),
    planted(
        Mutant::RefusedVersionFreedEarly,
        "(I4), refused inserts",
        "the version of a refused row is free while its word is still there",
        "races, keys, contended",
    ),
];
