//! The collector's cost for a writer: latencies of single overwrites with and without the
//! background thread.

use perdura_bench::keys::SEED;
use perdura_bench::keys::{self, Key, Shape};
use perdura_bench::measure::{percentile, turned};
use perdura_bench::output;
use perdura_bench::own::{Own, Settings};
use perdura_bench::plan::Plan;
use perdura_bench::store::Store;
use perdura_bench::system::System;
use std::time::Instant;

const VALUE: [u8; 10] = [0x5a; 10];
const BATCH: usize = 10;
/// Times that each key is overwritten.
const OVERWRITES: usize = 5;
/// The region has room for all records, so that a map without its collector never needs it.
const ROOM: usize = 2 * (OVERWRITES + 1);

/// `overwrite/10B/KEYS/k10`: `p50_on_ns`, `p99_on_ns` with the collector, `p50_off_ns`,
/// `p99_off_ns` without it.
pub fn run(plan: &Plan) {
    let count = plan.pick(100_000, 20_000);
    let keys = keys::shuffled(count, Shape::Numbers, SEED);
    let case = format!("overwrite/10B/{count}/k{BATCH}");
    for system in plan.systems(&[System::List, System::BTree]) {
        for round in plan.rounds(5, 3) {
            for (background, [median, tail]) in
                turned(&[(true, ["p50_on_ns", "p99_on_ns"]), (false, ["p50_off_ns", "p99_off_ns"])], round)
            {
                let kind = system.kind().expect("it is a map");
                let mut settings = Settings::new(kind, count * ROOM, VALUE.len(), BATCH);
                settings.config.background = background;
                let scratch = plan.scratch();
                let mut own = Own::create(scratch.path(), &settings);
                own.insert(&keys, &VALUE, BATCH);
                let mut latencies = overwrite(&mut own, &keys);
                output::value(system.name(), &case, median, percentile(&mut latencies, 0.5));
                output::value(system.name(), &case, tail, percentile(&mut latencies, 0.99));
                let name = if background { "used_on_mib" } else { "used_off_mib" };
                output::value(system.name(), &case, name, own.map().space().used as f64 / f64::from(1 << 20));
            }
        }
    }
}

/// Nanoseconds of each overwrite, the closing of its batch included.
fn overwrite(own: &mut Own, keys: &[Key]) -> Vec<u32> {
    let mut latencies = Vec::with_capacity(keys.len() * OVERWRITES);
    for round in 0..OVERWRITES as u64 {
        let mut keys = keys.to_vec();
        keys::shuffle(&mut keys, SEED + round);
        for (index, key) in keys.iter().enumerate() {
            let begun = Instant::now();
            own.set(key, &VALUE, (index + 1) % BATCH == 0);
            latencies.push(begun.elapsed().as_nanos().min(u128::from(u32::MAX)) as u32);
        }
    }
    latencies
}
