//! The ways of records to the medium, on real threads and real files: each keeps what was
//! acknowledged, and each recovers what another has left. Tests (I1), (I9) and (I11) of them.

use crate::on_disk::{body, crashed, directory, on_disk, watch};
use crate::stress::{compare, run_threads};
use crate::support::{commit, create, found, recover, settle, tiny};
use perdura_log::{Csn, ErrorKind, LogConfig, LogPath, PathConfig, Recovery, Turns};
use perdura_pmem::{FileMedium, Medium, Options, SimMedium};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

const STAGED: [LogPath; 5] = [LogPath::Classic, LogPath::Persist, LogPath::WriteAhead, LogPath::Local, LogPath::Nf];

/// A small log with a log buffer that is full at times.
fn staged(path: LogPath, turns: Turns, lane_bytes: u64) -> LogConfig {
    let path = PathConfig { path, buffer_bytes: 16 << 10, write_ahead_bytes: 0, turns };
    LogConfig { lane_bytes, shrink_after: 2, path, ..tiny(2, 8) }
}

fn emulated(directory: &Path) -> Arc<dyn Medium> {
    let options = Options { emulate: true, ..Options::default() };
    Arc::new(FileMedium::open(directory, options).expect("it opens"))
}

#[test]
fn threads_on_tiny_lanes_by_each_path() {
    for (seed, path) in (1..).zip(STAGED) {
        for turns in [Turns::Own, Turns::Waiters] {
            let config = staged(path, turns, 16 << 10);
            let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
            create(&medium, &config, seed);
            let ledger = run_threads(&medium, &config, 400, seed);
            compare(&medium, &config, &ledger);
        }
    }
}

#[test]
fn threads_on_real_files_by_each_path() {
    for (seed, path) in (1..).zip(STAGED) {
        let directory = tempfile::tempdir().expect("a directory");
        let config = staged(path, Turns::Own, 16 << 10);
        let medium = emulated(directory.path());
        create(&medium, &config, 5);
        let ledger = run_threads(&medium, &config, 400, seed);
        drop(medium);
        compare(&emulated(directory.path()), &config, &ledger);
    }
}

/// The pool is copied while it runs, as a killed process leaves it, and opened by another path;
/// then by the next. Prepared transactions are copied forward each time.
#[test]
fn a_pool_recovers_by_any_path_what_another_has_left() {
    for (number, first) in LogPath::ALL.into_iter().enumerate() {
        let mut pool = tempfile::tempdir().expect("a directory");
        let of = |path| staged(path, Turns::Own, 16 << 10);
        create(&emulated(pool.path()), &of(first), 3);
        let (mut expected, mut known) = (Vec::<(Csn, Vec<u8>)>::new(), 0);
        for (round, path) in LogPath::ALL.into_iter().cycle().skip(number).take(4).enumerate() {
            let medium = emulated(pool.path());
            let recovery = Recovery::open(medium.clone(), &of(path)).expect("it recovers");
            assert_eq!(found(&recovery), expected, "{path} after another, round {round}");
            assert_eq!(recovery.prepared.len(), round.min(1), "{path}, round {round}");
            // Far apart, so that no activation has the salt of another.
            known += 1 << 32;
            let (log, prepared) = recovery.finish(&mut || known).expect("finished");
            expected.clear();
            for mut one in prepared {
                assert_eq!(one.bodies.concat(), b"chunklast");
                expected.push((one.log.commit_prepared(), b"chunklast".to_vec()));
            }
            for session in 0..5 {
                let body = body(7, session, round as u64);
                let mut txn = log.begin(session);
                let reservation = txn.reserve(body.len()).expect("room");
                let csn = txn.commit(reservation, &body);
                assert!(log.wait_durable(csn));
                expected.push((csn, body));
            }
            let mut kept = log.begin(9);
            kept.append_chunk(b"chunk").expect("room");
            kept.prepare(b"x", b"last").expect("room");
            let next = tempfile::tempdir().expect("a directory");
            for entry in std::fs::read_dir(pool.path()).expect("it lists") {
                let entry = entry.expect("it lists");
                std::fs::copy(entry.path(), next.path().join(entry.file_name())).expect("it is copied");
            }
            drop((log, kept));
            pool = next;
        }
    }
}

