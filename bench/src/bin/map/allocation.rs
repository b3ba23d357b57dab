//! The maps' allocator beside libpmemobj's: 64 bytes that become durably reachable, one or ten at a
//! time.
//!
//! libpmemobj allocates an object in a transaction and links it to a list. The maps insert a key
//! and a value of 64 bytes together, so they also keep an order.

use perdura_bench::keys::SEED;
use perdura_bench::keys::{self, KEY_BYTES, Shape};
use perdura_bench::measure::{ns_each, turned};
use perdura_bench::output;
use perdura_bench::peers::pmemobj::{FORCE, OBJECT_BYTES, Pool};
use perdura_bench::plan::Plan;
use perdura_bench::system::System;
use std::time::Instant;

/// Upper bound of a pool's bytes for each object.
const POOL_BYTES: usize = 512;

/// `alloc/64B/k1` and `alloc/64B/k10`; nanoseconds an object.
pub fn run(plan: &Plan) {
    let forced = std::env::var_os(FORCE).is_some_and(|value| value == "1");
    output::note(&format!(
        "pmemobj: pmemobj_tx_alloc of 64 B linked into a list whose root the undo log guards; {FORCE}=1 {}",
        if forced { "set: it flushes and fences" } else { "NOT set: it may call msync" }
    ));
    let count = plan.pick(200_000, 50_000);
    let keys = keys::shuffled(count, Shape::Numbers, SEED);
    let value = [0x5a; OBJECT_BYTES - KEY_BYTES];
    let systems = [None, Some(System::List), Some(System::BTree)];
    for round in plan.rounds(5, 3) {
        for batch in [1, 10] {
            for system in turned(&systems, round) {
                let scratch = plan.scratch();
                let case = format!("alloc/64B/k{batch}");
                match system {
                    None => {
                        let mut pool = Pool::create(scratch.path(), (64 << 20) + count * POOL_BYTES);
                        let begun = Instant::now();
                        pool.link(count, batch);
                        output::value("pmemobj", &case, "ns_per_op", ns_each(begun.elapsed(), count));
                        assert_eq!(pool.len(), count, "every object is in the list");
                    }
                    Some(system) if plan.own => {
                        let mut store = system.create(scratch.path(), count, value.len(), batch);
                        let begun = Instant::now();
                        store.insert(&keys, &value, batch);
                        output::value(system.name(), &case, "ns_per_op", ns_each(begun.elapsed(), count));
                    }
                    Some(_) => {}
                }
            }
        }
    }
}
