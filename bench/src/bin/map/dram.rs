//! DRAM of a map: for each key, beyond what the empty map takes for its region. All regions are
//! equally large.

use crate::operations::VALUES;
use perdura_bench::keys::SEED;
use perdura_bench::keys::{self, Shape};
use perdura_bench::own::{Own, Settings};
use perdura_bench::plan::Plan;
use perdura_bench::store::Store;
use perdura_bench::system::System;
use perdura_bench::{dram, output};

/// `dram/VALUE/KEYS`: `dram_bytes_per_key`, and of the empty map `dram_bytes_per_mib` of its
/// region.
pub fn run(plan: &Plan) {
    let count = plan.pick(200_000, 50_000);
    let keys = keys::shuffled(count, Shape::Numbers, SEED);
    let longest = VALUES.iter().map(|(bytes, _)| *bytes).max().expect("there are values");
    for system in plan.systems(&[System::List, System::BTree]) {
        for (value_bytes, value_name) in VALUES {
            let kind = system.kind().expect("it is a map");
            let settings = Settings::new(kind, count, longest, 10).without_background();
            let scratch = plan.scratch();
            let value = vec![0x5a; value_bytes];
            dram::start();
            let mut own = Own::create(scratch.path(), &settings);
            let empty = dram::live_bytes() as f64;
            own.insert(&keys, &value, 10);
            let grown = dram::live_bytes() as f64 - empty;
            dram::stop();
            let case = format!("dram/{value_name}/{count}");
            output::value(system.name(), &case, "dram_bytes_per_key", grown / count as f64);
            let region_mib = settings.layout.bytes as f64 / f64::from(1 << 20);
            output::value(system.name(), &case, "dram_bytes_per_mib", empty / region_mib);
        }
    }
}
