//! `512B/seq/1t/local` and `.../remote`: a thread writes from the NUMA node of the file's memory,
//! and from another one (NF-log, SNU 2022, 1.3.2). Only where there are two nodes.

use crate::place::{Pattern, Places, size_name};
use crate::writes::{Target, Way, report};
use perdura_bench::measure::ns_each;
use perdura_bench::output;
use perdura_bench::own::medium;
use perdura_bench::plan::Plan;
use perdura_pmem::numa::{nodes, pin_to_node};
use std::time::{Duration, Instant};

const SIZES: [usize; 3] = [64, 512, 4 << 10];
const FILE_BYTES: u64 = 16 << 20;

/// Both nodes in turn.
pub fn run(plan: &Plan) {
    let nodes = nodes();
    let [home, other, ..] = nodes[..] else {
        output::note("one NUMA node: no access is remote (a model such as optane@1 charges for it)");
        return;
    };
    let scratch = plan.scratch();
    let medium = medium(scratch.path());
    // Memory of a file system in DRAM lies on the node of the thread that touches it first.
    let create = || Target::create(&*medium, scratch.path(), 0, FILE_BYTES);
    let target = on_node(home, create);
    let span = plan.pick(Duration::from_millis(100), Duration::from_millis(20));
    for (size, way) in SIZES.into_iter().flat_map(|size| [Way::NonTemporal, Way::Flush].map(|way| (size, way))) {
        for _ in 0..plan.pick(9, 3) {
            for (node, place) in [(home, "local"), (other, "remote")] {
                let (count, took) = on_node(node, || {
                    let mut places = Places::new(Pattern::Sequential, size as u64, FILE_BYTES, 0);
                    let begun = Instant::now();
                    let (count, ended) = target.write_until(way, &mut places, &vec![0x5a; size], begun + span);
                    (count, ended - begun)
                });
                report(way.name(), &format!("{}/seq/1t/{place}", size_name(size)), size, ns_each(took, count));
            }
        }
    }
}

/// Runs a call on a thread pinned to a node.
fn on_node<T: Send>(node: u32, run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let pinned = scope.spawn(move || {
            assert!(pin_to_node(node), "node {node} has processors");
            run()
        });
        pinned.join().expect("nobody panics")
    })
}
