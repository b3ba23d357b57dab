//! Fail stop (I11): what goes on after a failure and what does not. Tests (I1), (I5).

use crate::support::{commit, create, opened, recover, tiny};
use perdura_log::{ErrorKind, Log, LogConfig};
use perdura_pmem::trace::{Access, Site, Tap};
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

#[test]
fn a_stopped_pool_ends_what_was_reserved_and_begins_nothing() {
    let (_, log) = opened(&tiny(2, 2));
    let mut early = log.begin(1);
    let reservation = early.reserve(3).expect("room");
    let mut prepared = log.begin(2);
    prepared.prepare(b"x", b"").expect("room");
    log.fail_stop("a test");
    log.fail_stop("another");
    assert!(log.is_failed());
    let csn = early.commit(reservation, b"end");
    assert!(log.wait_durable(csn));
    let error = log.begin(1).reserve(1).expect_err("stopped");
    assert_eq!(error.kind(), ErrorKind::FailStop, "{error}");
    assert!(error.to_string().contains("since a failure: a test;"), "{error}");
    assert!(prepared.rollback().is_err());
    assert!(log.checkpoint().is_err());
    assert!(!log.wait_durable(csn + 1), "nobody will ever take that CSN");
    assert!(!log.wait_visible(csn), "nobody published it");
}

#[test]
fn a_superblock_that_cannot_be_written_stops_the_pool() {
    let sim = Arc::new(SimMedium::new());
    let medium: Arc<dyn Medium> = sim.clone();
    let config = LogConfig { generations_max: 3, ..tiny(1, 2) };
    create(&medium, &config, 1);
    let (log, _) = recover(&medium, &config).expect("it recovers");
    commit(&log, 0, b"x");
    sim.fail_syncs(true);
    assert_eq!(log.checkpoint().expect_err("not durable").kind(), ErrorKind::Medium);
    assert!(log.is_failed());
    sim.fail_syncs(false);
    assert_eq!(log.checkpoint().expect_err("never a silent retry").kind(), ErrorKind::FailStop);
    drop(log);
    let (log, _) = recover(&medium, &config).expect("the pool itself is whole");
    assert_eq!(log.last_csn(), 1);
}

/// Records nothing; a medium with a tap counts its fences as syncs.
struct Nowhere;

impl Tap for Nowhere {
    fn record(&self, _access: Access<'_>, _site: Site) {}
}

/// A log on a page medium.
fn paged() -> (Arc<SimMedium>, Log) {
    let sim = Arc::new(SimMedium::new().paged().recording(Arc::new(Nowhere)));
    let medium: Arc<dyn Medium> = sim.clone();
    create(&medium, &tiny(1, 2), 1);
    let (log, _) = recover(&medium, &tiny(1, 2)).expect("it recovers");
    (sim, log)
}

#[test]
fn a_commit_whose_fence_fails_is_never_durable_and_stops_the_pool() {
    let (sim, log) = paged();
    let before = commit(&log, 0, b"x");
    let mut txn = log.begin(0);
    let reservation = txn.reserve(3).expect("room");
    sim.fail_sync_after(0);
    let csn = txn.commit(reservation, b"end");
    assert!(!log.wait_durable(csn) && log.is_failed());
    assert_eq!((log.durable_csn(), csn), (before, before + 1), "the CSN is taken, and never durable (I5)");
    let error = log.begin(0).reserve(1).expect_err("stopped");
    assert_eq!(error.kind(), ErrorKind::FailStop, "{error}");
    assert!(error.to_string().contains("os error 5") && error.to_string().contains("restart"), "{error}");
    assert!(log.checkpoint().is_err());
}

#[test]
fn a_prepared_transaction_is_none_before_its_fence_and_stays_one_without_that_of_its_rollback() {
    let (sim, log) = paged();
    sim.fail_sync_after(0);
    let error = log.begin(0).prepare(b"x", b"").expect_err("the fence has failed");
    assert_eq!(error.kind(), ErrorKind::Medium, "{error}");
    assert!(log.is_failed());

    let (sim, log) = paged();
    let mut txn = log.begin(0);
    txn.prepare(b"x", b"").expect("room");
    sim.fail_sync_after(0);
    assert!(txn.rollback().is_err() && log.is_failed());
}

/// Hazard: words that a checkpoint says are durable were fenced in vain, in another file than the
/// superblock.
#[test]
fn a_checkpoint_asks_whether_the_words_that_it_covers_were_fenced() {
    let (sim, log) = paged();
    let csn = commit(&log, 0, b"x");
    let words = sim.create("words", 4096).expect("room");
    log.set_flush_stored(Box::new(move || words.persist(0, 8)));
    let before = sim.sync_count();
    sim.fail_sync_after(0);
    let error = log.checkpoint().expect_err("the words are not durable");
    assert!(error.to_string().contains("os error 5"), "{error}");
    assert_eq!((sim.sync_count() - before, log.checkpoint_csn()), (1, 0), "{csn} is not covered");
}

#[test]
fn a_panic_between_csn_and_record_stops_the_pool() {
    let (_, log) = opened(&tiny(1, 2));
    let mut txn = log.begin(0);
    let reservation = txn.reserve(4).expect("room");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| txn.commit(reservation, b"longer")));
    assert!(panicked.is_err());
    assert!(!log.is_failed(), "the body is checked before the CSN is taken");
    assert_eq!(log.last_csn(), 0);
}
