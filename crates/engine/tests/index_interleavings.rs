//! Hazard: a split, a join, a unique check or a reader meets another thread at the one moment that
//! matters. Each seed is one interleaving, with a switch of threads at any store, flush or fence.

use crate::common::key_raid::KeyRaid;
use crate::common::keyed::{KINDS, Keyed, Kind, config};
use crate::common::simulated::{audit, medium};
use crate::common::threads::Threads;
use crate::common::{seeds, settle};
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

/// Sessions beside one that has had a snapshot from before, so that leaves become vacant, and are
/// populated again, while others walk past them.
fn raid_beside_a_snapshot(seed: u64, kinds: &[Kind], bound: u64, transactions: u32) {
    let medium = medium();
    let engine = open(&medium);
    let raid = KeyRaid::new(Keyed::create(&engine, "t", kinds), bound);
    let mut random = Random::new(seed * 10 + 8);
    raid.take_part(&mut engine.session(Isolation::ReadCommitted), 30, &mut random);
    let mut old = engine.session(Isolation::RepeatableRead);
    old.start_statement();
    let seen = raid.keyed.check_seen(&mut old, "before");
    old.end_statement();
    let mut threads = Threads::default();
    for thread in 0..2u64 {
        let (engine, raid) = (&engine, &raid);
        threads.work(move || {
            let mut random = Random::new(seed * 10 + thread);
            let mut session = engine.session(Isolation::RepeatableRead);
            raid.clear_out(&mut session, transactions, &mut random);
            raid.take_part(&mut session, transactions, &mut random);
        });
    }
    for thread in 3..5u64 {
        let (reading, readable) = (&engine, &raid);
        let mut random = Random::new(seed * 10 + thread);
        threads.meanwhile(move || readable.look(reading, &mut random));
    }
    let settling = &engine;
    threads.meanwhile(move || settle(settling));
    threads.run(seed);
    raid.check(&engine);
    old.start_statement();
    assert!(seen == raid.keyed.check_seen(&mut old, "after"), "seed {seed}: the snapshot has moved");
    old.end_statement();
    drop(old);
    (0..20).for_each(|_| settle(&engine));
    let rows = raid.keyed.check(&engine);
    drop(raid);
    audit(&engine);
    drop(engine);
    let engine = open(&medium);
    assert_eq!(Keyed::open(&engine, "t", kinds).check(&engine), rows, "seed {seed}, after a restart");
    audit(&engine);
}

#[test]
fn walks_beside_an_old_snapshot() {
    seeds(25).for_each(|seed| raid_beside_a_snapshot(3000 + seed, &[Kind::Number, Kind::Group], 400, 8));
    seeds(10).for_each(|seed| raid_beside_a_snapshot(4000 + seed, &[Kind::Name], 300, 8));
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
