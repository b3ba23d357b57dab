//! Ordered indexes in DRAM that the list could have used instead of its own: the same keys in the
//! same orders, without records, persists or anything persistent. The list's own operations,
//! which include all that, are measured beside them.

use crate::operations::{KEYS, LARGE_OF_A_QUICK_RUN, Orders, measure};
use perdura_bench::dram;
use perdura_bench::keys::{Key, Shape};
use perdura_bench::measure::{ns_each, turned};
use perdura_bench::output;
use perdura_bench::peers::index::{self, Entry, Index, Record};
use perdura_bench::plan::Plan;
use perdura_bench::system::System;
use std::hint::black_box;
use std::time::{Duration, Instant};

const VALUE: [u8; 10] = [0x5a; 10];
const BATCH: usize = 10;

/// `index/OPERATION/KEYS`, `ns_per_op`, and `index/KEYS`, `dram_bytes_per_key`.
pub fn run(plan: &Plan) {
    for count in [KEYS, plan.pick(1_000_000, LARGE_OF_A_QUICK_RUN)] {
        let orders = Orders::new(count, Shape::Numbers);
        let records = Records::new(&orders);
        let names: Vec<&str> = index::all().map(|(name, _)| name).to_vec();
        let systems: Vec<Option<&str>> = names.into_iter().map(Some).chain([None]).collect();
        for round in plan.rounds(5, 2) {
            for system in turned(&systems, round) {
                match system {
                    Some(name) => one_index(name, &records, count),
                    None if plan.own => the_list(plan, &orders),
                    None => {}
                }
            }
        }
    }
}

/// Records and lookup keys with the `'static` lifetime that the indexes require.
struct Records {
    insert: &'static [Record],
    read: &'static [Record],
    delete: &'static [Record],
}

impl Records {
    fn new(orders: &Orders) -> Records {
        let leak = |keys: &[Key]| &*keys.iter().copied().map(Record).collect::<Vec<_>>().leak();
        Records { insert: leak(&orders.insert), read: leak(&orders.read), delete: leak(&orders.delete) }
    }
}

fn one_index(name: &str, records: &Records, count: usize) {
    dram::start();
    let (_, index) = index::all().into_iter().find(|(other, _)| *other == name).expect("it was listed");
    let report = |operation: &str, begun: Instant| {
        output::value(name, &format!("index/{operation}/{count}"), "ns_per_op", ns_each(begun.elapsed(), count));
    };
    let begun = Instant::now();
    records.insert.iter().for_each(|record| index.insert(Entry::new(record)));
    report("insert", begun);
    let bytes = dram::live_bytes() as f64 / count as f64;
    dram::stop();
    output::value(name, &format!("index/{count}"), "dram_bytes_per_key", bytes);
    let begun = Instant::now();
    look_up(&*index, records.read);
    report("read", begun);
    let begun = Instant::now();
    records.delete.iter().for_each(|record| index.remove(&Entry::new(record)));
    report("delete", begun);
}

fn look_up(index: &dyn Index, records: &'static [Record]) {
    for record in records {
        black_box(index.find(&Entry::new(record)).address());
    }
}

fn the_list(plan: &Plan, orders: &Orders) {
    let count = orders.insert.len();
    let scratch = plan.scratch();
    let mut store = System::List.create(scratch.path(), count, VALUE.len(), BATCH);
    for (operation, ns) in measure(&mut *store, orders, &VALUE, BATCH, Duration::MAX) {
        output::value(System::List.name(), &format!("index/{operation}/{count}"), "ns_per_op", ns);
    }
}
