//! The log gives back what it no longer needs: when, and what must survive it. Crash points are in
//! `crash.rs`. Tests (I9).

use crate::support::{commit, create, found, opened, recover, redo, settle, tiny};
use perdura_log::{Csn, ErrorKind, Log, LogConfig, Recovery};
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

/// Tiny pools that shrink after three checkpoints.
fn shrinking(lanes: u32, generations_max: u32) -> LogConfig {
    LogConfig { shrink_after: 3, ..tiny(lanes, generations_max) }
}

fn generations(log: &Log) -> usize {
    log.status().generations.len()
}

/// Commits without storing anything until the log has `count` generations.
fn grow(log: &Log, count: usize) -> Vec<Csn> {
    let mut csns = Vec::new();
    while generations(log) < count {
        csns.push(unstored(log));
    }
    csns
}

fn unstored(log: &Log) -> Csn {
    let mut txn = log.begin(0);
    let reservation = txn.reserve(8).expect("the log grows");
    txn.commit(reservation, &[1; 8])
}

fn checkpoints(log: &Log, count: u32) {
    for _ in 0..count {
        log.checkpoint().expect("written");
    }
}

fn files(medium: &Arc<dyn Medium>) -> Vec<String> {
    medium.list().expect("listed").into_iter().map(|(name, _)| name).filter(|name| name != "super").collect()
}

#[test]
fn what_a_load_has_added_goes_after_it() {
    let config = shrinking(2, 8);
    let (medium, log) = opened(&config);
    for csn in grow(&log, 5) {
        settle(&log, csn);
    }
    checkpoints(&log, 2);
    assert_eq!(generations(&log), 5, "not at once");
    // The last one is active: the log moves down first. Then one goes at each checkpoint.
    for left in [5, 4, 3, 2, 2] {
        checkpoints(&log, 1);
        assert_eq!(generations(&log), left);
    }
    let status = log.status();
    assert_eq!((status.grown, status.shrunk), (3, 3), "{status}");
    assert_eq!(files(&medium), ["log.000.00", "log.000.01", "log.001.00", "log.001.01"]);
    let last = commit(&log, 1, b"after");
    let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
    assert_eq!((recovery.superblock.generations.len(), recovery.horizon), (2, last));
    assert_eq!(found(&recovery).last(), Some(&(last, b"after".to_vec())));
    drop(recovery);
    // And it grows again, in the same process and in the next one.
    for csn in grow(&log, 4) {
        settle(&log, csn);
    }
    drop(log);
    let (log, _) = recover(&medium, &config).expect("it recovers");
    assert_eq!(generations(&log), 4, "a restart alone removes nothing");
    checkpoints(&log, 10);
    assert_eq!((generations(&log), files(&medium).len()), (2, 4));
}

/// A generation that holds commits which are not stored, or a transaction that has not ended, stays
/// for as long as it takes.
#[test]
fn what_is_needed_stays() {
    let config = shrinking(1, 8);
    let (medium, log) = opened(&config);
    let csns = grow(&log, 4);
    checkpoints(&log, 30);
    assert_eq!(generations(&log), 4, "nothing is stored");
    let mut holder = log.begin(0);
    holder.append_chunk(b"chunk").expect("room");
    for csn in &csns {
        settle(&log, *csn);
    }
    checkpoints(&log, 30);
    assert_eq!(generations(&log), 4, "the last one is held");
    let reservation = holder.reserve(4).expect("room");
    let csn = holder.commit(reservation, b"last");
    let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
    assert_eq!(found(&recovery), [(csn, b"chunklast".to_vec())]);
    drop((holder, recovery));
    checkpoints(&log, 30);
    assert_eq!(generations(&log), 4, "its pins are gone, but it is not stored");
    settle(&log, csn);
    checkpoints(&log, 30);
    assert_eq!(generations(&log), 2);
}

