//! Hazard: a transaction shows, loses or keeps the wrong rows. The basics: what snapshots see, what
//! rollbacks undo, what survives a restart (I1, I4).

use crate::common::{committed, pool, reopen, rows};
use perdura_engine::{ErrorKind, Isolation, ReadView};

fn row(number: u32) -> Vec<u8> {
    format!("row {number:06} {}", "x".repeat((number % 37) as usize)).into_bytes()
}

#[test]
fn rows_survive_a_restart() {
    let (medium, engine) = pool();
    let table = engine.create_table("t", b"definition").unwrap();
    let mut txn = engine.session(Isolation::RepeatableRead);
    for number in 0..500 {
        txn.insert(&table, &row(number)).unwrap();
    }
    txn.commit().unwrap();
    let before = committed(&engine, &table);
    assert_eq!(before.len(), 500);
    drop((txn, table));
    drop(engine);
    let engine = reopen(&medium);
    let table = engine.table("t").unwrap();
    assert_eq!(&*table.definition(), b"definition");
    assert_eq!(committed(&engine, &table), before);
    assert_eq!(table.row_count_estimate(), 500);
}

#[test]
fn an_update_and_a_delete_are_seen_by_later_snapshots_only() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut writer = engine.session(Isolation::RepeatableRead);
    let first = writer.insert(&table, b"first").unwrap();
    let second = writer.insert(&table, b"second").unwrap();
    writer.commit().unwrap();
    let mut reader = engine.session(Isolation::RepeatableRead);
    assert_eq!(rows(&mut reader, &table).len(), 2);
    writer.update(&table, first, b"changed").unwrap();
    writer.delete(&table, second).unwrap();
    assert_eq!(rows(&mut writer, &table), vec![(first, b"changed".to_vec())]);
    assert_eq!(rows(&mut reader, &table).len(), 2);
    writer.commit().unwrap();
    assert_eq!(rows(&mut reader, &table), vec![(first, b"first".to_vec()), (second, b"second".to_vec())]);
    engine.checkpoint().unwrap();
    engine.purge();
    assert_eq!(rows(&mut reader, &table).len(), 2, "purge spares what a snapshot needs");
    reader.commit().unwrap();
    assert_eq!(rows(&mut reader, &table), vec![(first, b"changed".to_vec())]);
}

#[test]
fn the_first_updater_wins() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut one = engine.session(Isolation::RepeatableRead);
    let rid = one.insert(&table, b"0").unwrap();
    one.commit().unwrap();
    let mut other = engine.session(Isolation::RepeatableRead);
    rows(&mut other, &table);
    one.update(&table, rid, b"1").unwrap();
    assert_eq!(other.update(&table, rid, b"2").unwrap_err().kind(), ErrorKind::LockWaitTimeout);
    one.commit().unwrap();
    assert_eq!(other.update(&table, rid, b"2").unwrap_err().kind(), ErrorKind::RecordChanged);
    other.rollback().unwrap();
    other.set_isolation(Isolation::ReadCommitted);
    other.start_statement();
    other.update(&table, rid, b"3").unwrap();
    other.commit().unwrap();
    assert_eq!(committed(&engine, &table), vec![b"3".to_vec()]);
}

#[test]
fn a_deadlock_has_one_victim() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut one = engine.session(Isolation::ReadCommitted);
    one.set_lock_wait_timeout(std::time::Duration::from_secs(20));
    let a = one.insert(&table, b"a").unwrap();
    let b = one.insert(&table, b"b").unwrap();
    one.commit().unwrap();
    one.update(&table, a, b"a1").unwrap();
    let (engine_2, table_2) = (engine.clone(), table.clone());
    let thread = std::thread::spawn(move || {
        let mut two = engine_2.session(Isolation::ReadCommitted);
        two.set_lock_wait_timeout(std::time::Duration::from_secs(20));
        two.update(&table_2, b, b"b2").unwrap();
        let outcome = two.update(&table_2, a, b"a2");
        let kind = outcome.map_err(|error| error.kind());
        two.rollback().unwrap();
        kind
    });
    let mine = loop {
        let mut probe = engine.session(Isolation::ReadCommitted);
        if probe.locks().try_lock_row(&table, b, perdura_engine::LockMode::Exclusive).unwrap().is_none() {
            break one.update(&table, b, b"b1").map_err(|error| error.kind());
        }
        probe.rollback().unwrap();
    };
    one.rollback().unwrap();
    let other = thread.join().unwrap();
    assert!(mine == Err(ErrorKind::Deadlock) || other == Err(ErrorKind::Deadlock), "{mine:?} {other:?}");
    assert!(engine.status().last_deadlock.is_some());
}

