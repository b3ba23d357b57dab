//! Hazard: a row larger than a data file is refused. Files have 64 MiB, so documents and images of
//! a hundred megabytes were refused, though a BLOB may have 2 GiB.

use crate::common;

use perdura_engine::{Config, Engine, ErrorKind, Isolation, LogConfig};
use perdura_pmem::Medium;
use std::sync::Arc;

const GIB: usize = 1 << 30;

/// Inserts a row of a gibibyte, finds it after a restart, deletes it, and reuses the room of its
/// file.
#[test]
fn a_row_may_have_a_gibibyte() {
    let directory = common::directory();
    let open = || -> (Arc<dyn Medium>, Engine) {
        let medium: Arc<dyn Medium> = common::files(&directory);
        let config = Config {
            log: LogConfig {
                lanes: 1,
                lane_bytes: 1 << 20,
                generations: 2,
                generations_max: 2,
                ..LogConfig::default()
            },
            prefault: false,
            background: false,
            ..Config::default()
        };
        let engine = Engine::open(medium.clone(), config).unwrap();
        (medium, engine)
    };
    let (medium, engine) = open();
    if medium.free_bytes().is_some_and(|free| free < 2 * GIB as u64) {
        println!("skipped: less than 2 GiB are free");
        return;
    }
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    // Zeroes that are never touched take no memory.
    let mut row = vec![0u8; GIB];
    row[0] = 1;
    row[GIB / 2] = 2;
    row[GIB - 1] = 3;
    let rid = txn.insert(&table, &row).unwrap();
    txn.commit().unwrap();
    drop((txn, table, engine, medium));

    // Redo verifies the checksum of the row.
    let (medium, engine) = open();
    let table = engine.table("t").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut scan = txn.scan(&table);
    let (found, stored) = scan.next(&txn).unwrap().expect("the row");
    // SAFETY: the statement has not ended.
    let bytes = unsafe { stored.bytes() };
    assert!(found == rid && bytes == row);
    drop(scan);
    txn.end_statement();
    txn.delete(&table, rid).unwrap();
    txn.commit().unwrap();
    engine.checkpoint().unwrap();
    engine.purge();
    let data_bytes = table.data_bytes();
    let rid = txn.insert(&table, &row[..GIB - 100]).unwrap();
    txn.commit().unwrap();
    assert_eq!(table.data_bytes(), data_bytes, "the file is used again");

    // A statement for which there is no room fails alone.
    let free = medium.free_bytes().unwrap_or(u64::MAX);
    if (free as usize) < GIB {
        let error = txn.update(&table, rid, &row).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceFull, "{error}");
        txn.rollback().unwrap();
    }
    drop(row);
    let too_long = vec![0u8; 1 << 31];
    let error = txn.insert(&table, &too_long).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RowTooLarge, "{error}");
    drop((txn, table));
    engine.drop_table("t").unwrap();
}
