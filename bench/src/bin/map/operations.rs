//! Insert, read and delete: every key once, each phase in another random order.

use perdura_bench::keys::SEED;
use perdura_bench::keys::{self, Key, Shape};
use perdura_bench::measure::{phase, turned};
use perdura_bench::output;
use perdura_bench::plan::Plan;
use perdura_bench::store::Store;
use perdura_bench::system::System;
use std::hint::black_box;
use std::time::Duration;

/// The lengths of values and their names in cases.
pub const VALUES: [(usize, &str); 2] = [(10, "10B"), (1024, "1KiB")];
/// Changes in a batch.
pub const BATCHES: [usize; 2] = [10, 1];
/// The small case.
pub const KEYS: usize = 20_000;
/// Keys of a quick run in place of a million.
pub const LARGE_OF_A_QUICK_RUN: usize = 100_000;
/// Changes in a batch where no time is measured.
pub const REST_BATCH: usize = 10_000;
/// Systems without a time limit.
const QUICK: [System; 3] = [System::List, System::BTree, System::Dram];

/// Every key in three orders.
pub struct Orders {
    /// The order of inserts.
    pub insert: Vec<Key>,
    /// The order of reads.
    pub read: Vec<Key>,
    /// The order of deletions.
    pub delete: Vec<Key>,
}

impl Orders {
    /// The orders of `count` keys.
    pub fn new(count: usize, shape: Shape) -> Orders {
        let order = |number| keys::shuffled(count, shape, SEED + number);
        Orders { insert: order(0), read: order(1), delete: order(2) }
    }
}

/// Nanoseconds for an insert, a read and a delete.
pub type Times = [(&'static str, f64); 3];

/// Inserts, reads and deletes all keys, and times at most `budget` of each phase.
pub fn measure(store: &mut dyn Store, orders: &Orders, value: &[u8], batch: usize, budget: Duration) -> Times {
    let (insert, done) = phase(&orders.insert, budget, |keys| store.insert(keys, value, batch));
    if done < orders.insert.len() {
        store.insert(&orders.insert[done..], value, REST_BATCH);
    }
    let (read, _) = phase(&orders.read, budget, |keys| {
        black_box(store.read(keys));
    });
    let (delete, _) = phase(&orders.delete, budget, |keys| store.delete(keys, batch));
    [("insert", insert), ("read", read), ("delete", delete)]
}

/// All cases: `OPERATION/VALUE/KEYS/kBATCH`, and for own maps those with keys that differ early,
/// named `.../spread`.
pub fn run(plan: &Plan) {
    say_what_peers_do(plan);
    let small = Orders::new(KEYS, Shape::Numbers);
    let budget = plan.pick(Duration::from_secs(10), Duration::from_millis(500));
    for round in plan.rounds(9, 3) {
        let systems = if plan.quick && round > 0 { &QUICK[..] } else { &System::ALL[..] };
        one_round(plan, systems, &small, budget, round);
    }
    drop(small);
    let large = Orders::new(plan.pick(1_000_000, LARGE_OF_A_QUICK_RUN), Shape::Numbers);
    for round in plan.rounds(3, 1) {
        // One round is enough for systems that take minutes.
        let systems = if round > 0 { &QUICK[..] } else { &System::ALL[..] };
        one_round(plan, systems, &large, budget, round);
    }
    drop(large);
    for count in [KEYS, plan.pick(1_000_000, LARGE_OF_A_QUICK_RUN)] {
        let orders = Orders::new(count, Shape::Spread);
        for round in plan.rounds(3, 2) {
            let systems = [System::List, System::BTree, System::Dram];
            for system in turned(&plan.systems(&systems), round) {
                one_case(plan, system, &orders, VALUES[0], BATCHES[0], Duration::MAX, "/spread");
            }
        }
    }
}

fn one_round(plan: &Plan, systems: &[System], orders: &Orders, budget: Duration, round: usize) {
    for value in VALUES {
        for batch in BATCHES {
            for system in turned(&plan.systems(systems), round) {
                let unlimited = QUICK.contains(&system);
                if unlimited || takes_part(plan, system, orders.insert.len(), value.0, batch) {
                    let budget = if unlimited { Duration::MAX } else { budget };
                    one_case(plan, system, orders, value, batch, budget, "");
                }
            }
        }
    }
    output::progress(format_args!("operations, {} keys, round {}", orders.insert.len(), round + 1));
}

/// Whether a system is measured in a case.
fn takes_part(plan: &Plan, system: System, count: usize, value_bytes: usize, batch: usize) -> bool {
    let small = count == KEYS;
    let usual = value_bytes == VALUES[0].0 && batch == BATCHES[0];
    match system {
        // It is no faster than redb and slows down with every commit: one case shows that.
        System::RedbNone => small && usual,
        // The cases that a quick run has time for.
        _ => small || usual || !plan.quick,
    }
}

fn one_case(
    plan: &Plan,
    system: System,
    orders: &Orders,
    (value_bytes, value_name): (usize, &str),
    batch: usize,
    budget: Duration,
    suffix: &str,
) {
    let count = orders.insert.len();
    let scratch = plan.scratch();
    let mut store = system.create(scratch.path(), count, value_bytes, batch);
    for (operation, ns) in measure(&mut *store, orders, &vec![0x5a; value_bytes], batch, budget) {
        let case = format!("{operation}/{value_name}/{count}/k{batch}{suffix}");
        output::value(system.name(), &case, "ns_per_op", ns);
    }
}

fn say_what_peers_do(plan: &Plan) {
    output::note(
        "keys: numbers from 0 in ten decimal digits, shuffled, the same for all; cases .../spread have ten digits spread over all numbers",
    );
    output::note(
        "list, btree: every change has a timestamp of its own; with each batch of k it is persisted, applied and forgotten up to there; background thread on; read is a get at the applied timestamp",
    );
    output::note(
        "lmdb: one commit a batch, written by pwrite and synced (on tmpfs the sync is a call that does nothing)",
    );
    output::note(
        "lmdb_nosync: MDB_WRITEMAP and MDB_NOSYNC, one commit a batch: survives a process crash, not a power loss, of any medium",
    );
    output::note("redb: Durability::Immediate, one commit a batch, written and synced");
    output::note(
        "redb_none: Durability::None, one commit a batch: even a process crash loses them; one Immediate commit a stretch of 20000 keys; 20000 keys of 10 B, k10 only",
    );
    output::note("fjall: one batch with PersistMode::SyncData a batch, its background threads on; deletes blindly");
    output::note("dram: std BTreeMap in DRAM, nothing is kept: what an ordered map costs on this machine at all");
    output::note("peers read in one read transaction for each stretch of 20000 keys, the maps pin for each read");
    let seconds = plan.pick(10.0, 0.5);
    output::note(&format!(
        "a phase of a persistent peer is measured for about {seconds} s at most, whole stretches of 20000 keys; the rest is done in large batches"
    ));
}
