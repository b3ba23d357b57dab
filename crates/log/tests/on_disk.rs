//! The log on a disk: what a crash leaves of commits that were acknowledged, and which sectors are
//! written. Tests (I1), (I2), (I9) on files of a disk.

use crate::support::{commit, create, recover, settle, tiny};
use perdura_log::format::group_bytes;
use perdura_log::{Csn, LaneChoice, LogConfig, Recovery};
use perdura_pmem::sim::Random;
use perdura_pmem::{FileMedium, Medium, Mode};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

const THREADS: u64 = 8;

/// A new directory on a disk.
pub fn directory() -> TempDir {
    let place = std::env::var_os("PERDURA_DISK_DIR").map_or(PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    TempDir::new_in(place).expect("a temporary directory")
}

pub fn on_disk(directory: &Path) -> FileMedium {
    let medium = FileMedium::open_paged(directory, false).expect("the directory opens");
    assert_eq!(medium.info().mode, Mode::Page, "the tests' directory is not on persistent memory");
    medium
}

/// A copy of the files as they are now, as a crash would leave them.
pub fn crashed(from: &Path) -> TempDir {
    let copy = directory();
    for entry in std::fs::read_dir(from).expect("it lists") {
        let entry = entry.expect("it lists");
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("it is copied");
    }
    copy
}

pub fn body(seed: u64, session: u64, number: u64) -> Vec<u8> {
    let mut random = Random::new(seed << 32 | session << 16 | number);
    let len = if random.one_in(10) { random.below(9000) } else { random.below(400) };
    (0..len).map(|at| (at * 31 + number + session) as u8).collect()
}

/// Ranges of the lanes that were written, with the file's name. While it is locked no write begins:
/// a copy made meanwhile is one that a crash may leave, where one made beside writes may have a
/// later record without an earlier one, of a file or a place copied before.
pub type Written = Arc<Mutex<Vec<(String, Range<u64>)>>>;

pub fn watch(medium: &FileMedium) -> Written {
    let written = Written::default();
    let told = written.clone();
    medium.on_log_write(move |path, range| {
        let name = Path::new(path).file_name().expect("a file").to_string_lossy().into_owned();
        let mut told = told.lock().expect("unpoisoned");
        if name.starts_with("log.") {
            told.push((name, range));
        }
    });
    written
}

/// A copy has what was acknowledged before it was made, whatever else is in it.
#[test]
fn a_copy_made_at_any_moment_has_every_acknowledged_commit() {
    for (seed, lanes) in [(1, 1), (2, 3)] {
        let config = LogConfig { lane_bytes: 8 << 20, ..tiny(lanes, 2) };
        let pool = directory();
        let file_medium = on_disk(pool.path());
        let written = watch(&file_medium);
        let medium: Arc<dyn Medium> = Arc::new(file_medium);
        create(&medium, &config, seed);
        let (log, _) = recover(&medium, &config).expect("it recovers");
        let acknowledged = Mutex::new(BTreeMap::<Csn, Vec<u8>>::new());
        let mut copies = Vec::new();
        std::thread::scope(|scope| {
            for session in 0..THREADS {
                let (log, acknowledged) = (&log, &acknowledged);
                scope.spawn(move || {
                    for number in 0..60 {
                        let body = body(seed, session, number);
                        let csn = commit(log, session, &body);
                        acknowledged.lock().expect("unpoisoned").insert(csn, body);
                    }
                });
            }
            for _ in 0..8 {
                let _none_begins = written.lock().expect("unpoisoned");
                let told = acknowledged.lock().expect("unpoisoned").clone();
                copies.push((told, crashed(pool.path())));
            }
        });
        let told = acknowledged.into_inner().expect("unpoisoned");
        let status = log.status();
        // Nothing is shut down.
        copies.push((told.clone(), crashed(pool.path())));
        for (told, copy) in copies {
            let medium: Arc<dyn Medium> = Arc::new(on_disk(copy.path()));
            let recovery = Recovery::open(medium, &config).expect("it recovers");
            let found: BTreeMap<Csn, Vec<u8>> = crate::support::found(&recovery).into_iter().collect();
            assert!(told.iter().all(|(csn, body)| found.get(csn) == Some(body)), "seed {seed}: {} told", told.len());
        }
        // No sector is written twice, and each byte written is a record's or padding.
        let written = written.lock().expect("unpoisoned");
        let sectors = |(name, range): &(String, Range<u64>)| {
            assert!(range.start.is_multiple_of(status.sector_bytes) && range.end.is_multiple_of(status.sector_bytes));
            let name = name.clone();
            range.clone().step_by(status.sector_bytes as usize).map(move |at| (name.clone(), at)).collect::<Vec<_>>()
        };
        let all: Vec<_> = written.iter().flat_map(sectors).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "seed {seed}: a sector was written twice");
        let records: u64 = told.values().map(|body| group_bytes(body.len())).sum();
        println!("{} commits, {records} bytes, {} writes of {} sectors", told.len(), written.len(), all.len());
        assert_eq!(all.len() as u64 * status.sector_bytes, records + status.padding_bytes, "seed {seed}: {status}");
        assert!(status.to_string().contains("bytes of padding"));
    }
}

