//! Hazard: purge merges commits that no snapshot tells apart, and a snapshot then sees a row as it
//! was in between, a deleted row comes back, a conflict is missed or made up, or a version is lost
//! or freed twice (I8).

use crate::common;

use crate::common::simulated::survives;
use crate::common::{committed, pool, rows};
use perdura_engine::{Engine, ErrorKind, Isolation, Rid, Session, Table};
use perdura_pmem::sim::Random;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows that a snapshot sees.
type Rows = BTreeMap<Rid, Vec<u8>>;

fn purge(engine: &Engine) -> usize {
    engine.checkpoint().unwrap();
    engine.purge()
}

fn seen(txn: &mut Session, table: &Arc<Table>) -> Rows {
    rows(txn, table).into_iter().collect()
}

fn update(txn: &mut Session, table: &Arc<Table>, rid: Rid, number: u8) {
    txn.update(table, rid, &[number; 9]).unwrap();
    txn.commit().unwrap();
}

/// Snapshots come and go while rows are inserted, updated and deleted, one and many at a time. Each
/// sees one state, and in the end all space adds up.
#[test]
fn each_snapshot_goes_on_seeing_its_state() {
    for seed in common::seeds(12) {
        let (medium, engine) = pool();
        // Words of the larger transactions are spilled in every other run.
        engine.set_transaction_memory(if seed.is_multiple_of(2) { 1 } else { 1 << 20 });
        let table = engine.create_table("t", b"").unwrap();
        let mut random = Random::new(seed);
        let mut writer = engine.session(Isolation::ReadCommitted);
        let mut now = Rows::new();
        let mut snapshots: Vec<(Rows, Session)> = Vec::new();
        for step in 0..1500u32 {
            let many = if random.one_in(30) { 40 } else { 1 };
            writer.start_statement();
            for _ in 0..many {
                let picked = now.keys().nth(random.below(now.len().max(1) as u64) as usize).copied();
                let row = step.to_le_bytes().repeat(1 + random.below(9) as usize);
                match picked {
                    Some(rid) if random.one_in(5) => {
                        writer.delete(&table, rid).unwrap();
                        now.remove(&rid);
                    }
                    Some(rid) if now.len() > 60 || random.one_in(2) => {
                        writer.update(&table, rid, &row).unwrap();
                        now.insert(rid, row);
                    }
                    _ => drop(now.insert(writer.insert(&table, &row).unwrap(), row)),
                }
            }
            writer.commit().unwrap();
            match random.below(24) {
                0 if snapshots.len() < 6 => {
                    let mut reader = engine.session(Isolation::RepeatableRead);
                    assert_eq!(seen(&mut reader, &table), now);
                    snapshots.push((now.clone(), reader));
                }
                1 if !snapshots.is_empty() => {
                    snapshots.swap_remove(random.below(snapshots.len() as u64) as usize);
                }
                2..6 => drop(purge(&engine)),
                6 => table.audit().unwrap(),
                7 => snapshots.iter_mut().for_each(|(then, reader)| {
                    assert_eq!(&seen(reader, &table), then, "seed {seed}, step {step}");
                }),
                _ => {}
            }
        }
        drop((snapshots, writer));
        purge(&engine);
        assert_eq!(engine.counters().purge_lag, 0, "seed {seed}");
        table.audit().unwrap();
        drop(table);
        survives(&medium, engine);
    }
}

/// A transaction is refused a row that changed after its snapshot, and only such a row, wherever
/// the commits are that were merged.
#[test]
fn merged_commits_conflict_with_older_snapshots_only() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut writer = engine.session(Isolation::ReadCommitted);
    let rids: Vec<_> = (0..4u8).map(|number| writer.insert(&table, &[number; 9]).unwrap()).collect();
    writer.commit().unwrap();
    let take = || {
        let mut txn = engine.session(Isolation::RepeatableRead);
        (seen(&mut txn, &table).len() == 4).then_some(txn).unwrap()
    };
    let mut old = take();
    (0..20).for_each(|number| update(&mut writer, &table, rids[0], number));
    let mut middle = take();
    (0..20).for_each(|number| update(&mut writer, &table, rids[1], number));
    writer.delete(&table, rids[3]).unwrap();
    writer.commit().unwrap();
    (0..20).for_each(|number| update(&mut writer, &table, rids[1], number));
    assert!(purge(&engine) >= 3 * 19 - 2);
    let changed = Some(ErrorKind::RecordChanged);
    let refused = |txn: &mut Session| {
        let outcomes = [0, 1, 2, 3].map(|row: usize| {
            txn.start_statement();
            txn.update(&table, rids[row], b"of a snapshot").err().map(|error| error.kind())
        });
        txn.rollback().unwrap();
        outcomes
    };
    let mut late = engine.session(Isolation::RepeatableRead);
    assert_eq!(seen(&mut late, &table).len(), 3);
    assert_eq!(refused(&mut old), [changed, changed, None, changed]);
    assert_eq!(refused(&mut middle), [None, changed, None, changed]);
    assert_eq!(refused(&mut late), [None, None, None, Some(ErrorKind::NotFound)]);
}

