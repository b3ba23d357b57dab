//! Hazard: tables that hold little take much. An empty table had a file of a mebibyte, so that
//! three thousand of them took three gibibytes, and kilobytes of DRAM for lists that it did not
//! need.
//!
//! The test counts every allocation of its process, so it is alone in its file.

mod common;

use common::counting::{Counting, live};
use perdura_engine::{Config, Engine, Isolation, LogConfig};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TABLES: u64 = 100;

/// Most bytes of DRAM that an open table of up to ten rows takes.
const DRAM_BYTES_MAX: u64 = 8 << 10;

#[test]
fn a_table_of_few_rows_takes_little() {
    let directory = common::directory();
    let config = Config {
        log: LogConfig { lanes: 2, lane_bytes: 1 << 20, generations: 2, generations_max: 4, ..LogConfig::default() },
        prefault: false,
        background: false,
        ..Config::default()
    };
    let open = || Engine::open(common::files(&directory), config.clone()).unwrap();
    let start = live();
    let engine = open();
    engine.create_table("the first", b"").unwrap();
    let bare = live();
    for number in 0..TABLES {
        engine.create_table(&format!("t{number}"), b"").unwrap();
    }
    let per_table = |before: u64| live().saturating_sub(before) / TABLES;
    let empty = per_table(bare);
    let mut txn = engine.session(Isolation::ReadCommitted);
    for table in engine.tables().unwrap() {
        for number in 0..10 {
            txn.insert(&table, &[number; 200]).unwrap();
        }
        txn.commit().unwrap();
        assert!(table.data_bytes() <= 64 << 10, "files of {} bytes", table.data_bytes());
    }
    drop(txn);
    engine.checkpoint().unwrap();
    let filled = per_table(bare);
    engine.close();
    drop(engine);
    let pool = live() + bare - start;
    let engine = open();
    engine.sweep().unwrap();
    let opened = per_table(pool);
    println!("bytes of DRAM for each table: {empty} empty, {filled} with ten rows, {opened} opened again");
    for bytes in [empty, filled, opened] {
        assert!(bytes <= DRAM_BYTES_MAX, "{empty} empty, {filled} with ten rows, {opened} opened again");
    }
}
