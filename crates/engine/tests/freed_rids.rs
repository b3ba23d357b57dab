//! Hazard: a RID is freed twice, so that two later rows share it and a committed one vanishes (I8).
//!
//! A bulk insert with holes in its pages, where a savepoint was rolled back or own rows were
//! deleted, frees their RIDs when it ends. Its rows are visible by then: another transaction may
//! delete some of them, and purge frees their RIDs. So the bulk insert must have collected its
//! holes before it published the pages.

use crate::common::simulated::{audit, pool};
use crate::common::{row_bytes, rows, seeds};
use perdura_engine::{Engine, Isolation, Table};
use perdura_pmem::sim::{Body, Scheduler};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Fills bulk pages and leaves holes in them, three times.
fn load(engine: &Engine, table: &Arc<Table>) {
    let mut txn = engine.session(Isolation::ReadCommitted);
    for round in 0..3 {
        txn.start_statement();
        for number in 0..75 {
            txn.insert(table, &row_bytes(number)).unwrap();
        }
        let savepoint = txn.savepoint();
        let own: Vec<_> = (75..78).map(|number| txn.insert(table, &row_bytes(number)).unwrap()).collect();
        if round == 1 {
            txn.delete(table, own[1]).unwrap();
        } else {
            txn.rollback_to(&savepoint).unwrap();
        }
        txn.commit().unwrap();
    }
}

/// Deletes the newest rows, in pages just published.
fn delete_newest(engine: &Engine, table: &Arc<Table>) {
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.start_statement();
    for (rid, _) in rows(&mut txn, table).into_iter().rev().take(4) {
        txn.delete(table, rid).unwrap();
    }
    txn.commit().unwrap();
}

/// Inserts rows, which take whatever RIDs are free, and asserts that all of them are there.
fn rows_inserted_now_all_stay(engine: &Engine, table: &Arc<Table>, seed: u64) {
    const ROWS: u32 = 60;
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.start_statement();
    let before = rows(&mut txn, table).len();
    let rids: BTreeSet<u64> = (0..ROWS).map(|number| txn.insert(table, &row_bytes(number)).unwrap().row()).collect();
    assert_eq!(rids.len(), ROWS as usize, "seed {seed}: a row was given out twice");
    txn.commit().unwrap();
    txn.start_statement();
    assert_eq!(rows(&mut txn, table).len(), before + ROWS as usize, "seed {seed}: committed rows are missing");
}

#[test]
fn rows_deleted_while_their_bulk_insert_ends_free_their_rids_once() {
    for seed in seeds(150) {
        let (_medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let over = AtomicBool::new(false);
        let bodies: Vec<Body<'_>> = vec![
            Box::new(|| {
                load(&engine, &table);
                over.store(true, Ordering::Relaxed);
            }),
            Box::new(|| {
                while !over.load(Ordering::Relaxed) {
                    delete_newest(&engine, &table);
                }
            }),
            Box::new(|| {
                while !over.load(Ordering::Relaxed) {
                    engine.checkpoint().unwrap();
                    engine.purge();
                }
            }),
        ];
        Scheduler::new(seed).run(bodies);
        rows_inserted_now_all_stay(&engine, &table, seed);
        audit(&engine);
    }
}
