//! A prepared transaction that has ended must not come back to life when the record of its end is
//! recycled, and one that has not ended must not die when its generation is. Tests (I9).

use crate::support;

use crate::support::{commit, found, opened, recover, redo, settle, tiny};
use perdura_log::{ErrorKind, GenerationState, Log, Recovery};
use perdura_pmem::Medium;
use std::sync::{Arc, Mutex};

fn xids(medium: &Arc<dyn Medium>) -> Vec<Vec<u8>> {
    let recovery = Recovery::open(medium.clone(), &tiny(1, 2)).expect("it recovers");
    recovery.prepared.into_iter().map(|prepared| prepared.xid).collect()
}

fn churn(log: &Log, commits: u64) {
    for n in 0..commits {
        commit(log, n, &[7; 20]);
    }
}

/// Two-phase commits at every alignment to the generation's end, each looked for after each step.
#[test]
fn endings_are_recycled_with_their_prepare() {
    for padding in 0..70 {
        let (medium, log) = opened(&tiny(1, 2));
        churn(&log, padding);
        for n in 0..40u64 {
            let mut txn = log.begin(n);
            txn.prepare(&n.to_le_bytes(), b"redo").expect("room");
            if n % 3 == 0 {
                assert_eq!(xids(&medium), [n.to_le_bytes()]);
            }
            if n % 2 == 0 {
                let csn = txn.commit_prepared();
                settle(&log, csn);
            } else {
                txn.rollback().expect("written");
            }
            if n % 3 != 2 {
                assert!(xids(&medium).is_empty(), "padding {padding}, transaction {n}");
            }
        }
    }
}

/// With only two generations a transaction stays prepared over many switches: it is copied forward
/// at each other one.
#[test]
fn a_prepared_transaction_is_copied_forward_for_as_long_as_it_takes() {
    let config = tiny(2, 2);
    let (medium, log) = opened(&config);
    let mut txn = log.begin(0);
    txn.append_chunk(b"chunk ").expect("room");
    txn.append_chunk(&[b'x'; 600]).expect("room");
    txn.prepare(b"name", b" rest").expect("room");
    let expected = [b"chunk ".as_slice(), &[b'x'; 600], b" rest"].concat();
    for round in 0..40 {
        churn(&log, 50);
        let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
        assert_eq!(recovery.prepared.len(), 1, "round {round}");
        assert_eq!(recovery.prepared[0].xid, b"name");
        assert_eq!(redo(&recovery, &recovery.prepared[0].bodies), expected);
    }
    assert!(log.status().switches > 10);
    let csn = txn.commit_prepared();
    let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
    assert_eq!(found(&recovery).last(), Some(&(csn, expected)));
    assert!(recovery.prepared.is_empty());
    settle(&log, csn);
    drop(txn);
    for _ in 0..10 {
        churn(&log, 30);
        assert!(xids(&medium).is_empty(), "an older copy must not outlive the commit record");
    }
}

/// A copied transaction ends in a later generation than the one with its first PREPARE record.
/// While that is held the later one must not be recycled, though nothing else keeps it.
#[test]
fn an_ending_outlives_all_copies_of_its_prepare() {
    for commits in [true, false] {
        let (medium, log) = opened(&tiny(1, 3));
        let mut copied = log.begin(0);
        copied.prepare(b"copied", &[1; 100]).expect("room");
        let holders = Arc::new(Mutex::new(Vec::new()));
        let hold = || {
            let mut holder = log.begin(0);
            holder.append_chunk(b"hold").expect("room");
            holders.lock().expect("unpoisoned").push(holder);
        };
        let activation = || log.status().generations.iter().map(|one| one.activation).max().expect("some");
        let fill = || {
            let before = activation();
            while activation() == before {
                churn(&log, 1);
            }
        };
        hold();
        fill();
        hold();
        fill();
        // All generations are held, so the prepared transaction was copied into the third, where it
        // ends.
        if commits {
            settle(&log, copied.commit_prepared());
            drop(copied);
        } else {
            copied.rollback().expect("written");
        }
        let second = holders.lock().expect("unpoisoned").remove(1);
        second.rollback().expect("nothing is written");
        // The second generation is free.
        fill();
        // The third is not while the first is held.
        let before = activation();
        let full = (0..100).find_map(|_| log.begin(0).reserve(20).err()).expect("no generation is free");
        assert_eq!(full.kind(), ErrorKind::LogFull, "{full}");
        assert_eq!(activation(), before);
        holders.lock().expect("unpoisoned").pop().expect("the first").rollback().expect("nothing is written");
        fill();
        for _ in 0..300 {
            assert!(xids(&medium).is_empty());
            churn(&log, 1);
        }
        assert!(log.status().generations.iter().all(|one| one.state != GenerationState::Needed));
    }
}

