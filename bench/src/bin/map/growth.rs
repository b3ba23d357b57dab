//! How the cost of an operation grows from ten thousand keys to ten million. Full runs only.

use crate::operations::Orders;
use perdura_bench::keys::SEED;
use perdura_bench::keys::{self, Key, Shape};
use perdura_bench::measure::{phase, turned};
use perdura_bench::output;
use perdura_bench::plan::Plan;
use perdura_bench::system::System;
use std::hint::black_box;
use std::time::Duration;

const SIZES: [usize; 4] = [10_000, 100_000, 1_000_000, 10_000_000];
const VALUE: [u8; 10] = [0x5a; 10];
const BATCH: usize = 10;
/// Reads and deletions measured at most. All keys are inserted.
const SAMPLE: usize = 1_000_000;

/// `growth/OPERATION/10B/KEYS/k10`, beside a map in DRAM, which outgrows the machine's caches as
/// well.
pub fn run(plan: &Plan) {
    if plan.quick {
        return;
    }
    for size in SIZES {
        // Small cases take so little time that any disturbance shows: more rounds.
        let rounds = if size <= 100_000 { 5 } else { 1 };
        let orders = sampled(size);
        for round in 0..rounds {
            for system in turned(&plan.systems(&[System::List, System::BTree, System::Dram]), round) {
                one_case(plan, system, &orders);
            }
        }
        output::progress(format_args!("growth, {size} keys"));
    }
}

fn sampled(size: usize) -> Orders {
    let insert = keys::shuffled(size, Shape::Numbers, SEED);
    let sample = |seed| {
        let mut keys: Vec<Key> = insert.iter().step_by(size.div_ceil(SAMPLE)).copied().collect();
        keys::shuffle(&mut keys, seed);
        keys
    };
    let (read, delete) = (sample(SEED + 1), sample(SEED + 2));
    Orders { insert, read, delete }
}

fn one_case(plan: &Plan, system: System, orders: &Orders) {
    let size = orders.insert.len();
    let scratch = plan.scratch();
    let mut store = system.create(scratch.path(), size, VALUE.len(), BATCH);
    let report = |operation: &str, ns: f64| {
        output::value(system.name(), &format!("growth/{operation}/10B/{size}/k{BATCH}"), "ns_per_op", ns);
    };
    report("insert", phase(&orders.insert, Duration::MAX, |keys| store.insert(keys, &VALUE, BATCH)).0);
    let read = phase(&orders.read, Duration::MAX, |keys| {
        black_box(store.read(keys));
    });
    report("read", read.0);
    report("delete", phase(&orders.delete, Duration::MAX, |keys| store.delete(keys, BATCH)).0);
}