#[test]
fn savepoints_take_back_single_and_bulk_writes() {
    let (medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::RepeatableRead);
    for number in 0..100 {
        txn.insert(&table, &row(number)).unwrap();
    }
    let seen = rows(&mut txn, &table);
    assert_eq!(seen.len(), 100);
    let savepoint = txn.savepoint();
    for number in 100..400 {
        txn.insert(&table, &row(number)).unwrap();
    }
    for (rid, _) in &seen[..50] {
        txn.update(&table, *rid, b"updated").unwrap();
    }
    for (rid, _) in &seen[40..95] {
        txn.delete(&table, *rid).unwrap();
    }
    assert_eq!(rows(&mut txn, &table).len(), 400 - 55);
    txn.rollback_to(&savepoint).unwrap();
    assert_eq!(rows(&mut txn, &table), seen);
    txn.delete(&table, seen[99].0).unwrap();
    txn.update(&table, seen[98].0, b"last").unwrap();
    txn.commit().unwrap();
    let after = committed(&engine, &table);
    assert_eq!(after.len(), 99);
    assert!(after.contains(&b"last".to_vec()));
    drop((txn, table, engine));
    let engine = reopen(&medium);
    assert_eq!(committed(&engine, &engine.table("t").unwrap()), after);
}

#[test]
fn a_scan_never_meets_rows_written_after_it_began() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::RepeatableRead);
    for number in 0..200 {
        txn.insert(&table, &row(number)).unwrap();
    }
    let mut scan = txn.scan(&table);
    let mut met = 0;
    while let Some((rid, _)) = scan.next(&txn).unwrap() {
        txn.update(&table, rid, &row(met + 1000)).unwrap();
        txn.insert(&table, &row(met + 2000)).unwrap();
        met += 1;
        assert!(met <= 200);
    }
    assert_eq!(met, 200);
    assert_eq!(rows(&mut txn, &table).len(), 400);
}

#[test]
fn space_is_used_again() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut bytes = 0;
    for round in 0..60u32 {
        let rids: Vec<_> = (0..300).map(|number| txn.insert(&table, &row(number + round)).unwrap()).collect();
        txn.commit().unwrap();
        for rid in rids {
            txn.delete(&table, rid).unwrap();
        }
        txn.commit().unwrap();
        engine.checkpoint().unwrap();
        engine.purge();
        if round == 20 {
            bytes = table.data_bytes();
        }
    }
    assert_eq!(table.row_count_estimate(), 0);
    assert_eq!(table.data_bytes(), bytes, "steady churn does not grow the table");
}