/// A transaction that stays prepared for days must not keep the log large: it is copied out of the
/// last generation.
#[test]
fn prepared_transactions_move_down() {
    let config = shrinking(2, 8);
    let (medium, log) = opened(&config);
    let csns = grow(&log, 5);
    let mut waits = log.begin(0);
    waits.append_chunk(&[7; 500]).expect("room");
    waits.prepare(b"waits", b" rest").expect("room");
    let mut undone = log.begin(1);
    undone.prepare(b"undone", b"never").expect("room");
    for csn in csns {
        settle(&log, csn);
    }
    let expected = [&[7; 500][..], b" rest"].concat();
    for round in 0..12 {
        checkpoints(&log, 1);
        let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
        let xids: Vec<_> = recovery.prepared.iter().map(|prepared| prepared.xid.clone()).collect();
        assert_eq!(xids, [b"waits".to_vec(), b"undone".to_vec()], "round {round}");
        assert_eq!(redo(&recovery, &recovery.prepared[0].bodies), expected);
    }
    assert_eq!(generations(&log), 2);
    undone.rollback().expect("written");
    let csn = waits.commit_prepared();
    let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
    assert!(recovery.prepared.is_empty());
    assert_eq!(found(&recovery).last(), Some(&(csn, expected)));
    settle(&log, csn);
    drop((waits, recovery));
    for _ in 0..300 {
        commit(&log, 0, &[1; 50]);
        assert!(Recovery::open(medium.clone(), &config).expect("it recovers").prepared.is_empty());
    }
}

/// The ending of a transaction may lie in the last generation, and its PREPARE record in one that
/// nothing else needs. Without the ending the transaction would be prepared again.
#[test]
fn an_ending_goes_after_all_copies_of_its_prepare() {
    let config = shrinking(1, 3);
    let (medium, log) = opened(&config);
    let xids = || Recovery::open(medium.clone(), &config).expect("it recovers").prepared.len();
    let mut copied = log.begin(0);
    copied.prepare(b"copied", &[1; 100]).expect("room");
    let mut early = grow(&log, 3);
    // No generation is free and none can be added, so the transaction was copied into the third.
    assert_eq!(xids(), 1);
    copied.rollback().expect("written");
    early.drain(..).for_each(|csn| settle(&log, csn));
    assert_eq!(xids(), 0);
    for _ in 0..20 {
        checkpoints(&log, 1);
        assert_eq!(xids(), 0);
    }
    assert_eq!(generations(&log), 2);
}

/// A load that keeps needing a third generation gets it once, or a few times, and not each time
/// anew.
#[test]
fn a_steady_load_does_not_make_the_log_swing() {
    for period in [2, 7, 20, 90] {
        let config = shrinking(1, 8);
        let (_, log) = opened(&config);
        for round in 0..2000 {
            if round % period == 0 {
                let csns: Vec<Csn> = (0..150).map(|_| unstored(&log)).collect();
                csns.into_iter().for_each(|csn| settle(&log, csn));
            }
            checkpoints(&log, 1);
        }
        let status = log.status();
        assert!((1..=12).contains(&status.grown), "period {period}: {status}");
    }
}

/// Files that could not be removed must not keep the log from growing, nor may those of a removal
/// that was cut off.
#[test]
fn leftovers_of_a_removal_are_in_nobodys_way() {
    let config = shrinking(2, 4);
    let (medium, log) = opened(&config);
    grow(&log, 3).into_iter().for_each(|csn| settle(&log, csn));
    checkpoints(&log, 6);
    assert_eq!((generations(&log), files(&medium).len()), (2, 4));
    medium.create("log.002.01", 4096).expect("room");
    grow(&log, 3).into_iter().for_each(|csn| settle(&log, csn));
    checkpoints(&log, 12);
    assert_eq!((generations(&log), files(&medium).len()), (2, 4));
    for name in ["log.002.00", "log.002.01"] {
        medium.create(name, 4096).expect("room");
    }
    drop(log);
    let (log, _) = recover(&medium, &config).expect("it recovers");
    assert_eq!((generations(&log), files(&medium).len()), (2, 4));
}

/// A pool that was made with more generations than are configured now, or with more than its limit.
#[test]
fn a_smaller_configuration_takes_effect() {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    create(&medium, &LogConfig { generations: 6, ..tiny(1, 8) }, 3);
    let larger = LogConfig { generations: 7, ..shrinking(1, 8) };
    let (log, _) = recover(&medium, &larger).expect("it recovers");
    checkpoints(&log, 30);
    assert_eq!(generations(&log), 6, "it grows by need, not by configuration");
    drop(log);
    let smaller = shrinking(1, 3);
    let (log, _) = recover(&medium, &smaller).expect("it recovers");
    let csns = grow(&log, 6);
    checkpoints(&log, 30);
    csns.into_iter().for_each(|csn| settle(&log, csn));
    checkpoints(&log, 30);
    assert_eq!((generations(&log), files(&medium).len()), (2, 2));
    let mut large = log.begin(0);
    let error = (0..100).find_map(|_| large.append_chunk(&[3; 2000]).err()).expect("it cannot fit");
    assert_eq!(error.kind(), ErrorKind::LogFull, "{error}");
    assert_eq!(generations(&log), 3, "the limit counts again");
}
