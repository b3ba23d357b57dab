//! A pool's ordinary life: commits, chunks, two-phase commit, checkpoints and restarts. Tests (I7).

use crate::support::{commit, create, found, opened, pool, recover, redo, settle, tiny};
use perdura_log::{ErrorKind, LogConfig, Recovery};
use perdura_pmem::Medium;
use std::collections::BTreeSet;
use std::sync::Arc;

#[test]
fn a_new_pool_is_empty_and_keeps_what_it_was_created_with() {
    let config = tiny(3, 4);
    let medium = pool(&config);
    let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
    assert_eq!((recovery.horizon, recovery.groups), (0, 0));
    assert!(recovery.committed.is_empty() && recovery.prepared.is_empty());
    let superblock = &recovery.superblock;
    assert_eq!((superblock.lanes, superblock.lane_bytes, superblock.geometry), (3, 4096, [7; 8]));
    let names: Vec<String> = medium.list().expect("listed").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 7);
    assert_eq!((names[0].as_str(), names[6].as_str()), ("log.000.00", "super"));
}

#[test]
fn commits_come_back_in_order_with_their_redo() {
    let config = tiny(2, 4);
    let (medium, log) = opened(&config);
    let bodies: Vec<Vec<u8>> = (0..30u8).map(|n| vec![n; usize::from(n) * 13]).collect();
    for (n, body) in bodies.iter().enumerate() {
        let mut txn = log.begin(n as u64);
        let reservation = txn.reserve(body.len()).expect("room");
        let csn = txn.commit(reservation, body);
        assert_eq!(csn, n as u64 + 1);
        assert!(log.wait_durable(csn));
    }
    assert_eq!((log.last_csn(), log.durable_csn(), log.visible_csn()), (30, 30, 0));
    let recovery = Recovery::open(medium, &config).expect("it recovers");
    let expected: Vec<_> = (1..).zip(bodies).collect();
    assert_eq!(found(&recovery), expected);
    assert_eq!(recovery.horizon, 30);
}

#[test]
fn a_checkpoint_shortens_the_redo_and_recovery_voids_it() {
    let config = tiny(2, 4);
    let (medium, log) = opened(&config);
    for n in 0..10 {
        commit(&log, n, &n.to_le_bytes());
    }
    assert_eq!(log.visible_csn(), 10);
    assert_eq!(log.checkpoint().expect("written"), 10);
    let sequence = || Recovery::open(medium.clone(), &config).expect("it recovers").superblock.sequence;
    let before = sequence();
    assert_eq!(log.checkpoint().expect("nothing to write"), 10);
    assert_eq!(sequence(), before, "an unchanged checkpoint is not written");
    commit(&log, 3, b"later");
    let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
    assert_eq!(found(&recovery), [(11, b"later".to_vec())]);
    let (log, _) = recovery.finish(&mut || 5).expect("finished");
    assert_eq!((log.last_csn(), log.visible_csn(), log.checkpoint_csn()), (11, 11, 11));
    let again = Recovery::open(medium, &config).expect("it recovers");
    assert_eq!((again.horizon, again.committed.len(), again.superblock.epoch), (11, 0, 2));
}

/// A commit that snapshots see may have words that are not in place yet: redo must still find its
/// record.
#[test]
fn a_checkpoint_goes_by_what_is_stored() {
    let config = tiny(2, 4);
    let (medium, log) = opened(&config);
    let csns = (0..3u8).map(|n| {
        let mut txn = log.begin(n.into());
        let reservation = txn.reserve(1).expect("room");
        txn.commit(reservation, &[n])
    });
    let csns: Vec<_> = csns.collect();
    csns.iter().for_each(|csn| log.publish(*csn));
    assert_eq!((log.visible_csn(), log.stored_csn()), (3, 0));
    assert_eq!(log.checkpoint().expect("nothing to write"), 0);
    log.stored(csns[2]);
    log.stored(csns[0]);
    assert_eq!((log.stored_csn(), log.checkpoint().expect("written")), (1, 1), "in order");
    let recovery = Recovery::open(medium, &config).expect("it recovers");
    assert_eq!(found(&recovery), [(2, vec![1]), (3, vec![2])]);
    drop(recovery);
    log.stored(csns[1]);
    assert_eq!(log.checkpoint().expect("written"), 3);
    let status = log.status();
    assert_eq!((status.visible_csn, status.stored_csn, status.checkpoint_csn), (3, 3, 3));
    assert!(status.to_string().contains("visible 3, stored 3, checkpoint 3"), "{status}");
}