#[test]
fn space_of_a_lost_transaction_and_of_old_versions_is_found_after_a_restart() {
    let (medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    for number in 0..300 {
        txn.insert(&table, &row(number)).unwrap();
    }
    txn.rollback().unwrap();
    for number in 0..300 {
        txn.insert(&table, &row(number)).unwrap();
    }
    txn.commit().unwrap();
    drop((txn, table, engine));
    let mut sizes = Vec::new();
    for _ in 0..9 {
        sizes.push(restart_and_replace(&medium));
    }
    assert_eq!(sizes[8], sizes[6], "restarts lose no space: {sizes:?}");
}

/// Opens the pool, and replaces all rows in one transaction, which is never purged. Returns the
/// table's size in bytes.
fn restart_and_replace(medium: &std::sync::Arc<perdura_pmem::SimMedium>) -> u64 {
    let engine = reopen(medium);
    let table = engine.table("t").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    for (rid, _) in rows(&mut txn, &table) {
        txn.delete(&table, rid).unwrap();
    }
    for number in 0..300 {
        txn.insert(&table, &row(number)).unwrap();
    }
    txn.commit().unwrap();
    assert_eq!(committed(&engine, &table).len(), 300);
    table.data_bytes()
}

#[test]
fn large_rows_go_to_runs_of_segments() {
    let (medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let large = vec![7u8; 50_000];
    let rid = txn.insert(&table, &large).unwrap();
    let small = txn.insert(&table, b"").unwrap();
    txn.commit().unwrap();
    txn.update(&table, rid, &vec![9u8; 70_000]).unwrap();
    txn.commit().unwrap();
    // A row larger than a data file, rolled back.
    txn.insert(&table, &vec![1u8; 200_000]).unwrap();
    txn.rollback().unwrap();
    engine.checkpoint().unwrap();
    assert_eq!(engine.purge(), 1);
    drop((txn, engine, table));
    let engine = reopen(&medium);
    let table = engine.table("t").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let read = txn.read(&table, rid, ReadView::Snapshot).unwrap().unwrap();
    // SAFETY: the statement has not ended.
    assert_eq!(unsafe { read.bytes() }, &vec![9u8; 70_000][..]);
    let read = txn.read(&table, small, ReadView::Snapshot).unwrap().unwrap();
    // SAFETY: the statement has not ended.
    assert!(unsafe { read.bytes() }.is_empty());
}

#[test]
fn prepared_transactions_come_back_with_their_locks() {
    let (medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rid = txn.insert(&table, b"base").unwrap();
    txn.commit().unwrap();
    for name in [&b"keep"[..], b"undo"] {
        let mut txn = engine.session(Isolation::ReadCommitted);
        if name == b"keep" {
            txn.update(&table, rid, b"kept").unwrap();
        }
        for number in 0..200 {
            txn.insert(&table, &[name, &row(number)].concat()).unwrap();
        }
        txn.prepare(name).unwrap();
    }
    assert_eq!(committed(&engine, &table), vec![b"base".to_vec()]);
    engine.close();
    drop((txn, table, engine));
    let engine = reopen(&medium);
    let table = engine.table("t").unwrap();
    let mut names = engine.prepared();
    names.sort();
    assert_eq!(names, vec![b"keep".to_vec(), b"undo".to_vec()]);
    let mut txn = engine.session(Isolation::ReadCommitted);
    assert_eq!(txn.update(&table, rid, b"other").unwrap_err().kind(), ErrorKind::LockWaitTimeout);
    txn.rollback().unwrap();
    engine.sweep().unwrap();
    for number in 0..300 {
        txn.insert(&table, &row(number)).unwrap();
    }
    txn.commit().unwrap();
    assert!(engine.commit_prepared(b"keep").unwrap());
    assert!(engine.rollback_prepared(b"undo").unwrap());
    assert!(!engine.rollback_prepared(b"undo").unwrap());
    let after = committed(&engine, &table);
    assert_eq!(after.len(), 1 + 200 + 300);
    assert!(after.contains(&b"kept".to_vec()));
    engine.close();
    drop((txn, table, engine));
    let engine = reopen(&medium);
    assert!(engine.prepared().is_empty());
    assert_eq!(committed(&engine, &engine.table("t").unwrap()), after);
}

#[test]
fn ddl_is_atomic_and_durable() {
    let (medium, engine) = pool();
    for number in 0..20 {
        engine.create_table(&format!("t{number}"), &[number]).unwrap();
    }
    assert_eq!(engine.create_table("t3", b"").unwrap_err().kind(), ErrorKind::Exists);
    engine.drop_table("t4").unwrap();
    assert_eq!(engine.drop_table("t4").unwrap_err().kind(), ErrorKind::NotFound);
    engine.rename_table("t5", "five").unwrap();
    assert_eq!(engine.rename_table("t6", "five").unwrap_err().kind(), ErrorKind::Exists);
    let table = engine.table("t7").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.insert(&table, b"gone").unwrap();
    txn.commit().unwrap();
    let fresh = engine.truncate_table("t7").unwrap();
    assert!(committed(&engine, &fresh).is_empty());
    assert_eq!(txn.insert(&table, b"late").unwrap_err().kind(), ErrorKind::NotFound);
    let names: Vec<_> = engine.tables().unwrap().iter().map(|table| table.name()).collect();
    drop((txn, table, fresh, engine));
    let engine = reopen(&medium);
    assert_eq!(engine.tables().unwrap().iter().map(|table| table.name()).collect::<Vec<_>>(), names);
    assert_eq!(&*engine.table("five").unwrap().definition(), &[5]);
}

#[test]
fn a_savepoint_that_is_not_the_transactions_is_refused() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::RepeatableRead);
    let earlier = txn.savepoint();
    txn.insert(&table, b"0").unwrap();
    txn.commit().unwrap();
    let begin = txn.savepoint();
    txn.insert(&table, b"1").unwrap();
    assert_eq!(txn.rollback_to(&earlier).unwrap_err().kind(), ErrorKind::NotFound, "of the transaction before");
    let first = txn.savepoint();
    txn.insert(&table, b"2").unwrap();
    let second = txn.savepoint();
    txn.insert(&table, b"3").unwrap();
    txn.rollback_to(&first).unwrap();
    txn.insert(&table, b"4").unwrap();
    assert_eq!(txn.rollback_to(&second).unwrap_err().kind(), ErrorKind::NotFound, "taken back with what was before it");
    let third = txn.savepoint();
    txn.insert(&table, b"5").unwrap();
    txn.rollback_to(&third).unwrap();
    txn.rollback_to(&third).unwrap();
    assert_eq!(rows(&mut txn, &table).len(), 3);
    txn.rollback_to(&first).unwrap();
    assert_eq!(txn.rollback_to(&third).unwrap_err().kind(), ErrorKind::NotFound);
    txn.rollback_to(&begin).unwrap();
    assert_eq!(rows(&mut txn, &table).len(), 1);
}