/// Prepared transactions that fill more than one generation are recovered, again and again.
#[test]
fn recovery_copies_more_than_a_generation() {
    let config = tiny(1, 6);
    let (medium, log) = opened(&config);
    let mut all = Vec::new();
    for n in 0..3u8 {
        let mut txn = log.begin(0);
        for chunk in 0..3 {
            txn.append_chunk(&[n * 10 + chunk; 1300]).expect("room");
        }
        txn.prepare(&[n], &[n; 50]).expect("room");
        all.push(txn);
    }
    drop(all);
    drop(log);
    for round in 0..4 {
        let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
        assert_eq!(recovery.prepared.len(), 3);
        for (n, prepared) in (0u8..).zip(&recovery.prepared) {
            let expected: Vec<u8> = (0..3).flat_map(|chunk| [n * 10 + chunk; 1300]).chain([n; 50]).collect();
            assert_eq!((&prepared.xid[..], redo(&recovery, &prepared.bodies)), (&[n][..], expected), "round {round}");
        }
        let (log, prepared) = recovery.finish(&mut || round).expect("finished");
        churn(&log, 100);
        drop(prepared);
    }
    let files = medium.list().expect("listed").len();
    assert!(files <= 1 + 8, "restarts do not add generations for ever: {files} files");
    let (log, prepared) = recover(&medium, &config).expect("it recovers");
    for mut one in prepared {
        settle(&log, one.log.commit_prepared());
    }
    churn(&log, 200);
    assert!(xids(&medium).is_empty());
}

/// A commit record above the horizon does not end its transaction.
#[test]
fn a_prepared_commit_behind_a_gap_is_prepared_still() {
    let config = tiny(1, 2);
    let (medium, log) = opened(&config);
    let mut txn = log.begin(0);
    txn.prepare(b"x", b"redo").expect("room");
    let mut other = log.begin(0);
    let reservation = other.reserve(1).expect("room");
    let lost = other.commit(reservation, b"1");
    txn.commit_prepared();
    // The first commit's record is damaged; the second one's lag proves that it was durable once.
    let at = (0..64)
        .map(|granule| granule * 64)
        .find(|at| {
            let region = medium.open("log.000.00").expect("it exists");
            region.load(at + 8) == lost && region.load(*at) >> 32 == 33
        })
        .expect("the record");
    support::damage(&medium, "log.000.00", at, |bytes| bytes[0] ^= 1);
    let error = Recovery::open(medium.clone(), &config).err().expect("the loss is noticed");
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    let recovery = Recovery::open_accepting_loss(medium.clone(), &config).expect("accepted");
    assert_eq!((recovery.horizon, recovery.prepared.len()), (0, 1));
    let (log, mut prepared) = recovery.finish(&mut || 3).expect("finished");
    assert_eq!(prepared[0].log.commit_prepared(), 1, "the CSN is given again: its first record is void");
    assert!(log.wait_durable(1));
    let recovery = Recovery::open(medium, &config).expect("it recovers");
    assert_eq!(found(&recovery), [(1, b"redo".to_vec())]);
}

/// A copy that found no room for all of a transaction left what it had reserved unused, with each
/// attempt.
#[test]
fn a_copy_that_does_not_fit_takes_no_room() {
    let config = tiny(1, 2);
    let (medium, log) = opened(&config);
    let mut prepared = log.begin(0);
    prepared.append_chunk(&[1; 1300]).expect("room");
    prepared.prepare(b"p", &[2; 1300]).expect("room");
    // Fits the next generation only, and leaves room there for the transaction's first record, not
    // for both.
    commit(&log, 1, &[3; 2000]);
    assert_eq!(log.status().switches, 1);
    for n in 0..15 {
        commit(&log, n, &[4; 60]);
    }
    assert_eq!(log.status().switches, 1);
    assert_eq!(xids(&medium), [b"p"]);
    let csn = prepared.commit_prepared();
    settle(&log, csn);
    drop(prepared);
    churn(&log, 200);
    assert!(xids(&medium).is_empty());
}
