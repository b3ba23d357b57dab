//! Space in use after every key was overwritten ten times, as a multiple of the live bytes.

use crate::operations::VALUES;
use perdura_bench::keys::SEED;
use perdura_bench::keys::{self, KEY_BYTES, Shape};
use perdura_bench::output;
use perdura_bench::own::{Own, Settings};
use perdura_bench::plan::Plan;
use perdura_bench::store::Store;
use perdura_bench::system::System;

const OVERWRITES: u64 = 10;
/// Calls after which the collector must have found all garbage.
const COLLECTIONS: usize = 100;

/// `space/VALUE/KEYS`: `space_ratio`, used bytes by live bytes when the last overwrite is
/// persisted; `space_collected_ratio`, the same when the collector is done; `space_given_ratio`,
/// then by the bytes of keys and values.
pub fn run(plan: &Plan) {
    let count = plan.pick(100_000, 20_000);
    for system in plan.systems(&[System::List, System::BTree]) {
        for (value_bytes, value_name) in VALUES {
            let kind = system.kind().expect("it is a map");
            let scratch = plan.scratch();
            let mut own = Own::create(scratch.path(), &Settings::new(kind, 2 * count, value_bytes, 10));
            let value = vec![0x5a; value_bytes];
            let mut keys = keys::shuffled(count, Shape::Numbers, SEED);
            for round in 0..=OVERWRITES {
                keys::shuffle(&mut keys, SEED + round);
                own.insert(&keys, &value, 10);
            }
            let case = format!("space/{value_name}/{count}");
            let report = |metric: &str, bytes: u64, by: u64| {
                output::value(system.name(), &case, metric, bytes as f64 / by as f64);
            };
            let space = own.map().space();
            report("space_ratio", space.used, space.live);
            for _ in 0..COLLECTIONS {
                if own.map().collect().expect("garbage can be collected") == 0 {
                    break;
                }
            }
            let space = own.map().space();
            report("space_collected_ratio", space.used, space.live);
            report("space_given_ratio", space.used, (count * (KEY_BYTES + value_bytes)) as u64);
        }
    }
}
