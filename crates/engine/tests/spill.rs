//! Hazard: a transaction whose write set was spilled loses a row, leaks space, or takes DRAM
//! without bound. Words of its rows go to the medium and come back, through savepoints, commit,
//! rollback, prepare and crashes (I6).

use crate::common::simulated::{audit, survives};
use crate::common::{rows, small};
use perdura_engine::{Config, Engine, Isolation, LogConfig, ReadView, Rid, Session, Table};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

const ROWS: u32 = 12_000;

fn config() -> Config {
    let log = LogConfig { lane_bytes: 256 << 10, ..small().log };
    Config {
        log,
        transaction_memory: 64 << 10,
        segment_bytes: 64 << 10,
        first_file_bytes: 1 << 20,
        data_file_bytes: 4 << 20,
        ..small()
    }
}

fn open(medium: &Arc<SimMedium>) -> Engine {
    Engine::open(medium.clone() as Arc<dyn Medium>, config()).unwrap()
}

fn row(number: u32, version: u32) -> Vec<u8> {
    format!("{number:06} {version} {}", "x".repeat((number % 40) as usize)).into_bytes()
}

fn fill(engine: &Engine) -> (Arc<Table>, Vec<Rid>) {
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rids = (0..ROWS).map(|number| txn.insert(&table, &row(number, 0)).unwrap()).collect();
    txn.commit().unwrap();
    (table, rids)
}

fn content(txn: &mut Session, table: &Arc<Table>) -> BTreeMap<Rid, Vec<u8>> {
    txn.start_statement();
    rows(txn, table).into_iter().collect()
}

/// Each of many statements changes rows all over a spilled write set; the model says what is left.
fn change_often(txn: &mut Session, table: &Arc<Table>, rids: &[Rid], model: &mut BTreeMap<Rid, Vec<u8>>, seed: u64) {
    let mut random = Random::new(seed);
    txn.start_statement();
    for (number, rid) in (0u32..).zip(rids) {
        txn.update(table, *rid, &row(number, 1)).unwrap();
        model.insert(*rid, row(number, 1));
    }
    for version in 2..12 {
        let kept = txn.savepoint();
        let before = model.clone();
        for _ in 0..60 {
            let number = random.below(u64::from(ROWS)) as u32;
            let rid = rids[number as usize];
            let Entry::Occupied(mut there) = model.entry(rid) else { continue };
            if random.one_in(3) {
                txn.delete(table, rid).unwrap();
                there.remove();
            } else {
                txn.update(table, rid, &row(number, version)).unwrap();
                there.insert(row(number, version));
            }
        }
        if random.one_in(2) {
            txn.rollback_to(&kept).unwrap();
            *model = before;
        }
        assert_eq!(&content(txn, table), model, "seed {seed}, version {version}");
    }
}

#[test]
fn a_spilled_write_set_commits_rolls_back_and_comes_back_prepared() {
    for seed in 0..6 {
        let medium = Arc::new(SimMedium::new());
        let engine = open(&medium);
        let (table, rids) = fill(&engine);
        let mut txn = engine.session(Isolation::ReadCommitted);
        let committed = content(&mut txn, &table);
        let mut model = committed.clone();
        change_often(&mut txn, &table, &rids, &mut model, seed);
        let mut reader = engine.session(Isolation::RepeatableRead);
        assert_eq!(content(&mut reader, &table), committed);
        match seed % 3 {
            0 => {
                txn.commit().unwrap();
                assert_eq!(content(&mut reader, &table), committed, "an older snapshot");
            }
            1 => {
                txn.rollback().unwrap();
                model = committed;
            }
            _ => {
                txn.prepare(b"spilled").unwrap();
                drop((txn, reader, table, engine));
                let engine = open(&medium);
                let table = engine.table("t").unwrap();
                let mut other = engine.session(Isolation::ReadCommitted);
                assert!(
                    other.locks().try_lock_row(&table, rids[0], perdura_engine::LockMode::Exclusive).unwrap().is_none()
                );
                drop(other);
                engine.commit_prepared(b"spilled").unwrap();
                let mut txn = engine.session(Isolation::ReadCommitted);
                assert_eq!(content(&mut txn, &table), model, "seed {seed}");
                drop((txn, table));
                audit(&engine);
                continue;
            }
        }
        let mut other = engine.session(Isolation::ReadCommitted);
        assert_eq!(content(&mut other, &table), model, "seed {seed}");
        drop((txn, reader, other, table));
        audit(&engine);
        survives(&medium, engine);
    }
}

