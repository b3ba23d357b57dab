//! Hazard: beside sessions that exchange the keys of rows, delete rows and give their keys to
//! others, or change a key there and back, a walk over an index meets a key twice or misses it;
//! forward or backward, at a snapshot, or going on from entry to entry while leaves split and are
//! packed.

use crate::common::exchange::Exchange;
use crate::common::keyed::{Kind, config};
use crate::common::simulated::{audit, medium};
use crate::common::threads::Threads;
use crate::common::{seeds, settle};
use perdura_engine::{Config, Engine, Isolation};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const KINDS: [Kind; 2] = [Kind::Number, Kind::Group];
const ISOLATIONS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::ConsistentReads];

fn open(medium: &Arc<SimMedium>) -> Engine {
    let shared: Arc<dyn Medium> = medium.clone();
    Engine::open(shared, Config { lock_wait_timeout: Duration::from_millis(20), ..config() }).unwrap()
}

/// One interleaving of two sessions that exchange keys, one that fills and empties gaps, two that
/// look on, and purge.
fn interleaved(seed: u64, places: u64, transactions: u32) {
    let medium = medium();
    let engine = open(&medium);
    let exchange = Exchange::create(&engine, "t", places, &KINDS);
    let committed = AtomicU32::new(0);
    let mut threads = Threads::default();
    for thread in 0..2u64 {
        let (engine, exchange, committed) = (&engine, &exchange, &committed);
        threads.work(move || {
            let mut random = Random::new(seed * 10 + thread);
            let isolation = ISOLATIONS[random.below(3) as usize];
            let done = exchange.take_part(&mut engine.session(isolation), transactions, isolation, &mut random);
            committed.fetch_add(done, Ordering::Relaxed);
        });
    }
    let (filling, filled) = (&engine, &exchange);
    threads.work(move || {
        let mut random = Random::new(seed * 10 + 2);
        filled.come_and_go(&mut filling.session(Isolation::ReadCommitted), 2, &mut random);
    });
    let (reading, read, mut random) = (&engine, &exchange, Random::new(seed * 10 + 3));
    threads.meanwhile(move || read.look(reading, &mut random));
    let (going, gone, mut random) = (&engine, &exchange, Random::new(seed * 10 + 4));
    threads.meanwhile(move || gone.walk_newest(going, &mut random));
    let settling = &engine;
    threads.meanwhile(move || settle(settling));
    threads.run(seed);
    assert!(committed.load(Ordering::Relaxed) > 0, "seed {seed}: nobody has exchanged a key");
    exchange.check(&engine);
    drop(exchange);
    audit(&engine);
}

#[test]
fn in_every_order() {
    seeds(25).for_each(|seed| interleaved(seed, 48, 40));
}

#[test]
fn over_many_leaves() {
    seeds(6).for_each(|seed| interleaved(1000 + seed, 160, 60));
}

/// Counts a writer down when it ends, also by a panic, so that nobody waits for it.
struct Ends<'a>(&'a AtomicU32);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// The same on threads of their own, beside the background thread.
fn threaded(seed: u64, transactions: u32) {
    let shared: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let engine = Engine::open(shared, Config { background: true, ..config() }).unwrap();
    let exchange = Exchange::create(&engine, "t", 200, &KINDS);
    let writers = AtomicU32::new(3);
    std::thread::scope(|scope| {
        let (engine, exchange, writers) = (&engine, &exchange, &writers);
        for thread in 0..2u64 {
            scope.spawn(move || {
                let _ends = Ends(writers);
                let isolation = ISOLATIONS[(seed + thread) as usize % 3];
                let mut txn = engine.session(isolation);
                txn.set_lock_wait_timeout(Duration::from_secs(10));
                exchange.take_part(&mut txn, transactions, isolation, &mut Random::new(seed * 100 + thread));
            });
        }
        scope.spawn(move || {
            let _ends = Ends(writers);
            let mut txn = engine.session(Isolation::ReadCommitted);
            exchange.come_and_go(&mut txn, transactions / 20, &mut Random::new(seed * 100 + 10));
        });
        for reader in 0..2u64 {
            scope.spawn(move || {
                let mut random = Random::new(seed * 100 + 50 + reader);
                while writers.load(Ordering::Acquire) > 0 {
                    if reader == 0 {
                        exchange.look(engine, &mut random)
                    } else {
                        exchange.walk_newest(engine, &mut random)
                    }
                }
            });
        }
        scope.spawn(move || {
            while writers.load(Ordering::Acquire) > 0 {
                settle(engine);
                std::thread::yield_now();
            }
        });
    });
    exchange.check(&engine);
    engine.close();
    (0..2).for_each(|_| settle(&engine));
    exchange.keyed.table.audit().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
}

#[test]
fn on_real_threads() {
    seeds(4).for_each(|seed| threaded(seed, 2000));
}
