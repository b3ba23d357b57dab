//! The generation switch: wrap-around, growth, waiting, and the full log. Tests (I9).

use crate::support::{commit, create, found, opened, recover, settle, tiny};
use perdura_log::{ErrorKind, GenerationState, LogConfig, Recovery};
use perdura_pmem::{Medium, SimMedium};
use std::sync::{Arc, Mutex};

#[test]
fn two_generations_take_turns_for_ever() {
    let config = tiny(2, 2);
    let (medium, log) = opened(&config);
    for n in 0..2000u64 {
        commit(&log, n, &n.to_le_bytes());
    }
    let status = log.status();
    assert!(status.switches > 10, "{status}");
    assert_eq!((status.generations.len(), status.grown), (2, 0));
    let recovery = Recovery::open(medium, &config).expect("it recovers");
    assert_eq!(recovery.horizon, 2000);
    let checkpoint = recovery.superblock.checkpoint_csn;
    assert!(checkpoint > 1700, "each switch is a checkpoint: {checkpoint}");
    let expected: Vec<_> = (checkpoint + 1..=2000).map(|csn| (csn, (csn - 1).to_le_bytes().to_vec())).collect();
    assert_eq!(found(&recovery), expected);
}

/// A group that needs a whole lane gets one although others fill the new generation meanwhile.
#[test]
fn whole_lanes_are_reserved_with_the_switch() {
    let (_, log) = opened(&tiny(1, 4));
    std::thread::scope(|scope| {
        for session in 0..3u64 {
            let log = &log;
            scope.spawn(move || {
                let body = vec![session as u8; if session == 0 { 4064 } else { 10 }];
                for _ in 0..200 {
                    commit(log, session, &body);
                }
            });
        }
    });
    assert_eq!(log.visible_csn(), 600);
}

#[test]
fn unpublished_commits_make_the_log_grow() {
    let config = tiny(1, 4);
    let (medium, log) = opened(&config);
    let mut csns = Vec::new();
    // Three generations' worth of commits, none published.
    for n in 0..64 * 3 {
        let mut txn = log.begin(0);
        let reservation = txn.reserve(8).expect("the log grows");
        csns.push(txn.commit(reservation, &u64::to_le_bytes(n)));
    }
    let status = log.status();
    assert_eq!((status.generations.len(), status.grown, status.switches), (3, 1, 2), "{status}");
    let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
    assert_eq!((recovery.committed.len(), recovery.superblock.generations.len()), (192, 3));
    for csn in csns {
        settle(&log, csn);
    }
    assert_eq!(log.checkpoint().expect("written"), 192);
    let states: Vec<_> = log.status().generations.iter().map(|generation| generation.state).collect();
    assert_eq!(states, [GenerationState::Reusable, GenerationState::Reusable, GenerationState::Active]);
    commit(&log, 0, b"more");
    let status = log.status();
    assert_eq!((status.generations.len(), status.generations[0].state), (3, GenerationState::Active), "oldest first");
}

/// A slot of a transaction that never commits holds its generation while it lives.
#[test]
fn an_old_reservation_is_good_after_many_switches() {
    let config = tiny(1, 3);
    let (medium, log) = opened(&config);
    let mut old = log.begin(0);
    let reservation = old.reserve(3).expect("room");
    for n in 0..1000u64 {
        commit(&log, n, &n.to_le_bytes());
    }
    let csn = old.commit(reservation, b"old");
    assert_eq!(csn, 1001);
    let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
    assert_eq!(found(&recovery).last(), Some(&(1001, b"old".to_vec())));
    drop(old);
    assert!(log.wait_durable(csn));
    let needed = |csn_or_so: &str| {
        let status = log.status();
        let count = status.generations.iter().filter(|generation| generation.state == GenerationState::Needed).count();
        assert!(count <= 1, "{csn_or_so}: {status}");
        count
    };
    assert_eq!(needed("the commit is not published"), 1);
    settle(&log, csn);
    assert_eq!(needed("published"), 0);
}

#[test]
fn a_transaction_larger_than_all_log_space_is_refused_itself() {
    let config = tiny(2, 3);
    let (_, log) = opened(&config);
    let mut large = log.begin(0);
    let error = (0..100).find_map(|_| large.append_chunk(&[3; 2000]).err()).expect("it cannot fit");
    assert_eq!(error.kind(), ErrorKind::LogFull, "{error}");
    assert!(error.to_string().contains("3 generations of 24576 bytes"), "{error}");
    assert!(large.append_chunk(&[3; 2000]).is_err(), "and stays so");
    large.rollback().expect("nothing is written");
    commit(&log, 1, &[1; 1000]);
    assert!(!log.is_failed());
}

#[test]
fn of_two_that_hold_the_log_one_is_refused() {
    let (_, log) = opened(&tiny(1, 2));
    let mut older = log.begin(0);
    older.append_chunk(&[0; 2100]).expect("room");
    let mut younger = log.begin(0);
    younger.append_chunk(&[0; 2100]).expect("room");
    let error = younger.append_chunk(&[0; 2100]).expect_err("no room");
    assert_eq!(error.kind(), ErrorKind::LogFull, "{error}");
    drop(older);
    younger.append_chunk(&[0; 2100]).expect("room again");
}

#[test]
fn a_full_device_is_a_limit_like_any_other() {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::with_capacity(8192 + 4 * 4096 + 4096));
    let config = LogConfig { generations_max: 8, ..tiny(2, 8) };
    create(&medium, &config, 1);
    let (log, _) = recover(&medium, &config).expect("it recovers");
    let mut large = log.begin(0);
    let error = (0..100).find_map(|_| large.append_chunk(&[3; 2000]).err()).expect("it cannot fit");
    assert_eq!(error.kind(), ErrorKind::LogFull, "{error}");
    assert!(error.to_string().contains("2 generations"), "{error}");
    drop(large);
    assert_eq!(medium.list().expect("listed").len(), 5, "no half generation is left");
    for n in 0..500 {
        commit(&log, n, &[1; 100]);
    }
    let (log, _) = recover(&medium, &config).expect("it recovers");
    assert_eq!(log.last_csn(), 500);
}

/// Files of a growth that was cut off are nobody's, and in nobody's way.
#[test]
fn leftovers_of_a_growth_are_removed() {
    let config = tiny(2, 3);
    let (medium, log) = opened(&config);
    drop(log);
    medium.create("log.002.00", 64).expect("room");
    let (log, _) = recover(&medium, &config).expect("it recovers");
    assert_eq!(medium.list().expect("listed").len(), 5);
    let mut large = log.begin(0);
    assert!((0..100).any(|_| large.append_chunk(&[3; 2000]).is_err()));
    assert_eq!(log.status().generations.len(), 3);
}

#[test]
fn new_lanes_are_faulted_in_before_use() {
    let (_, log) = opened(&tiny(2, 3));
    let names = Arc::new(Mutex::new(Vec::new()));
    log.set_prefault(Box::new({
        let names = names.clone();
        move |region| names.lock().expect("unpoisoned").push(region.name().to_owned())
    }));
    assert_eq!(names.lock().expect("unpoisoned").len(), 4);
    let mut large = log.begin(0);
    assert!((0..100).any(|_| large.append_chunk(&[3; 2000]).is_err()));
    assert_eq!(names.lock().expect("unpoisoned")[4..], ["log.002.00", "log.002.01"]);
}