/// Commits that no checkpoint covers are named by redo: a crash brings them back from the versions
/// that they wrote.
#[test]
fn commits_above_the_checkpoint_stay_apart() {
    let (medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut writer = engine.session(Isolation::ReadCommitted);
    let rid = writer.insert(&table, &[99; 9]).unwrap();
    writer.commit().unwrap();
    let mut old = engine.session(Isolation::RepeatableRead);
    let before = seen(&mut old, &table);
    engine.checkpoint().unwrap();
    (0..30).for_each(|number| update(&mut writer, &table, rid, number));
    assert_eq!(engine.purge(), 0);
    assert_eq!(engine.counters().purge_lag, 30);
    // The round after the next checkpoint merges them, although nobody has touched the page since.
    assert_eq!(purge(&engine), 29);
    assert_eq!(engine.counters().purge_lag, 1);
    assert_eq!(seen(&mut old, &table), before);
    drop((old, writer, table));
    drop(engine);
    let engine = common::reopen(&medium);
    assert_eq!(committed(&engine, &engine.table("t").unwrap()), [vec![29; 9]]);
}

/// A table is loaded and emptied again and again beside a snapshot that sees nothing of it.
#[test]
fn rows_of_a_bulk_insert_that_no_snapshot_sees_leave_no_space_behind() {
    const ROWS: u8 = 200;
    let (medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut old = engine.session(Isolation::RepeatableRead);
    assert!(seen(&mut old, &table).is_empty());
    let mut writer = engine.session(Isolation::ReadCommitted);
    let mut used = Vec::new();
    for round in 0..20u8 {
        let rids: Vec<_> = (0..ROWS).map(|number| writer.insert(&table, &[number; 90]).unwrap()).collect();
        writer.commit().unwrap();
        if round % 2 == 1 {
            purge(&engine);
        }
        rids.iter().for_each(|rid| writer.update(&table, *rid, &[round; 80]).unwrap());
        writer.commit().unwrap();
        rids.iter().for_each(|rid| writer.delete(&table, *rid).unwrap());
        writer.commit().unwrap();
        // Nothing is covered yet; the next round finds the pages again.
        engine.purge();
        purge(&engine);
        table.audit().unwrap();
        let counters = engine.counters();
        // The first rows are inserted singly, in pages that wait for a few commits more.
        assert!(counters.purge_lag < 70 * 4, "round {round}: {} changes wait", counters.purge_lag);
        used.push(counters.data_bytes - counters.free_bytes);
    }
    assert!(used[19] <= used[4] + 2 * common::small().segment_bytes, "{used:?}");
    assert!(seen(&mut old, &table).is_empty());
    drop((old, writer, table));
    survives(&medium, engine);
}

/// Spilled words are merged like others: of updates of whole pages only the first keeps its
/// versions, and rows that only a later one changed are added.
#[test]
fn updates_of_whole_pages_are_merged() {
    let (medium, engine) = pool();
    engine.set_transaction_memory(1);
    let table = engine.create_table("t", b"").unwrap();
    let mut writer = engine.session(Isolation::ReadCommitted);
    let rids: Vec<_> = (0..60u8).map(|number| writer.insert(&table, &[number; 9]).unwrap()).collect();
    writer.commit().unwrap();
    purge(&engine);
    let mut old = engine.session(Isolation::RepeatableRead);
    let before = seen(&mut old, &table);
    for round in 0..12u8 {
        // The first rounds leave out some rows.
        for rid in rids.iter().skip(20 - usize::from(round.min(10)) * 2) {
            writer.update(&table, *rid, &[round; 9]).unwrap();
        }
        writer.commit().unwrap();
        purge(&engine);
        table.audit().unwrap();
        assert_eq!(seen(&mut old, &table), before);
    }
    let waiting = engine.counters().purge_lag;
    assert!(waiting <= 60 * 4, "{waiting} changes wait");
    drop(old);
    purge(&engine);
    assert_eq!(engine.counters().purge_lag, 0);
    table.audit().unwrap();
    drop((writer, table));
    survives(&medium, engine);
}
