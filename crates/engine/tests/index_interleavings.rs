//! Hazard: a split, a join, a unique check or a reader meets another thread at the one moment that matters. Each seed is
//! one interleaving, with a switch of threads at any store, flush or fence.

mod common;

use common::key_raid::KeyRaid;
use common::keyed::{KINDS, Keyed, Kind, config};
use common::simulated::{audit, medium};
use common::threads::Threads;
use common::{seeds, settle};
use perdura_engine::{Config, Engine, Isolation};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;
use std::time::Duration;

fn open(medium: &Arc<SimMedium>) -> Engine {
    let shared: Arc<dyn Medium> = medium.clone();
    Engine::open(shared, Config { lock_wait_timeout: Duration::from_millis(20), ..config() }).unwrap()
}

fn raid(seed: u64, kinds: &[Kind], bound: u64, transactions: u32) {
    let medium = medium();
    let engine = open(&medium);
    let raid = KeyRaid::new(Keyed::create(&engine, "t", kinds), bound);
    let mut threads = Threads::default();
    for thread in 0..3u64 {
        let (engine, raid) = (&engine, &raid);
        threads.work(move || {
            let isolation = [Isolation::ReadCommitted, Isolation::RepeatableRead][thread as usize % 2];
            let mut random = Random::new(seed * 10 + thread);
            raid.take_part(&mut engine.session(isolation), transactions, &mut random);
        });
    }
    let mut random = Random::new(seed * 10 + 7);
    let (reading, readable) = (&engine, &raid);
    threads.meanwhile(move || readable.look(reading, &mut random));
    let settling = &engine;
    threads.meanwhile(move || settle(settling));
    threads.run(seed);
    raid.check(&engine);
    let rows = raid.keyed.check(&engine);
    drop(raid);
    audit(&engine);
    drop(engine);
    let engine = open(&medium);
    let keyed = Keyed::open(&engine, "t", kinds);
    assert_eq!(keyed.check(&engine), rows, "seed {seed}, after a restart");
    audit(&engine);
}

#[test]
fn keys_that_are_wanted_by_all() {
    seeds(40).for_each(|seed| raid(seed, &[Kind::Number, Kind::Group], 12, 12));
}

#[test]
fn leaves_that_split_and_join() {
    seeds(25).for_each(|seed| raid(1000 + seed, &[Kind::Name], 300, 16));
}

#[test]
fn keys_of_every_kind() {
    seeds(15).for_each(|seed| raid(2000 + seed, &KINDS, 60, 10));
}
