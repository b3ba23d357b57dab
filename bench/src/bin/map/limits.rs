//! Costs that must not grow with the region or with the number of readers: the worst set during a
//! collection, opening a large region, a pin beside many others; and an overwrite with its
//! forgetting.

use crate::operations::KEYS;
use perdura_bench::keys::SEED;
use perdura_bench::keys::{self, Key, Shape};
use perdura_bench::measure::{ns_each, turned};
use perdura_bench::output;
use perdura_bench::own::{Own, Settings, medium};
use perdura_bench::plan::Plan;
use perdura_bench::store::Store;
use perdura_bench::system::System;
use perdura_map::{Config, Ts};
use std::hint::black_box;
use std::time::Instant;

const VALUE: [u8; 10] = [0x5a; 10];
const BATCH: usize = 10;
const SYSTEMS: [System; 2] = [System::List, System::BTree];
/// Keys in a large region.
const FEW: usize = 1000;
/// Pins held by one thread.
const PINS: usize = 10_000;

/// `overwrite/10B/20000/k10` (`ns_per_op`), `collect_pause/SIZE` (`worst_us`), `open/16GiB`
/// (`ready_ms`), `pin/0` and `pin/10000` (`ns_per_op`).
pub fn run(plan: &Plan) {
    for round in plan.rounds(7, 3) {
        for system in turned(&plan.systems(&SYSTEMS), round) {
            overwrite(plan, system);
            pins(plan, system);
            for (gib, name) in [(1, "collect_pause/1GiB"), (16, "collect_pause/16GiB")] {
                collect_pause(plan, system, gib, name);
            }
            open(plan, system);
        }
    }
}

fn settings(system: System, count: usize) -> Settings {
    Settings::new(system.kind().expect("it is a map"), count, VALUE.len(), BATCH)
}

fn few() -> Vec<Key> {
    keys::shuffled(FEW, Shape::Numbers, SEED)
}

fn overwrite(plan: &Plan, system: System) {
    let mut keys = keys::shuffled(KEYS, Shape::Numbers, SEED);
    let scratch = plan.scratch();
    let mut own = Own::create(scratch.path(), &settings(system, 4 * KEYS));
    own.insert(&keys, &VALUE, BATCH);
    keys::shuffle(&mut keys, SEED + 1);
    let begun = Instant::now();
    own.insert(&keys, &VALUE, BATCH);
    output::value(
        system.name(),
        &format!("overwrite/10B/{KEYS}/k{BATCH}"),
        "ns_per_op",
        ns_each(begun.elapsed(), KEYS),
    );
}

/// A get with no value held, and with many.
fn pins(plan: &Plan, system: System) {
    let scratch = plan.scratch();
    let mut own = Own::create(scratch.path(), &settings(system, KEYS));
    let keys = few();
    own.insert(&keys, &VALUE, BATCH);
    let get = |key: &Key| own.map().get(key, Ts::MAX).expect("the map can be read").expect("the key is there");
    for held in [0, PINS] {
        let values: Vec<_> = (0..held).map(|number| get(&keys[number % FEW])).collect();
        let begun = Instant::now();
        for _ in 0..20 {
            keys.iter().for_each(|key| _ = black_box(get(key)[0]));
        }
        output::value(system.name(), &format!("pin/{held}"), "ns_per_op", ns_each(begun.elapsed(), 20 * FEW));
        drop(values);
    }
}

/// Overwrites few keys in a large region while another thread collects without a pause.
fn collect_pause(plan: &Plan, system: System, gib: u64, case: &str) {
    let scratch = plan.scratch();
    let mut settings = settings(system, FEW);
    settings.layout.bytes = gib << 30;
    let mut own = Own::create(scratch.path(), &settings.without_background());
    let keys = few();
    own.insert(&keys, &VALUE, BATCH);
    let map = own.map();
    let done = std::sync::atomic::AtomicBool::new(false);
    let mut took: Vec<f64> = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                map.collect().expect("garbage can be collected");
            }
        });
        let mut ts = map.timestamps().last;
        for number in 0..20 * FEW {
            ts += 1;
            let begun = Instant::now();
            map.set(ts, &keys[number % FEW], &VALUE).expect("there is room");
            took.push(begun.elapsed().as_secs_f64() * 1e6);
            if number % BATCH == 0 {
                map.apply(ts).expect("it is there");
                map.forget(ts).expect("it is applied");
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    took.sort_by(f64::total_cmp);
    output::value(system.name(), case, "worst_us", took[took.len() - 1]);
    // The time that the machine takes from a thread is among the worst; that of a lock is seen
    // before.
    output::value(system.name(), case, "p999_us", took[took.len() - 1 - took.len() / 1000]);
}

fn open(plan: &Plan, system: System) {
    let scratch = plan.scratch();
    let mut settings = settings(system, FEW);
    settings.layout.bytes = 16 << 30;
    let keys = few();
    Own::create(scratch.path(), &settings).insert(&keys, &VALUE, BATCH);
    let medium = medium(scratch.path());
    let begun = Instant::now();
    let own = Own::open(&medium, &Config::default());
    black_box(own.read(&keys[..1]));
    output::value(system.name(), "open/16GiB", "ready_ms", begun.elapsed().as_secs_f64() * 1e3);
}
