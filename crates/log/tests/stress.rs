//! Many threads on tiny lanes, with switches all the time; then recover and compare. Tests (I5).

use crate::support;

use crate::support::oracle::{Ledger, Oracle, expected, run};
use crate::support::{create, recover, settle, tiny};
use perdura_log::{LogConfig, Recovery};
use perdura_pmem::sim::{Random, Recorder, Scheduler, SimMedium};
use perdura_pmem::{FileMedium, Medium, Options, trace};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const THREADS: u64 = 4;

/// Runs `per_thread` transactions on each of four threads while another takes checkpoints.
pub fn run_threads(medium: &Arc<dyn Medium>, config: &LogConfig, per_thread: u64, seed: u64) -> Ledger {
    let (log, _) = recover(medium, config).expect("it recovers");
    let (ledger, next, done) = (Ledger::default(), AtomicU64::new(seed << 32 | 1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|session| {
                let (log, ledger, next) = (&log, &ledger, &next);
                scope.spawn(move || {
                    for _ in 0..per_thread {
                        run(log, ledger, session, next.fetch_add(1, SeqCst), &mut || ());
                    }
                })
            })
            .collect();
        let checkpointer = scope.spawn(|| {
            while !done.load(SeqCst) {
                log.checkpoint().expect("written");
                std::thread::yield_now();
            }
        });
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
        done.store(true, SeqCst);
        checkpointer.join().expect("no panic");
    });
    assert!(log.status().switches > 5, "{}", log.status());
    ledger
}

pub fn compare(medium: &Arc<dyn Medium>, config: &LogConfig, ledger: &Ledger) {
    let recovery = Recovery::open(medium.clone(), config).expect("it recovers");
    let csns = ledger.all();
    assert_eq!(recovery.horizon, csns.len() as u64);
    assert!(recovery.prepared.is_empty());
    let numbers: std::collections::BTreeMap<_, _> = csns.into_iter().map(|(number, csn)| (csn, number)).collect();
    for commit in &recovery.committed {
        let redo = support::redo(&recovery, &commit.bodies);
        assert_eq!(redo, expected(numbers[&commit.csn]), "CSN {}", commit.csn);
    }
}

#[test]
fn threads_on_tiny_lanes() {
    for (seed, lanes) in [(1, 1), (2, 2), (3, 4)] {
        let config = LogConfig { shrink_after: 2, ..tiny(lanes, 8) };
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
        create(&medium, &config, seed);
        let ledger = run_threads(&medium, &config, 1500, seed);
        compare(&medium, &config, &ledger);
    }
}

#[test]
fn threads_on_real_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = LogConfig { lane_bytes: 16 << 10, shrink_after: 2, ..tiny(2, 8) };
    let open = || {
        let options = Options { emulate: true, ..Options::default() };
        Arc::new(FileMedium::open(directory.path(), options).expect("it opens")) as Arc<dyn Medium>
    };
    let medium = open();
    create(&medium, &config, 5);
    let ledger = run_threads(&medium, &config, 1000, 7);
    drop(medium);
    compare(&open(), &config, &ledger);
}

/// Interleavings that a seed decides, with a switch possible at every store and lock; each ends in
/// a recovery.
#[test]
fn seeded_interleavings() {
    for seed in 0..60 {
        let config = LogConfig { shrink_after: 1, ..tiny(1 + seed as u32 % 2, 4) };
        let plain: Arc<dyn Medium> = Arc::new(SimMedium::new());
        create(&plain, &config, seed);
        let (medium, recorder) = Recorder::attach(copy_of(&plain));
        let medium: Arc<dyn Medium> = Arc::new(medium);
        let _attached = trace::attach(recorder.clone());
        let (log, _) = recover(&medium, &config).expect("it recovers");
        let ledger = Ledger::default();
        let bodies: Vec<Box<dyn FnOnce() + Send + '_>> = (0..3u64)
            .map(|session| {
                let (log, ledger) = (&log, &ledger);
                Box::new(move || {
                    for n in 0..25 {
                        let number = seed * 1000 + n * 3 + session;
                        run(log, ledger, session, number, &mut perdura_pmem::sync::yield_now);
                        if n % 8 == session {
                            log.checkpoint().expect("written");
                        }
                    }
                }) as Box<dyn FnOnce() + Send + '_>
            })
            .collect();
        Scheduler::new(seed).run(bodies);
        let recovery = Recovery::open(medium, &config).expect("it recovers");
        Oracle::new(recorder.trace().marks(), &ledger.all()).check(&recovery).expect("all there");
    }
}

fn copy_of(medium: &Arc<dyn Medium>) -> SimMedium {
    let files: Vec<(String, Vec<u8>)> = medium
        .list()
        .expect("listed")
        .into_iter()
        .map(|(name, len)| {
            let mut bytes = vec![0; len as usize];
            medium.open(&name).expect("it exists").read(0, &mut bytes);
            (name, bytes)
        })
        .collect();
    let image = perdura_pmem::sim::Image::from_files(files.iter().map(|(name, bytes)| (&name[..], &bytes[..])));
    SimMedium::from_image(image)
}

/// Chunks written by one thread and committed by another, as server threads hand sessions over.
#[test]
fn sessions_move_between_threads() {
    let config = tiny(2, 8);
    let (medium, log) = support::opened(&config);
    let mut random = Random::new(3);
    let mut expected = Vec::new();
    for n in 0..50u8 {
        let mut txn = log.begin(0);
        let body = vec![n; 50 + random.below(400) as usize];
        std::thread::scope(|scope| {
            scope.spawn(|| txn.append_chunk(&body).expect("room"));
        });
        let csn = std::thread::scope(|scope| {
            let ended = scope.spawn(|| {
                if n % 2 == 0 {
                    let reservation = txn.reserve(1).expect("room");
                    return txn.commit(reservation, &[n]);
                }
                txn.prepare(b"x", &[n]).expect("room");
                txn.commit_prepared()
            });
            ended.join().expect("no panic")
        });
        settle(&log, csn);
        expected.push((csn, body.into_iter().chain([n]).collect::<Vec<u8>>()));
    }
    let recovery = Recovery::open(medium, &config).expect("it recovers");
    let found = support::found(&recovery);
    assert_eq!(found, expected[expected.len() - found.len()..]);
}
