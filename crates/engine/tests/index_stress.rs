//! Hazard: races in the indexes that no seeded interleaving has met. Sessions run on real threads
//! beside the background thread and insert, delete and take each other's keys, while readers
//! compare each index with the table at one snapshot.

use crate::common;

use crate::common::key_raid::KeyRaid;
use crate::common::keyed::{KINDS, Keyed, Kind, config};
use crate::common::seeds;
use perdura_engine::{Config, Engine, Isolation};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Counts a writer down when it ends, also by a panic, so that nobody waits for it.
struct Ends<'a>(&'a AtomicU32);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

fn run(engine: &Engine, name: &str, kinds: &[Kind], seed: u64, bound: u64, transactions: u32, orderly: bool) {
    let raid = KeyRaid::new(Keyed::create(engine, name, kinds), bound);
    let writers = AtomicU32::new(3);
    let taken = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for thread in 0..3u64 {
            let (raid, writers) = (&raid, &writers);
            threads.push(scope.spawn(move || {
                let _ends = Ends(writers);
                let isolation = [Isolation::ReadCommitted, Isolation::RepeatableRead][thread as usize % 2];
                let mut txn = engine.session(isolation);
                txn.set_lock_wait_timeout(Duration::from_secs(2));
                raid.take_part(&mut txn, transactions, &mut Random::new(seed * 100 + thread))
            }));
        }
        for reader in 0..2u64 {
            let (raid, writers) = (&raid, &writers);
            scope.spawn(move || {
                let mut random = Random::new(seed * 100 + 50 + reader);
                while writers.load(Ordering::Acquire) > 0 {
                    raid.look(engine, &mut random);
                }
            });
        }
        scope.spawn(|| {
            while writers.load(Ordering::Acquire) > 0 {
                engine.checkpoint().unwrap();
                engine.purge();
                std::thread::yield_now();
            }
        });
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>()
    });
    assert!(taken > 0 || bound > 1000, "nobody met a key that was taken");
    raid.check(engine);
    if orderly {
        engine.close();
    }
    assert_eq!((engine.counters().locks_held, engine.counters().snapshots), (0, 0));
    engine.sweep().unwrap();
    (0..2).for_each(|_| common::settle(engine));
    raid.keyed.table.audit().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
}

fn background() -> Config {
    Config { background: true, prefault: true, ..config() }
}

#[test]
fn in_simulated_memory() {
    for seed in seeds(4) {
        let medium = Arc::new(SimMedium::new());
        for (round, (kinds, bound)) in
            [(&[Kind::Number, Kind::Group][..], 60), (&[Kind::Name], 400), (&KINDS, 100)].into_iter().enumerate()
        {
            let shared: Arc<dyn Medium> = medium.clone();
            let config = if seed % 2 == 0 { background() } else { config() };
            let config = Config { by_value: Some(seed % 4 > 1), ..config };
            let engine = Engine::open(shared, config).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            // Those of earlier rounds have gone through restarts.
            let before = [&[Kind::Number, Kind::Group][..], &[Kind::Name]].into_iter().take(round);
            for (number, kinds) in before.enumerate() {
                Keyed::open(&engine, &format!("t{number}"), kinds).check(&engine);
            }
            run(&engine, &format!("t{round}"), kinds, seed * 10 + round as u64, bound, 250, seed % 2 == 0);
        }
    }
}

#[test]
fn in_files_with_many_rows() {
    let directory = common::directory();
    for seed in seeds(2) {
        let engine = Engine::open(common::files(&directory), background()).unwrap();
        run(&engine, &format!("t{seed}"), &[Kind::Number, Kind::Group, Kind::Name], 70 + seed, 5000, 1200, true);
    }
}
