//! Tests the tests: each error of reasoning that is planted in the page medium must be noticed by
//! its run, which finds nothing without it. Compiled with the feature `planted`, as in the tests of
//! the workspace; alone: `cargo test -p perdura-pmem --features planted`.

use crate::{journal, split};
use perdura_pmem::Mutant;
use perdura_pmem::planted::Planting;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

/// All planted errors, each with the run that notices it.
const PLANTED: [(Mutant, fn()); 18] = [
    (
        Mutant::PublishedLaterUnawaited,
        journal::words_published_later_are_written_with_the_next_fence_or_when_somebody_waits,
    ),
    (Mutant::GroupJoinedIsWritten, journal::a_fence_is_one_write_whatever_files_it_covers),
    (Mutant::SegmentsVoidUnsynced, journal::a_checkpoint_syncs_the_files_and_ends_the_journal_before_it),
    (Mutant::ClosedFileUnsynced, journal::a_checkpoint_syncs_the_files_and_ends_the_journal_before_it),
    (Mutant::NewestSegmentVoidFirst, journal::a_checkpoint_that_is_cut_off_leaves_no_older_content_in_force),
    (Mutant::SegmentsReplayedByName, journal::segments_are_replayed_in_the_order_of_their_groups),
    (Mutant::ReplayedAsRead, journal::a_damaged_journal_is_refused_and_a_torn_end_is_not),
    (Mutant::ReplayPastTornGroup, journal::a_damaged_journal_is_refused_and_a_torn_end_is_not),
    (Mutant::NameNotForgotten, journal::a_new_file_gets_nothing_of_an_old_one_with_its_name),
    (Mutant::ForgottenPiecesReplayed, journal::a_new_file_gets_nothing_of_an_old_one_with_its_name),
    (Mutant::RenamedUnsynced, journal::a_renamed_file_keeps_what_was_fenced_under_both_names),
    (Mutant::VoidNoteCoversLater, journal::what_is_much_is_synced_and_older_pieces_of_it_are_void),
    (Mutant::SyncLeavesOlderPieces, journal::what_is_much_is_synced_and_older_pieces_of_it_are_void),
    (Mutant::SyncOfFirstFlush, journal::what_is_much_is_synced_and_older_pieces_of_it_are_void),
    (Mutant::EpochNotRaised, split::a_missing_foreign_or_older_half_is_refused),
    (Mutant::OlderHalfTaken, split::a_missing_foreign_or_older_half_is_refused),
    (Mutant::ForeignHalfTaken, split::a_missing_foreign_or_older_half_is_refused),
    (Mutant::DataPairWrittenFirst, split::a_start_that_is_cut_off_is_begun_again),
];

/// Hazard: an error that no test notices, or one that is planted and tried nowhere.
#[test]
fn each_planted_error_is_noticed() {
    for (mutant, run) in PLANTED {
        let planting = Planting::new(mutant);
        let in_force = planting.plant();
        let is_noticed = catch_unwind(run).is_err();
        drop(in_force);
        assert!(planting.was_reached(), "its run does not reach {mutant:?}");
        assert!(is_noticed, "{mutant:?} is not noticed");
    }
}

#[test]
fn list_and_sources_agree() {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(folder).expect("a folder of sources").map(|entry| entry.expect("an entry").path());
        let (inner, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
        folders.extend(inner);
        for file in files {
            let text = fs::read_to_string(file).expect("a source file");
            let mutants = text.split("planted(Mutant::").skip(1).filter_map(|rest| rest.split(')').next());
            found.extend(mutants.filter(|mutant| *mutant != "NAME").map(str::to_owned));
        }
    }
    found.sort_unstable();
    let mut listed = PLANTED.map(|(mutant, _)| format!("{mutant:?}"));
    listed.sort_unstable();
    assert_eq!(found, listed);
}