/// A copy has what was acknowledged before it was made, on a disk.
#[test]
fn a_copy_of_a_disk_has_every_acknowledged_commit() {
    for (seed, path) in [(1, LogPath::Classic), (2, LogPath::Nf)] {
        let mut config = staged(path, Turns::Own, 8 << 20);
        config.path.buffer_bytes = 64 << 10;
        let pool = directory();
        let file_medium = on_disk(pool.path());
        let written = watch(&file_medium);
        let medium: Arc<dyn Medium> = Arc::new(file_medium);
        create(&medium, &config, seed);
        let (log, _) = recover(&medium, &config).expect("it recovers");
        let acknowledged = Mutex::new(BTreeMap::<Csn, Vec<u8>>::new());
        let mut copies = Vec::new();
        std::thread::scope(|scope| {
            for session in 0..6 {
                let (log, acknowledged) = (&log, &acknowledged);
                scope.spawn(move || {
                    for number in 0..40 {
                        let body = body(seed, session, number);
                        let csn = commit(log, session, &body);
                        acknowledged.lock().expect("unpoisoned").insert(csn, body);
                    }
                });
            }
            for _ in 0..5 {
                let _none_begins = written.lock().expect("unpoisoned");
                let told = acknowledged.lock().expect("unpoisoned").clone();
                copies.push((told, crashed(pool.path())));
            }
        });
        let told = acknowledged.into_inner().expect("unpoisoned");
        copies.push((told, crashed(pool.path())));
        for (told, copy) in copies {
            let medium: Arc<dyn Medium> = Arc::new(on_disk(copy.path()));
            let recovery = Recovery::open(medium, &config).expect("it recovers");
            let found: BTreeMap<Csn, Vec<u8>> = found(&recovery).into_iter().collect();
            assert!(told.iter().all(|(csn, body)| found.get(csn) == Some(body)), "{path}: {} told", told.len());
        }
        assert!(!written.lock().expect("unpoisoned").is_empty(), "its writes are watched");
        let status = log.status();
        let path = status.path.clone().expect("a staged path");
        assert!(
            path.written_bytes > 0 && path.padding_bytes > 0 && status.padding_bytes == path.padding_bytes,
            "{path}"
        );
    }
}

/// A sync that fails ends the log: its commit is never called durable, nor is any later one.
#[test]
fn a_failed_write_or_sync_stops_the_log() {
    for path in [LogPath::Classic, LogPath::Nf] {
        for fails in 0..4 {
            let mut config = staged(path, Turns::Own, 64 << 10);
            config.path.buffer_bytes = 64 << 10;
            let pool = directory();
            let file_medium = Arc::new(on_disk(pool.path()));
            let medium: Arc<dyn Medium> = file_medium.clone();
            create(&medium, &config, 1);
            let (log, _) = recover(&medium, &config).expect("it recovers");
            commit(&log, 1, b"before");
            file_medium.fail_sync_after(fails);
            let mut refused = 0;
            for number in 0..8 {
                let mut txn = log.begin(number);
                let Ok(reservation) = txn.reserve(100) else { continue };
                let csn = txn.commit(reservation, &[number as u8; 100]);
                match log.wait_durable(csn) {
                    true => settle(&log, csn),
                    false => refused += 1,
                }
            }
            assert_eq!(refused, 1, "{path}, {fails}: the first tells, and then nothing is begun");
            let error = log.begin(1).reserve(1).expect_err("stopped");
            assert_eq!(error.kind(), ErrorKind::FailStop);
            assert!(error.to_string().contains("os error 5"), "{error}");
            assert!(log.begin(1).append_chunk(b"later").is_err());
        }
    }
}

/// Bad settings, and a group for which the log buffer has no room.
#[test]
fn what_does_not_fit_is_refused_with_the_remedy() {
    let config = staged(LogPath::Nf, Turns::Own, 64 << 10);
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    create(&medium, &config, 1);
    let (log, _) = recover(&medium, &config).expect("it recovers");
    assert_eq!(log.body_bytes_max(), (16 << 10) - 32);
    let mut txn = log.begin(1);
    let error = txn.reserve(16 << 10).expect_err("longer than the log buffer");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("enlarge the log buffer"), "{error}");
    assert!(txn.append_chunk(&[0; 16 << 10]).is_err());
    let longest = vec![3; log.body_bytes_max() as usize];
    let csn = commit(&log, 1, &longest);
    assert_eq!(log.durable_csn(), csn);
    drop(log);
    let bad = LogConfig { path: PathConfig { buffer_bytes: 1000, ..config.path.clone() }, ..config.clone() };
    let error = Recovery::open(medium.clone(), &bad).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Configuration);
    let bad = LogConfig { path: PathConfig { write_ahead_bytes: 300, ..config.path.clone() }, ..config };
    let error = Recovery::open(medium, &bad).err().expect("refused");
    assert!(error.to_string().contains("power of two from 256 to 8192"), "{error}");
}

/// Chunks of transactions that are abandoned are written before their lane is used again, and not
/// after.
#[test]
fn abandoned_chunks_do_not_come_back_in_a_lane_that_is_used_again() {
    for path in [LogPath::Classic, LogPath::Nf] {
        let config = staged(path, Turns::Own, 16 << 10);
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        create(&medium, &config, 1);
        let (log, _) = recover(&medium, &config).expect("it recovers");
        let mut last = (0, Vec::new());
        for number in 0..400u64 {
            let mut lost = log.begin(number);
            lost.append_chunk(&[5; 700]).expect("room");
            drop(lost);
            let body = vec![number as u8; 200];
            last = (commit(&log, number, &body), body);
            if number.is_multiple_of(3) {
                log.checkpoint().expect("written");
            }
        }
        assert!(log.status().switches > 5, "{}", log.status());
        let recovery = Recovery::open(medium.clone(), &config).expect("it recovers");
        assert!(recovery.horizon == last.0 && found(&recovery).last().is_none_or(|found| *found == last));
    }
}
