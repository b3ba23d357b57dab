//! Hazard: a pool of a hundred thousand tables takes gigabytes of DRAM for tables that nobody uses.
//!
//! The test counts every allocation of its process, so it is alone in its file.

mod common;

use common::counting::{Counting, live};
use common::{row_bytes, small};
use perdura_engine::{Config, Engine, Isolation};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_closed_table_takes_some_hundred_bytes() {
    const TABLES: u64 = 1000;
    const DEFINITION: usize = 600;
    let directory = common::directory();
    let config = Config { first_file_bytes: 16 << 10, open_files: 8, ..small() };
    let engine = Engine::open(common::files(&directory), config).unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut create = |number: u64| {
        let table = engine.create_table(&format!("database/table{number:05}"), &[7; DEFINITION]).unwrap();
        for row in 0..10 {
            txn.insert(&table, &row_bytes(row)).unwrap();
        }
        txn.commit().unwrap();
        engine.checkpoint().unwrap();
        engine.purge();
    };
    (0..100).for_each(&mut create);
    let before = live();
    (100..100 + TABLES).for_each(&mut create);
    let each = (live() - before) / TABLES;
    assert!(each < DEFINITION as u64 + 700, "{each} bytes for each table, {DEFINITION} of them its definition");
}
