//! Fail stop (I11): what goes on after a failure and what does not. Tests (I5).

use crate::support::{commit, create, opened, recover, tiny};
use perdura_log::{ErrorKind, LogConfig};
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
