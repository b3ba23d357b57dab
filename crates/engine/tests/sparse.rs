//! Hazard: a table of which little is left keeps all its room, or the rows that are moved to give
//! it back are lost, seem changed, or are found in two places (I3, I4, I8).

use crate::common;

use crate::common::bank::{Bank, START, account};
use crate::common::simulated::{audit, survives};
use crate::common::threads::Threads;
use crate::common::{pool, rows, seeds, settle};
use perdura_engine::{Engine, ErrorKind, Isolation, LockMode, ReadView, Rid, Session, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

const ROWS: u32 = 6000;

/// A row of 60 bytes.
fn row(number: u32) -> Vec<u8> {
    format!("row {number:06} {}", "x".repeat(49)).into_bytes()
}

/// Moves and purges until nothing is left to be moved. Returns the number of rows moved.
fn compact(engine: &Engine) -> usize {
    let mut total = 0;
    let mut idle = 0;
    while idle < 30 {
        let moved = engine.compact();
        total += moved;
        idle = if moved == 0 { idle + 1 } else { 0 };
        settle(engine);
    }
    total
}

/// A table with one of eight rows left, which lie scattered.
fn sparse(engine: &Engine) -> (Arc<Table>, BTreeMap<Rid, Vec<u8>>) {
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let all: Vec<_> = (0..ROWS).map(|number| (txn.insert(&table, &row(number)).unwrap(), row(number))).collect();
    txn.commit().unwrap();
    let kept = all.iter().step_by(8).cloned().collect();
    for (_, (rid, _)) in all.iter().enumerate().filter(|(number, _)| number % 8 != 0) {
        txn.delete(&table, *rid).unwrap();
    }
    txn.commit().unwrap();
    settle(engine);
    (table, kept)
}

fn found(txn: &mut Session, table: &Arc<Table>) -> BTreeMap<Rid, Vec<u8>> {
    let found = rows(txn, table).into_iter().collect();
    txn.end_statement();
    found
}

#[test]
fn what_is_left_of_a_table_takes_little_room_and_the_rest_is_free_for_other_rows() {
    let (medium, engine) = pool();
    let (table, kept) = sparse(&engine);
    let (bytes, free) = (table.data_bytes(), table.free_bytes());
    let rows_before = table.row_count_estimate();
    let (changed, commits) = (table.changed_at(), engine.counters().commits);
    let moved = compact(&engine);
    assert!(moved > kept.len() / 2, "{moved} rows moved");
    assert_eq!(engine.counters().moved_rows, moved as u64);
    assert_eq!(
        (table.row_count_estimate(), table.changed_at(), engine.counters().commits),
        (rows_before, changed, commits)
    );
    let freed = table.free_bytes() - free;
    // 80 bytes a cell: what was deleted, but for a few segments partly filled.
    let deleted = u64::from(ROWS) * 80 * 7 / 8;
    assert!(freed > deleted * 9 / 10, "{freed} bytes are free of {deleted} deleted");
    let mut txn = engine.session(Isolation::ReadCommitted);
    assert_eq!(found(&mut txn, &table), kept);
    // Rows of another length find room.
    for _ in 0..freed * 8 / 10 / 320 {
        txn.insert(&table, &[7; 300]).unwrap();
    }
    txn.commit().unwrap();
    assert_eq!(table.data_bytes(), bytes, "the table has grown");
    drop(txn);
    audit(&engine);
    drop(table);
    survives(&medium, engine);
}

#[test]
fn a_table_that_is_not_sparse_stays_as_it_is() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rids: Vec<_> = (0..ROWS).map(|number| txn.insert(&table, &row(number)).unwrap()).collect();
    txn.commit().unwrap();
    assert_eq!(compact(&engine), 0);
    for rid in rids.iter().step_by(2) {
        txn.delete(&table, *rid).unwrap();
    }
    txn.commit().unwrap();
    settle(&engine);
    assert_eq!(compact(&engine), 0, "half of each segment is in use");
    drop(txn);
    audit(&engine);
}

