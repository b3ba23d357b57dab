//! Traffic to the medium: fences for each persist, and bytes flushed for each byte of keys and
//! values.
//!
//! `pmem` counts them. The background thread is off, since its fences do not belong to a
//! persist. One more series runs it and overwrites keys, so that it has work; there its bytes
//! count too.

use crate::operations::{BATCHES, KEYS, VALUES};
use perdura_bench::keys::SEED;
use perdura_bench::keys::{self, KEY_BYTES, Key, Shape};
use perdura_bench::output;
use perdura_bench::own::{Own, Settings};
use perdura_bench::plan::Plan;
use perdura_bench::system::System;
use perdura_pmem::counters;

/// Times that each key is overwritten.
const OVERWRITES: usize = 3;

/// `fences/...` and `amplification/...`, of inserts and of overwrites.
pub fn run(plan: &Plan) {
    let keys = keys::shuffled(KEYS, Shape::Numbers, SEED);
    for system in plan.systems(&[System::List, System::BTree]) {
        for (value_bytes, value_name) in VALUES {
            for batch in BATCHES {
                let case = format!("{value_name}/{KEYS}/k{batch}");
                let kind = system.kind().expect("it is a map");
                let settings = Settings::new(kind, KEYS, value_bytes, batch);
                let scratch = plan.scratch();
                let mut own = Own::create(scratch.path(), &settings.without_background());
                let value = vec![0x5a; value_bytes];
                let (fences, ratio) = count(&mut own, &keys, &value, batch);
                output::value(system.name(), &format!("fences/{case}"), "fences_per_persist", fences);
                output::value(system.name(), &format!("amplification/{case}"), "ratio", ratio);
                drop(own);
                drop(scratch);

                let scratch = plan.scratch();
                let mut own = Own::create(scratch.path(), &settings);
                count(&mut own, &keys, &value, batch);
                let ratios: Vec<f64> = (0..OVERWRITES).map(|_| count(&mut own, &keys, &value, batch).1).collect();
                let mean = ratios.iter().sum::<f64>() / OVERWRITES as f64;
                output::value(system.name(), &format!("amplification/overwrite/{case}"), "ratio", mean);
            }
        }
    }
}

/// Sets every key in full batches. Returns the fences for each persist and the bytes flushed
/// for each byte of keys and values.
fn count(own: &mut Own, keys: &[Key], value: &[u8], batch: usize) -> (f64, f64) {
    let before = counters();
    for (index, key) in keys.iter().enumerate() {
        own.set(key, value, (index + 1) % batch == 0);
    }
    let spent = counters().since(&before);
    let given = keys.len() * (KEY_BYTES + value.len());
    let flushed = spent.flushed_bytes() + spent.nt_bytes;
    (spent.fences as f64 / (keys.len() / batch) as f64, flushed as f64 / given as f64)
}
