//! Hazard: a scan reads a directory page as far as it is in use, and stops short of a row.
//!
//! The mark is DRAM. It rises before a RID is given out, so whatever a snapshot sees lies below it:
//! also beside threads that insert while others scan, in pages that were given back and taken
//! again, and after a restart, when a sweep finds anew how far a page is in use, and prepared
//! transactions still have rows behind its last word.

use crate::common;

use crate::common::simulated::{audit, pool};
use crate::common::{reopen, row_bytes, rows, seeds};
use perdura_engine::{Engine, Isolation, Rid, Table};
use perdura_pmem::sim::{Body, Random, Scheduler};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn scanned(engine: &Engine, table: &Arc<Table>) -> BTreeSet<Rid> {
    let mut txn = engine.session(Isolation::ReadCommitted);
    rows(&mut txn, table).into_iter().map(|(rid, _)| rid).collect()
}

#[test]
fn a_sweep_leaves_the_rows_of_prepared_transactions_in_use() {
    let (medium, engine) = common::pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut expected: BTreeSet<Rid> = (0..4).map(|number| txn.insert(&table, &row_bytes(number)).unwrap()).collect();
    txn.commit().unwrap();
    // Far behind the last word that is stored, in the same page and in one of their own.
    let behind: Vec<Rid> = (0..60).map(|number| txn.insert(&table, &row_bytes(number)).unwrap()).collect();
    txn.prepare(b"behind").unwrap();
    drop((txn, table, engine));

    let engine = reopen(&medium);
    let table = engine.table("t").unwrap();
    assert_eq!(scanned(&engine, &table), expected);
    engine.sweep().unwrap();
    assert_eq!(scanned(&engine, &table), expected);
    assert!(engine.commit_prepared(b"behind").unwrap());
    expected.extend(behind);
    assert_eq!(scanned(&engine, &table), expected);
    let mut txn = engine.session(Isolation::ReadCommitted);
    for number in 0..70 {
        expected.insert(txn.insert(&table, &row_bytes(number)).unwrap());
        assert_eq!(rows(&mut txn, &table).len(), expected.len());
    }
    txn.commit().unwrap();
    assert_eq!(scanned(&engine, &table), expected);
    audit(&engine);
}

/// Inserts up to 100 rows at once and deletes most again, so that pages are filled singly and as a
/// whole, given back and taken.
fn churn(engine: &Engine, table: &Arc<Table>, seed: u64, kept: &AtomicUsize) {
    let mut random = Random::new(seed);
    let mut txn = engine.session(Isolation::ReadCommitted);
    for _ in 0..6 {
        txn.start_statement();
        let count = if random.one_in(3) { 100 } else { 1 + random.below(20) };
        let rids: Vec<Rid> = (0..count).map(|number| txn.insert(table, &row_bytes(number as u32)).unwrap()).collect();
        txn.commit().unwrap();
        txn.start_statement();
        let stay = random.below(3).min(count) as usize;
        for rid in &rids[..rids.len() - stay] {
            txn.delete(table, *rid).unwrap();
        }
        txn.commit().unwrap();
        kept.fetch_add(stay, Ordering::Relaxed);
        engine.checkpoint().unwrap();
        engine.purge();
    }
}

#[test]
fn a_scan_beside_inserts_misses_no_row_that_was_committed_before_it() {
    for seed in seeds(40) {
        let (_medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let (kept, running) = (AtomicUsize::new(0), AtomicUsize::new(2));
        let writer = |seed| {
            let (engine, table, kept, running) = (&engine, &table, &kept, &running);
            move || {
                churn(engine, table, seed, kept);
                running.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let bodies: Vec<Body<'_>> = vec![
            Box::new(writer(seed)),
            Box::new(writer(!seed)),
            Box::new(|| {
                while running.load(Ordering::Relaxed) > 0 {
                    let least = kept.load(Ordering::Relaxed);
                    assert!(scanned(&engine, &table).len() >= least, "seed {seed}: committed rows are missing");
                    engine.checkpoint().unwrap();
                }
            }),
        ];
        Scheduler::new(seed).run(bodies);
        assert_eq!(scanned(&engine, &table).len(), kept.load(Ordering::Relaxed), "seed {seed}");
        audit(&engine);
    }
}
