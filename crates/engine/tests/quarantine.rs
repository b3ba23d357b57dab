//! Hazard: on a disk, where checkpoints are far apart, what waits for one takes all of the device,
//! or a statement waits for files to be synced. The worst cases are one row that is updated, one
//! key that changes, and a queue. Tests (I8).
//!
//! `PERDURA_QUARANTINE_MINUTES=N` goes on for that long, with checkpoints as they come by default.

#![allow(clippy::disallowed_methods, reason = "real threads for a while: no seed runs them again")]

use crate::common::keyed::{Fields, Keyed, Kind, config, fill};
use perdura_engine::{Config, Engine, Isolation, LogConfig, Rid, Session};
use perdura_log::GenerationState;
use perdura_pmem::{FileMedium, Health, Medium, MediumInfo, Region, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Commits of each of the three, in the short form.
const COMMITS: u32 = 1500;
/// Bytes of log between two checkpoints, in the short form.
const LOG_BYTES: u64 = 512 << 10;
/// Bytes that are taken at once, whatever is in use: a segment of each kind, and what threads have
/// at hand.
const AT_HAND: u64 = 256 << 10;

/// A disk, and who has its files synced as a whole.
struct Disk {
    inner: FileMedium,
    /// By the thread of checkpoints, and by others.
    settled: [AtomicU64; 2],
}

impl Medium for Disk {
    fn create(&self, name: &str, len: u64) -> Result<Region> {
        self.inner.create(name, len)
    }

    fn open(&self, name: &str) -> Result<Region> {
        self.inner.open(name)
    }

    fn create_log(&self, name: &str, len: u64) -> Result<Region> {
        self.inner.create_log(name, len)
    }

    fn open_log(&self, name: &str) -> Result<Region> {
        self.inner.open_log(name)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn list(&self) -> Result<Vec<(String, u64)>> {
        self.inner.list()
    }

    fn sync_dir(&self) -> Result<()> {
        self.inner.sync_dir()
    }

    fn settles(&self) -> bool {
        self.inner.settles()
    }

    fn settle(&self) -> Result<()> {
        let is_apart = std::thread::current().name() == Some("perdura-checkpoint");
        self.settled[usize::from(!is_apart)].fetch_add(1, Ordering::Relaxed);
        self.inner.settle()
    }

    fn settle_is_due(&self) -> bool {
        self.inner.settle_is_due()
    }

    fn health(&self) -> Health {
        self.inner.health()
    }

    fn info(&self) -> MediumInfo {
        self.inner.info()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.inner.free_bytes()
    }
}

/// A table, and how each of its commits changes it.
struct Load {
    keyed: Keyed,
    rids: VecDeque<Rid>,
    change: fn(&mut Load, &mut Session, u32),
}

/// One row gets other bytes.
fn hot_row(load: &mut Load, txn: &mut Session, round: u32) {
    let row = Fields { padding: 200 + round as usize % 40, ..Fields::of(3) }.row();
    load.keyed.update(txn, load.rids[3], &row).unwrap();
}

/// One row gets one of two keys.
fn hot_key(load: &mut Load, txn: &mut Session, round: u32) {
    let row = Fields::of(if round.is_multiple_of(2) { 4 } else { 1004 }).row();
    load.keyed.update(txn, load.rids[4], &row).unwrap();
}

/// The first row of a queue goes, and one comes at its end.
fn queue(load: &mut Load, txn: &mut Session, round: u32) {
    let first = load.rids.pop_front().unwrap();
    load.keyed.delete(txn, first).unwrap();
    load.rids.push_back(load.keyed.insert(txn, &Fields::of(2000 + round).row()).unwrap());
}

/// End of a run.
#[derive(Clone, Copy)]
enum Until {
    Commits(u32),
    Time(Instant),
}

impl Until {
    fn is_over(self, commits: u32) -> bool {
        match self {
            Until::Commits(most) => commits >= most,
            Until::Time(end) => Instant::now() >= end,
        }
    }
}

/// Runs the loads, a thread each, and calls `watch` all the while with the bytes in use before and
/// now.
fn run(engine: &Engine, until: Until, mut watch: impl FnMut(u64, u64)) {
    let changes: [fn(&mut Load, &mut Session, u32); 3] = [hot_row, hot_key, queue];
    let mut loads: Vec<Load> = Vec::new();
    for (number, change) in changes.into_iter().enumerate() {
        let keyed = Keyed::create(engine, &format!("t{number}"), &[Kind::Number, Kind::Name]);
        let rids = fill(engine, &keyed, (0..60).map(Fields::of)).into();
        loads.push(Load { keyed, rids, change });
    }
    let tables: Vec<_> = loads.iter().map(|load| load.keyed.clone()).collect();
    let used = || tables.iter().map(|keyed| keyed.table.data_bytes() - keyed.table.free_bytes()).sum();
    let before = used();
    let running = AtomicUsize::new(loads.len());
    std::thread::scope(|scope| {
        for load in &mut loads {
            let running = &running;
            scope.spawn(move || {
                let mut txn = engine.session(Isolation::ReadCommitted);
                let mut round = 0;
                while !until.is_over(round) {
                    (load.change)(load, &mut txn, round);
                    txn.commit().unwrap_or_else(|error| panic!("round {round}: {error}"));
                    round += 1;
                }
                running.fetch_sub(1, Ordering::Release);
            });
        }
        while running.load(Ordering::Acquire) > 0 {
            watch(before, used());
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    for load in loads {
        assert_eq!(load.keyed.check(engine).len(), 60);
    }
}

/// Segments of the journal there may be, and their bytes. A fence that finds all of them full has
/// all files synced; they are made as they are needed.
const SEGMENTS: usize = 16;
const SEGMENT_BYTES: u64 = 16 << 20;

/// Files of the journal in a directory.
fn journal_files(directory: &TempDir) -> usize {
    let files = std::fs::read_dir(directory.path()).unwrap();
    files.filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with("journal.")).count()
}

/// Bytes that the log has taken since the pool was created. It has room, so nobody waits for it.
fn log_volume(engine: &Engine) -> u64 {
    let log = engine.status().log;
    assert!(log.can_switch(), "{log}");
    let active = log.generations.iter().find(|generation| generation.state == GenerationState::Active);
    let filled = active.map_or(0, |active| active.filled.iter().sum::<u64>());
    active.map_or(0, |active| active.activation) * u64::from(log.lanes) * log.lane_bytes + filled
}

#[test]
fn what_waits_for_a_checkpoint_is_bounded_by_its_log() {
    let minutes: Option<u64> = std::env::var("PERDURA_QUARANTINE_MINUTES").ok().and_then(|text| text.parse().ok());
    let lane_bytes = if minutes.is_some() { 256 << 20 } else { 16 << 20 };
    let log = LogConfig { lanes: 1, lane_bytes, generations: 2, generations_max: 4, ..LogConfig::default() };
    let usual = Config { log, background: true, data_file_bytes: 8 << 20, ..config() };
    let (until, config) = match minutes {
        Some(minutes) => (Until::Time(Instant::now() + Duration::from_secs(60 * minutes)), usual),
        None => (Until::Commits(COMMITS), Config { checkpoint_log_bytes: LOG_BYTES, ..usual }),
    };
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let inner = FileMedium::open_journaled(directory.path(), false, SEGMENTS as u64 * SEGMENT_BYTES).unwrap();
    let disk = Arc::new(Disk { inner, settled: Default::default() });
    let engine = Engine::open(disk.clone() as Arc<dyn Medium>, config).unwrap();
    let settled = || [0, 1].map(|who| disk.settled[who].load(Ordering::Relaxed));
    let [checkpoints, others] = settled();
    // Volumes of the log when the last checkpoints were there, the newest last.
    let (mut ends, mut last, mut most) = ([0; 2], 0, (0, 0, 0));
    run(&engine, until, |before, used| {
        assert!(journal_files(&directory) < SEGMENTS, "the journal was full");
        let (volume, checkpoint) = (log_volume(&engine), engine.counters().checkpoint_csn);
        if checkpoint != last {
            (ends, last) = ([ends[1], volume], checkpoint);
        }
        // Commits since the last one began wait, which was not before the one before had ended.
        let waits = volume - ends[0];
        most = most.max((used, before, waits));
        assert!(used <= 2 * before + waits + AT_HAND, "{used} bytes, {before} before, {waits} bytes of log");
    });
    let now = settled();
    assert_eq!(now[1], others, "a statement had all files synced");
    assert!(now[0] > checkpoints + 1, "{} checkpoints", now[0] - checkpoints);
    println!("{most:?}: most bytes in use, those before, and the log since the checkpoint before the last");
    engine.close();
}