/// Hazard: after a crash right behind the commit record, redo needs what was spilled.
#[test]
fn a_commit_that_was_spilled_is_redone() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium);
    let (table, rids) = fill(&engine);
    engine.checkpoint().unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut model = content(&mut txn, &table);
    change_often(&mut txn, &table, &rids, &mut model, 1);
    txn.commit().unwrap();
    drop((txn, table, engine)); // without a checkpoint: the next start redoes the commit
    let engine = open(&medium);
    let table = engine.table("t").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    assert_eq!(content(&mut txn, &table), model);
    let read = txn.read(&table, rids[0], ReadView::Newest).unwrap().is_some();
    assert_eq!(read, model.contains_key(&rids[0]));
    drop((txn, table));
    audit(&engine);
}

/// Hazard: when the limit is first reached, every page has a few rows only; none is ever spilled,
/// and the commit needs more of the log than there is.
#[test]
fn rows_taken_round_robin_over_the_pages_are_spilled() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium);
    let (table, rids) = fill(&engine);
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.start_statement();
    let data = engine.counters().data_bytes - engine.counters().free_bytes;
    for first in 0..500 {
        for number in (first..ROWS).step_by(500) {
            txn.update(&table, rids[number as usize], &row(number, 1)).unwrap();
        }
    }
    let written = engine.counters().data_bytes - engine.counters().free_bytes - data;
    assert!(written > u64::from(ROWS) * 16, "the new versions and spilled words take {written} bytes");
    txn.commit().unwrap();
    let expected: Vec<_> = (0..ROWS).map(|number| row(number, 1)).collect();
    assert_eq!(content(&mut txn, &table).into_values().collect::<Vec<_>>(), expected);
    txn.commit().unwrap();
    drop((txn, table));
    audit(&engine);
    survives(&medium, engine);
}

/// Hazard: each statement that changes a row of the transaction's own bulk insert leaves a version
/// and a step behind.
#[test]
fn a_row_changed_by_many_statements_keeps_one_version() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium);
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.start_statement();
    let rids: Vec<_> = (0..200).map(|number| txn.insert(&table, &row(number, 0)).unwrap()).collect();
    let before = engine.counters().data_bytes;
    for version in 0..20_000 {
        txn.start_statement();
        txn.update(&table, rids[150], &row(150, version % 10)).unwrap();
        txn.end_statement();
    }
    assert_eq!(engine.counters().data_bytes, before, "the versions between are free again");
    txn.commit().unwrap();
    drop((txn, table));
    audit(&engine);
}

/// Hazard: a rollback to a savepoint brings the words of all pages that it undoes anything in back
/// to DRAM, however many.
#[test]
fn an_undo_keeps_to_the_limit() {
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium);
    let (table, rids) = fill(&engine);
    let mut txn = engine.session(Isolation::ReadCommitted);
    let committed = content(&mut txn, &table);
    txn.start_statement();
    for (number, rid) in (0u32..).zip(&rids) {
        txn.update(&table, *rid, &row(number, 1)).unwrap();
    }
    txn.end_statement();
    let model = content(&mut txn, &table);
    let limit = config().transaction_memory / 4;
    let memory = |engine: &Engine| {
        let mut bytes = 0;
        engine.each_transaction(|one| {
            bytes += one.memory;
            true
        });
        bytes
    };
    let pages = memory(&engine);
    for back in [1, 2] {
        let kept = txn.savepoint();
        txn.start_statement();
        // One row of each page, or two.
        for number in (0..ROWS).step_by(16 / back) {
            txn.update(&table, rids[number as usize], &row(number, 2)).unwrap();
        }
        txn.rollback_to(&kept).unwrap();
        txn.end_statement();
        let now = memory(&engine);
        assert!(now <= pages + limit, "{now} bytes after a rollback, {pages} before it");
        assert_eq!(content(&mut txn, &table), model);
    }
    txn.rollback().unwrap();
    assert_eq!(content(&mut txn, &table), committed);
    drop((txn, table));
    audit(&engine);
    survives(&medium, engine);
}
