//! Hazard: a large transaction leaves the memory of its locks, its write set and its superseded
//! versions with the process for as long as the server runs, even after its table is dropped. It
//! was a gigabyte for four million rows.
//!
//! The test counts every allocation of its process, so it is alone in its file.

mod common;

use common::counting::{Counting, live};
use common::small;
use perdura_engine::{Config, Engine, Isolation, LogConfig};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_large_transaction_leaves_no_memory_behind() {
    const ROWS: usize = 100_000;
    let directory = common::directory();
    let config = Config {
        log: LogConfig { lanes: 2, lane_bytes: 4 << 20, generations: 2, generations_max: 4, ..LogConfig::default() },
        data_file_bytes: 16 << 20,
        first_file_bytes: 1 << 20,
        segment_bytes: 64 << 10,
        page_words: 512,
        ..small()
    };
    let engine = Engine::open(common::files(&directory), config).unwrap();
    let mut txn = engine.session(Isolation::RepeatableRead);
    let mut run = |rows: usize| {
        let table = engine.create_table("t", b"").unwrap();
        let rids: Vec<_> = (0..rows).map(|_| txn.insert(&table, &[1; 20]).unwrap()).collect();
        txn.commit().unwrap();
        let idle = live();
        for rid in &rids {
            txn.update(&table, *rid, &[2; 20]).unwrap();
        }
        let most = live();
        txn.start_statement();
        for rid in &rids {
            txn.update(&table, *rid, &[3; 20]).unwrap();
        }
        txn.commit().unwrap();
        for _ in 0..2 {
            engine.checkpoint().unwrap();
            engine.purge();
        }
        let purged = live();
        drop(rids);
        engine.drop_table("t").unwrap();
        drop(table);
        (idle, most, purged)
    };
    run(1000);
    let before = live();
    let (idle, most, purged) = run(ROWS);
    let after = live();
    assert!(most - idle < ROWS as u64 * 16, "the transaction had {} bytes", most - idle);
    // The maps of the table's cells may stay, some 4 bytes a row.
    assert!(purged < idle + ROWS as u64 * 4, "{} bytes stay with the table", purged - idle);
    assert!(after < before + (64 << 10), "{} bytes stay with the process", after - before);
}
