//! The physical floor: a line stored, flushed and fenced.

use perdura_bench::measure::ns_each;
use perdura_bench::output;
use perdura_bench::own::medium;
use perdura_bench::plan::Plan;
use perdura_pmem::LINE_BYTES;
use std::time::Instant;

/// Larger than a core's own caches, as a map is.
const REGION_BYTES: u64 = 16 << 20;

/// `persist_floor_ns`: 64 bytes stored through `pmem` and persisted, one line after the other.
pub fn run(plan: &Plan) {
    let scratch = plan.scratch();
    let medium = medium(scratch.path());
    let region = medium.create("floor", REGION_BYTES).expect("there is room");
    let line = [0x5a_u8; LINE_BYTES as usize];
    let lines = (REGION_BYTES / LINE_BYTES) as usize;
    // The first round maps the pages and does not count.
    for round in 0..=plan.pick(5, 3) {
        let begun = Instant::now();
        for number in 0..lines as u64 {
            region.write(number * LINE_BYTES, &line);
            region.persist(number * LINE_BYTES, LINE_BYTES);
        }
        if round > 0 {
            output::value("pmem", "persist/64B", "persist_floor_ns", ns_each(begun.elapsed(), lines));
        }
    }
}
