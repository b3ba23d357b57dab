//! Hazard: beside a transaction that moves rows in an index, a scan that locks rows keeps more DRAM
//! than docs/transactions.md says: its key and some 100 bytes for each row that has moved, however
//! often it moves on, and nothing once the scan has ended. For a row that a descending list finds
//! by its whole key, some 60 bytes, however long the key is.

mod common;

use common::counting::{Counting, live};
use common::keyed::roomy;
use perdura_engine::{Direction, Engine, IndexDefinition, Isolation, Key, Rid, ScanBuffers, Table};
use perdura_pmem::SimMedium;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROWS: u64 = 2000;
const KEY_BYTES: usize = 300;
/// Some 100 bytes for each row: what the two trees take, half full, and the head of the key.
const BESIDE_KEY: u64 = 150;
/// Of a row found by its key: its number in a tree that is half full.
const FOUND_BYTES: u64 = 80;

/// Held by the test that counts.
///
/// The tests count every allocation of their process, so they are alone in their file, and run one
/// after the other.
static COUNTS: Mutex<()> = Mutex::new(());

/// A key of the `round`-th kind, all of which lie above those of the kind before.
fn key(round: u8, number: u64) -> [u8; KEY_BYTES] {
    let mut key = [round; KEY_BYTES];
    key[1..9].copy_from_slice(&number.to_be_bytes());
    key
}

/// A table of rows with keys of the first kind, and the rows.
fn filled() -> (Engine, Arc<Table>, Vec<Rid>) {
    let engine = Engine::open(Arc::new(SimMedium::new()), roomy()).unwrap();
    let definition = IndexDefinition { unique: false, key_bytes: KEY_BYTES as u16 };
    let table = engine.create_table_with("t", b"", &[definition]).unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let insert = |number| txn.insert_with(&table, b"row", &[Key { bytes: &key(0, number), may_repeat: true }]).unwrap();
    let rows = (0..ROWS).map(insert).collect();
    txn.commit().unwrap();
    (engine, table, rows)
}

#[test]
fn rows_that_a_descending_list_finds_take_some_bytes_each() {
    let _alone = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let (engine, table, rows) = filled();
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.start_statement();
    let mut scan = txn.index(&table, 0).scan_to_lock(ScanBuffers::default());
    scan.seek(&txn, Bound::Unbounded, Direction::Forward).unwrap();
    let begun = live();
    for _ in 0..2 {
        rows.iter().rev().for_each(|rid| scan.note_found(*rid));
    }
    let most = live() - begun;
    assert!(most < ROWS * FOUND_BYTES, "{} bytes a row", most / ROWS);
    // Each of them, or the test counts nothing.
    assert!(most > ROWS * 8, "{} bytes a row", most / ROWS);
    assert!(!scan.forward(&txn).unwrap(), "each row was found");
    drop(scan.into_buffers());
    assert!(live() < begun + (64 << 10), "{} bytes stay", live() - begun);
    txn.end_statement();
}

#[test]
fn rows_that_move_on_take_their_key_and_some_bytes_each() {
    let _alone = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let (engine, table, _) = filled();
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.start_statement();
    let mut scan = txn.index(&table, 0).scan_to_lock(ScanBuffers::default());
    scan.seek(&txn, Bound::Unbounded, Direction::Forward).unwrap();
    let mut most = 0;
    let begun = live();
    for round in 0..3u8 {
        for number in 0..ROWS {
            assert!(scan.forward(&txn).unwrap(), "round {round}: each row is met again, the last at row {number}");
            assert_eq!(scan.key(), key(round, number), "round {round}");
            // It has moved ahead by the time that it is locked.
            assert!(!scan.is_offered_moved(&key(round + 1, number), Direction::Forward));
            most = most.max(live() - begun);
        }
    }
    assert!(most < ROWS * (KEY_BYTES as u64 + BESIDE_KEY), "{} bytes a row", most / ROWS);
    // All of them, or the test counts nothing.
    assert!(most > ROWS * KEY_BYTES as u64, "{} bytes a row", most / ROWS);
    drop(scan.into_buffers());
    assert!(live() < begun + (64 << 10), "{} bytes stay", live() - begun);
    txn.end_statement();
}
