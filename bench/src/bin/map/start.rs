//! Start: from the closed directory to the answer of the first read, with a million keys.

use crate::operations::REST_BATCH;
use perdura_bench::keys::SEED;
use perdura_bench::keys::{self, Key, Shape};
use perdura_bench::output;
use perdura_bench::own::{Own, medium};
use perdura_bench::peers::{lmdb::Lmdb, redb::Redb};
use perdura_bench::plan::Plan;
use perdura_bench::scratch::Scratch;
use perdura_bench::store::Store;
use perdura_bench::system::System;
use perdura_map::Config;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

const KEYS: usize = 1_000_000;
const VALUE: [u8; 10] = [0x5a; 10];
/// Only a full run starts the peers: filling them takes longest.
const SYSTEMS: [System; 4] = [System::List, System::BTree, System::Lmdb, System::Redb];

/// `start/10B/1000000`: `ready_ms`, the time to open the directory and the map and to get one
/// value; for own maps also `medium_ms`, the part of it that finds out on what memory the directory
/// lies.
pub fn run(plan: &Plan) {
    let keys = keys::shuffled(KEYS, Shape::Numbers, SEED);
    for system in plan.systems(plan.pick(&SYSTEMS, &SYSTEMS[..2])) {
        let scratch = plan.scratch();
        fill(system, &scratch, &keys);
        for _ in plan.rounds(7, 3) {
            open_and_read(system, scratch.path(), &keys[..1]);
        }
    }
}

fn fill(system: System, scratch: &Scratch, keys: &[Key]) {
    // A synced environment closes only by an explicit call.
    if system == System::Lmdb {
        let mut lmdb = Lmdb::open(scratch.path(), true);
        lmdb.insert(keys, &VALUE, REST_BATCH);
        lmdb.close();
        return;
    }
    let mut store = system.create(scratch.path(), keys.len(), VALUE.len(), REST_BATCH);
    store.insert(keys, &VALUE, REST_BATCH);
}

/// Opens a filled store and reads. Closing does not count.
fn open_and_read(system: System, directory: &Path, keys: &[Key]) {
    let begun = Instant::now();
    let report = |metric: &str| {
        let took = begun.elapsed().as_secs_f64() * 1e3;
        output::value(system.name(), &format!("start/10B/{KEYS}"), metric, took);
    };
    let read = |store: &dyn Store| {
        black_box(store.read(keys));
        report("ready_ms");
    };
    match system {
        System::Lmdb => {
            let lmdb = Lmdb::open(directory, true);
            read(&lmdb);
            lmdb.close();
        }
        System::Redb => read(&Redb::open(directory, true)),
        _ => {
            let medium = medium(directory);
            report("medium_ms");
            read(&Own::open(&medium, &Config::default()));
        }
    }
}
