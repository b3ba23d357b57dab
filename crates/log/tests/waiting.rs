//! Waiting for room in the log: a full log is an error only when nobody makes progress. In
//! simulated time. Tests (I5), (I9).

use crate::support::{commit, opened, settle, tiny};
use perdura_log::{ErrorKind, GenerationState, Log, LogTxn, Result};
use perdura_pmem::sim::Scheduler;
use perdura_pmem::sync::{Condvar, Mutex};
use std::time::Duration;

fn sleep(milliseconds: u32) {
    let (never, lock) = (Condvar::new(), Mutex::new(()));
    for _ in 0..milliseconds {
        never.wait_for(&mut lock.lock(), Duration::from_millis(1));
    }
}

/// Fills the active generation, which has one lane.
fn fill(log: &Log) {
    let is_full = || {
        let status = log.status();
        let active = status.generations.iter().find(|one| one.state == GenerationState::Active).expect("there is one");
        active.filled[0] + 64 > status.lane_bytes
    };
    while !is_full() {
        commit(log, 0, &[1; 20]);
    }
}

/// Runs `waits` in one thread while `meanwhile` runs in another.
fn beside<T: Send>(seed: u64, waits: impl FnOnce() -> T + Send, meanwhile: impl FnOnce() + Send) -> T {
    let result = Mutex::new(None);
    let waits = || *result.lock() = Some(waits());
    Scheduler::new(seed).run(vec![Box::new(waits) as Box<dyn FnOnce() + Send + '_>, Box::new(meanwhile)]);
    result.lock().take().expect("it ran")
}

fn reserve(log: &Log) -> Result<LogTxn> {
    let mut txn = log.begin(0);
    txn.reserve(20).map(|_| txn)
}

/// A commit of millions of rows takes seconds to store its words. Others that needed log space
/// meanwhile gave up after a fifth of a second.
#[test]
fn a_large_commit_costs_others_time_and_no_error() {
    for seed in 0..4 {
        let (_, log) = opened(&tiny(1, 2));
        let mut large = log.begin(0);
        let reservation = large.reserve(20).expect("room");
        let csn = large.commit(reservation, &[9; 20]);
        log.publish(csn);
        // Its pins are gone before its words are stored: its CSN keeps the generation.
        drop(large);
        fill(&log);
        commit(&log, 0, &[1; 20]);
        fill(&log);
        assert_eq!((log.visible_csn(), log.stored_csn()), (log.last_csn(), 0));
        let got = beside(
            seed,
            || reserve(&log).map(drop),
            || {
                sleep(2000);
                log.stored(csn);
            },
        );
        got.expect("there is room once it is stored");
        assert_eq!(log.stored_csn(), log.visible_csn());
    }
}

/// A transaction that holds a generation gives up early to make room for others; not while time
/// alone makes room.
#[test]
fn a_holder_waits_for_what_is_being_stored() {
    let (_, log) = opened(&tiny(1, 2));
    let csn = {
        let mut large = log.begin(0);
        let reservation = large.reserve(20).expect("room");
        large.commit(reservation, &[9; 20])
    };
    fill(&log);
    let mut holder = log.begin(0);
    holder.append_chunk(&[1; 2500]).expect("room");
    let got = beside(
        1,
        || holder.append_chunk(&[2; 2500]),
        || {
            sleep(500);
            settle(&log, csn);
        },
    );
    got.expect("there is room once it is stored");
}

/// If it is never stored, the error comes, and later there is room all the same.
#[test]
fn a_commit_that_is_never_stored_is_not_waited_for_forever() {
    let (_, log) = opened(&tiny(1, 2));
    let mut stuck = log.begin(0);
    let reservation = stuck.reserve(20).expect("room");
    let csn = stuck.commit(reservation, &[9; 20]);
    fill(&log);
    commit(&log, 0, &[1; 20]);
    fill(&log);
    let error = beside(1, || reserve(&log).map(drop), || sleep(6000)).expect_err("nobody stores it");
    assert_eq!(error.kind(), ErrorKind::LogFull, "{error}");
    drop(stuck);
    settle(&log, csn);
    commit(&log, 0, b"again");
}

/// Transactions that end one after the other are progress, even if none of them alone makes room.
#[test]
fn whoever_ends_renews_the_patience() {
    let (_, log) = opened(&tiny(1, 2));
    let mut holders: Vec<LogTxn> = (0..4).map(|_| reserve(&log).expect("room")).collect();
    fill(&log);
    commit(&log, 0, &[1; 20]);
    fill(&log);
    let got = beside(
        1,
        || reserve(&log).map(drop),
        || {
            for holder in holders.drain(..) {
                sleep(150);
                drop(holder);
            }
        },
    );
    got.expect("600 rounds, none of them in vain");
    let held = reserve(&log).expect("room");
    fill(&log);
    let held_too = reserve(&log).expect("room");
    fill(&log);
    let error = beside(1, || reserve(&log).map(drop), || sleep(1000)).expect_err("nobody ends");
    assert_eq!(error.kind(), ErrorKind::LogFull, "{error}");
    drop((held, held_too));
}