/// The log goes round its lanes many times, with chunks whose transactions are abandoned, prepared
/// ones that are copied forward, and a start after each round.
#[test]
fn lanes_that_are_used_again_keep_what_is_needed() {
    let config = LogConfig { lane_bytes: 64 << 10, lane_choice: LaneChoice::Transaction, ..tiny(2, 4) };
    let pool = directory();
    let mut medium: Arc<dyn Medium> = Arc::new(on_disk(pool.path()));
    create(&medium, &config, 1);
    let mut expected: Option<Vec<u8>> = None;
    for round in 0..4u8 {
        let (log, mut prepared) = recover(&medium, &config).expect("it recovers");
        if let Some(xid) = expected.take() {
            let one = prepared.pop().expect("it was prepared");
            let redo = [vec![round - 1; 1000], vec![9]].concat();
            assert_eq!((&one.xid, one.bodies.concat()), (&xid, redo));
            one.log.rollback().expect("running");
        }
        assert!(prepared.is_empty());
        let mut held = log.begin(0);
        held.append_chunk(&[round; 700]).expect("room");
        held.append_chunk(&[round; 300]).expect("room");
        held.prepare(&[round], &[9]).expect("room");
        std::thread::scope(|scope| {
            for session in 0..3u64 {
                let log = &log;
                scope.spawn(move || {
                    for number in 0..60u64 {
                        if number % 3 == session {
                            let mut abandoned = log.begin(session);
                            abandoned.append_chunk(&[0xee; 3000]).expect("room");
                        }
                        let mut txn = log.begin(session);
                        txn.append_chunk(&[number as u8; 200]).expect("room");
                        let reservation = txn.reserve(100).expect("room");
                        let csn = txn.commit(reservation, &[session as u8; 100]);
                        assert!(log.wait_durable(csn));
                        settle(log, csn);
                        if number % 16 == session {
                            log.checkpoint().expect("written");
                        }
                    }
                });
            }
        });
        assert!(log.status().switches > 3, "{}", log.status());
        let copy = crashed(pool.path());
        let crashed: Arc<dyn Medium> = Arc::new(on_disk(copy.path()));
        let recovery = Recovery::open(crashed, &config).expect("it recovers");
        assert_eq!((recovery.horizon, recovery.prepared.len()), (log.last_csn(), 1));
        expected = Some(vec![round]);
        drop((held, log));
        drop(medium);
        medium = Arc::new(on_disk(pool.path()));
    }
}

/// A write that fails, wherever it comes: commits that were acknowledged are found.
#[test]
fn no_commit_counts_whose_write_has_failed() {
    let config = LogConfig { lane_bytes: 1 << 20, ..tiny(1, 2) };
    for after in 0..10 {
        let pool = directory();
        let file_medium = Arc::new(on_disk(pool.path()));
        let medium: Arc<dyn Medium> = file_medium.clone();
        create(&medium, &config, after);
        let (log, _) = recover(&medium, &config).expect("it recovers");
        file_medium.fail_sync_after(after);
        let acknowledged = Mutex::new(BTreeMap::new());
        std::thread::scope(|scope| {
            for session in 0..4u64 {
                let (log, acknowledged) = (&log, &acknowledged);
                scope.spawn(move || {
                    for number in 0..40 {
                        let body = body(after, session, number);
                        let mut txn = log.begin(session);
                        let Ok(reservation) = txn.reserve(body.len()) else { return };
                        let csn = txn.commit(reservation, &body);
                        if !log.wait_durable(csn) {
                            return;
                        }
                        settle(log, csn);
                        acknowledged.lock().expect("unpoisoned").insert(csn, body);
                    }
                });
            }
        });
        assert!(log.is_failed(), "after {after}");
        drop(log);
        let told = acknowledged.into_inner().expect("unpoisoned");
        let copy = crashed(pool.path());
        let medium: Arc<dyn Medium> = Arc::new(on_disk(copy.path()));
        let recovery = Recovery::open(medium, &config).expect("it recovers");
        let found: BTreeMap<Csn, Vec<u8>> = crate::support::found(&recovery).into_iter().collect();
        assert!(told.iter().all(|(csn, body)| found.get(csn) == Some(body)), "after {after}: {} told", told.len());
    }
}

/// A disk may have larger sectors than the lanes allow.
#[test]
fn lanes_of_few_sectors_are_refused() {
    let pool = directory();
    let medium: Arc<dyn Medium> = Arc::new(on_disk(pool.path()));
    let sector = medium.create_log("probe", 4096).expect("room").write_granule();
    let config = LogConfig { lane_bytes: 4 * sector - 64, ..tiny(1, 2) };
    let config = LogConfig { lane_bytes: config.lane_bytes.max(4096), ..config };
    let created = perdura_log::create(&medium, &config, [0; 8], &mut || 1);
    if config.lane_bytes < 4 * sector {
        let error = created.expect_err("too small");
        assert!(error.to_string().contains(&format!("choose {} at least", 4 * sector)), "{error}");
    }
}
