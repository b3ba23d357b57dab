//! `copy/64B`: the ways to copy or set bytes, one thread, one piece after the other in 16 MiB
//! (NF-log, SNU 2022, 2.3).

use crate::place::{Pattern, Places, size_name};
use crate::writes::report;
use perdura_bench::measure::{ns_each, turned};
use perdura_bench::own::medium;
use perdura_bench::plan::Plan;
use perdura_pmem::Region;
use std::hint::black_box;
use std::time::Instant;

const SIZES: [usize; 5] = [64, 512, 1 << 10, 4 << 10, 32 << 10];
const BYTES: u64 = 16 << 20;

/// A way to copy bytes to an offset.
type Copy<'a> = Box<dyn FnMut(u64, &[u8]) + 'a>;

/// Every way in every size.
pub fn run(plan: &Plan) {
    let scratch = plan.scratch();
    let medium = medium(scratch.path());
    let region = medium.create("copies", BYTES).expect("there is room");
    region.zero(0, BYTES);
    let mut dram = vec![0_u8; BYTES as usize];
    for (round, size) in (0..plan.pick(9, 3)).flat_map(|round| SIZES.map(|size| (round, size))) {
        for way in turned(&["dram", "cached", "flush", "nt", "set_nt"], round) {
            let mut ways = ways(&region, &mut dram);
            let (_, copy) = ways.iter_mut().find(|(name, _)| *name == way).expect("it is one of them");
            report(way, &format!("copy/{}", size_name(size)), size, timed(size, copy));
        }
    }
}

/// The ways by name: a copy in DRAM, which keeps nothing; one through the cache that is never
/// flushed; flushed; past the cache; and zeros set past the cache. Those that persist end in a
/// fence.
fn ways<'a>(region: &'a Region, dram: &'a mut [u8]) -> [(&'static str, Copy<'a>); 5] {
    [
        ("dram", Box::new(|offset, source| dram[offset as usize..][..source.len()].copy_from_slice(source))),
        ("cached", Box::new(|offset, source| region.write(offset, source))),
        (
            "flush",
            Box::new(|offset, source| {
                region.write(offset, source);
                region.persist(offset, source.len() as u64);
            }),
        ),
        (
            "nt",
            Box::new(|offset, source| {
                region.write_nt(offset, source);
                region.fence();
            }),
        ),
        (
            "set_nt",
            Box::new(|offset, source| {
                region.zero(offset, source.len() as u64);
                region.fence();
            }),
        ),
    ]
}

/// Nanoseconds a copy.
fn timed(size: usize, copy: &mut Copy<'_>) -> f64 {
    let source = vec![0x5a; size];
    let mut places = Places::new(Pattern::Sequential, size as u64, BYTES, 0);
    let count = BYTES as usize / size;
    let begun = Instant::now();
    for _ in 0..count {
        copy(places.next(), black_box(&source));
    }
    ns_each(begun.elapsed(), count)
}