#[test]
fn large_transactions_stream_chunks_through_all_lanes() {
    let config = tiny(4, 8);
    let (medium, log) = opened(&config);
    let mut txn = log.begin(1);
    let mut expected = Vec::new();
    for n in 0..40u32 {
        let body = vec![n as u8; 900 + n as usize];
        txn.append_chunk(&body).expect("room");
        expected.extend(body);
    }
    let reservation = txn.reserve(4).expect("room");
    let csn = txn.commit(reservation, b"last");
    expected.extend(b"last");
    // A loser's chunks do not count.
    let mut loser = log.begin(2);
    loser.append_chunk(b"never").expect("room");
    loser.rollback().expect("nothing can fail");
    let recovery = Recovery::open(medium, &config).expect("it recovers");
    assert_eq!(found(&recovery), [(csn, expected)]);
    assert_eq!(recovery.committed[0].bodies.len(), 41);
    let mut bytes = 0;
    let counted = recovery.for_each_body(&recovery.committed[0].bodies, &mut |body| {
        bytes += body.len();
        if bytes > 20_000 { Err(bytes) } else { Ok(()) }
    });
    assert!(counted.is_err_and(|bytes| bytes > 20_000), "the callback's error ends the walk");
}

#[test]
fn prepared_transactions_survive_restarts_until_they_end() {
    let config = tiny(2, 4);
    let (medium, log) = opened(&config);
    for name in ["commits", "rolls back", "waits"] {
        let mut txn = log.begin(9);
        txn.append_chunk(format!("chunk of {name}, ").as_bytes()).expect("room");
        txn.prepare(name.as_bytes(), format!("rest of {name}").as_bytes()).expect("room");
    }
    drop(log);
    for restart in 0..5 {
        let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
        let left = if restart < 3 { 3 } else { 1 };
        assert_eq!(recovery.prepared.len(), left, "restart {restart}");
        for prepared in &recovery.prepared {
            let name = String::from_utf8(prepared.xid.clone()).expect("a name");
            let expected = format!("chunk of {name}, rest of {name}");
            assert_eq!(redo(&recovery, &prepared.bodies), expected.as_bytes());
        }
        let (log, prepared) = recovery.finish(&mut || restart).expect("finished");
        assert_eq!(log.status().prepared, left);
        for mut one in prepared {
            match (restart, one.xid.as_slice()) {
                (2, b"commits") => {
                    let csn = one.log.commit_prepared();
                    assert!(log.wait_durable(csn));
                    let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
                    assert_eq!(found(&recovery), [(csn, b"chunk of commits, rest of commits".to_vec())]);
                    settle(&log, csn);
                }
                (2, b"rolls back") => one.log.rollback().expect("written"),
                _ => {}
            }
        }
    }
}

#[test]
fn transaction_ids_never_repeat() {
    let config = tiny(1, 2);
    let medium = pool(&config);
    let mut ids = BTreeSet::new();
    for _ in 0..4 {
        let (log, _) = recover(&medium, &config).expect("it recovers");
        for _ in 0..100 {
            assert!(ids.insert(log.begin(0).id()));
        }
    }
    // More than one block of ids in one run.
    let (log, _) = recover(&medium, &config).expect("it recovers");
    let first = log.begin(0).id();
    let last = (0..2 << 20).fold(0, |_, _| log.begin(0).id());
    assert_eq!(last, first + (2 << 20));
    drop(log);
    let (log, _) = recover(&medium, &config).expect("it recovers");
    assert!(log.begin(0).id() > last);
}

#[test]
fn limits_of_a_group_are_told() {
    let config = tiny(1, 2);
    let (_, log) = opened(&config);
    let most = log.body_bytes_max() as usize;
    assert_eq!(most, 4096 - 32);
    let mut txn = log.begin(0);
    assert!(txn.reserve(most + 1).is_err_and(|error| error.kind() == ErrorKind::TooLarge));
    assert!(txn.append_chunk(&vec![0; most + 1]).is_err_and(|error| error.kind() == ErrorKind::TooLarge));
    assert!(txn.prepare(&[0; 2000], b"").is_err_and(|error| error.kind() == ErrorKind::TooLarge));
    assert!(txn.prepare(b"x", &vec![0; most - 16]).is_err_and(|error| error.kind() == ErrorKind::TooLarge));
    let reservation = txn.reserve(most).expect("a whole lane");
    assert_eq!(txn.commit(reservation, &vec![1; most]), 1);
}

#[test]
fn a_pool_that_exists_ignores_creation_settings() {
    let medium: Arc<dyn Medium> = Arc::new(perdura_pmem::SimMedium::new());
    create(&medium, &tiny(2, 2), 3);
    let other = LogConfig { lanes: 9, lane_bytes: 1 << 20, generations: 5, generations_max: 5, ..LogConfig::default() };
    let (log, _) = recover(&medium, &other).expect("it recovers");
    let status = log.status();
    assert_eq!((status.lanes, status.lane_bytes, status.generations.len()), (2, 4096, 2));
    assert_eq!(status.generations_max, 5, "the limit is of the run");
    assert!(status.to_string().contains("active"), "{status}");
}