/// Rows of many lengths share the cells of the longest, as long as no length has earned segments of
/// its own. Hazard: to move them away, each length takes a segment, more than become free; or the
/// table grows.
#[test]
fn moving_takes_no_room() {
    let (medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let row_of = |number: u32| match number % 8 {
        // Each of 9 lengths three times.
        1 => vec![number as u8; 40 + (number / 8 % 9) as usize * 8],
        _ => vec![number as u8; 240],
    };
    let all: Vec<_> = (0..216).map(|number| (number, txn.insert(&table, &row_of(number)).unwrap())).collect();
    txn.commit().unwrap();
    let (kept, gone): (Vec<_>, Vec<_>) = all.into_iter().partition(|(number, _)| number % 8 == 1);
    gone.into_iter().for_each(|(_, rid)| txn.delete(&table, rid).unwrap());
    txn.commit().unwrap();
    settle(&engine);
    let kept: BTreeMap<Rid, Vec<u8>> = kept.into_iter().map(|(number, rid)| (rid, row_of(number))).collect();
    let in_use = || table.data_bytes() - table.free_bytes();
    let first = in_use();
    let (mut last, mut moved) = (first, 0);
    for _ in 0..60 {
        moved += engine.compact();
        assert!(in_use() <= last, "{} bytes were taken within {moved} moves", in_use() - last);
        settle(&engine);
        last = in_use();
    }
    assert!(moved >= kept.len() / 2 && moved <= kept.len(), "{moved} rows moved");
    assert!(last < first / 2, "{last} bytes are in use of {first}");
    assert_eq!(compact(&engine), 0, "the end was reached");
    assert_eq!(found(&mut txn, &table), kept);
    drop(txn);
    audit(&engine);
    drop(table);
    survives(&medium, engine);
}

/// A snapshot from before the move reads its rows where they were. Its transaction may still change
/// them: nobody else has.
#[test]
fn to_be_moved_is_not_to_be_changed() {
    let (medium, engine) = pool();
    let (table, mut kept) = sparse(&engine);
    let mut old = engine.session(Isolation::RepeatableRead);
    let mut reader = engine.session(Isolation::RepeatableRead);
    assert_eq!(found(&mut old, &table), kept);
    assert_eq!(found(&mut reader, &table), kept);
    assert!(compact(&engine) > kept.len() / 2);
    assert_eq!(found(&mut old, &table), kept, "read where they were");
    for rid in kept.keys().step_by(3) {
        old.locks().lock_row(&table, *rid, LockMode::Exclusive).unwrap();
        assert!(!old.is_changed(&table, *rid));
    }
    let changed: Vec<Rid> = kept.keys().step_by(2).copied().collect();
    for (number, rid) in changed.iter().enumerate() {
        match number % 5 {
            0 => old.delete(&table, *rid).unwrap(),
            _ => old.update(&table, *rid, b"changed").unwrap(),
        }
    }
    old.commit().unwrap();
    assert_eq!(found(&mut reader, &table), kept, "its snapshot is older");
    // A change by somebody else is a conflict all the same, even if the row is moved after it.
    settle(&engine);
    engine.compact();
    assert_eq!(reader.update(&table, changed[1], b"late").unwrap_err().kind(), ErrorKind::RecordChanged);
    assert!(reader.is_changed(&table, changed[1]));
    reader.rollback().unwrap();
    for (number, rid) in changed.iter().enumerate() {
        match number % 5 {
            0 => kept.remove(rid),
            _ => kept.insert(*rid, b"changed".to_vec()),
        };
    }
    compact(&engine);
    assert_eq!(found(&mut reader, &table), kept);
    drop((old, reader));
    audit(&engine);
    drop(table);
    survives(&medium, engine);
}

/// Rows that are locked or written stay where they are; when they are free, they are moved as well.
#[test]
fn a_row_in_use_is_left_alone() {
    let (_medium, engine) = pool();
    let (table, kept) = sparse(&engine);
    let mut holder = engine.session(Isolation::ReadCommitted);
    for (number, rid) in kept.keys().enumerate() {
        let mode = if number % 2 == 0 { LockMode::Shared } else { LockMode::Exclusive };
        holder.locks().lock_row(&table, *rid, mode).unwrap();
    }
    assert_eq!(compact(&engine), 0);
    for (rid, row) in &kept {
        // SAFETY: the row is locked.
        let read = holder.read(&table, *rid, ReadView::Newest).unwrap().map(|row| unsafe { row.bytes() });
        assert_eq!(read, Some(&row[..]));
    }
    holder.rollback().unwrap();
    assert!(compact(&engine) > kept.len() / 2);
    drop(holder);
    audit(&engine);
}

/// A lock request without waiting is not refused because the row is being moved, whether or not
/// somebody waits for it who would share it.
#[test]
fn a_row_that_is_being_moved_does_not_count_as_locked() {
    for seed in seeds(30) {
        let mode = if seed % 2 == 0 { LockMode::Shared } else { LockMode::Exclusive };
        let (_medium, engine) = common::simulated::pool();
        let (table, kept) = sparse(&engine);
        let mut threads = Threads::default();
        threads.work(|| {
            for _ in 0..4 {
                engine.compact();
                settle(&engine);
            }
        });
        threads.meanwhile(|| {
            let mut txn = engine.session(Isolation::RepeatableRead);
            for rid in kept.keys().step_by(7) {
                let locked = txn.locks().try_lock_row(&table, *rid, mode).unwrap();
                assert!(locked.is_some(), "seed {seed}");
                if mode == LockMode::Exclusive {
                    txn.update(&table, *rid, &row(9)).unwrap();
                }
                txn.commit().unwrap();
            }
        });
        if mode == LockMode::Shared {
            threads.meanwhile(|| {
                let mut txn = engine.session(Isolation::ReadCommitted);
                for rid in kept.keys().step_by(7) {
                    txn.locks().lock_row(&table, *rid, mode).unwrap();
                    txn.commit().unwrap();
                }
            });
        }
        threads.run(seed);
        assert!(engine.counters().moved_rows > 0);
        drop(table);
        audit(&engine);
    }
}

/// Writers and readers of the rows that are moved meanwhile.
#[test]
fn rows_are_moved_beside_those_who_change_them() {
    let mut moved = 0;
    for seed in seeds(60) {
        let (medium, engine) = common::simulated::pool();
        let table = engine.create_table("t", b"bank").unwrap();
        let mut txn = engine.session(Isolation::ReadCommitted);
        let all: Vec<Rid> = (0..450).map(|_| txn.insert(&table, &account(START, 60)).unwrap()).collect();
        txn.commit().unwrap();
        let (kept, gone): (Vec<_>, Vec<_>) = all.into_iter().enumerate().partition(|(number, _)| number % 9 == 0);
        gone.into_iter().for_each(|(_, rid)| txn.delete(&table, rid).unwrap());
        txn.commit().unwrap();
        settle(&engine);
        let bank = Bank { table, accounts: kept.into_iter().map(|(_, rid)| rid).collect() };
        let mut threads = Threads::default();
        threads.transfer(&engine, &bank, seed, 8);
        threads.meanwhile(|| {
            engine.compact();
            settle(&engine);
        });
        threads.sum(&engine, &bank);
        threads.run(seed);
        moved += engine.counters().moved_rows;
        assert_eq!(bank.sum(&mut txn).unwrap(), bank.total(), "seed {seed}");
        drop(txn);
        drop(bank);
        audit(&engine);
        survives(&medium, engine);
    }
    assert!(moved > 100, "{moved} rows moved: the hazard was met");
}
