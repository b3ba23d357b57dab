//! Hazard: transactions on the same rows lose an update, or conflict without need. A write must
//! never overwrite a version that its transaction has not seen; and no transaction may be refused
//! that has seen nothing out of date.

use crate::common;

use crate::common::{committed, pool, rows};
use perdura_engine::{Engine, ErrorKind, Isolation, LockMode, ReadView, Rid, Session, Table};
use std::sync::Arc;
use std::time::Duration;

fn counter(engine: &Engine) -> (Arc<Table>, Rid) {
    let table = engine.create_table("ctr", b"").unwrap();
    let mut txn = engine.session(Isolation::RepeatableRead);
    let rid = txn.insert(&table, &0u64.to_le_bytes()).unwrap();
    txn.commit().unwrap();
    (table, rid)
}

fn value(row: &[u8]) -> u64 {
    u64::from_le_bytes(row.try_into().unwrap())
}

/// Eight sessions increment the same row. No statement may fail, and no increment may be lost.
#[test]
fn increments_that_lock_first_never_conflict() {
    const SESSIONS: u64 = 8;
    const EACH: u64 = 300;
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let (_medium, engine) = pool();
        let (table, rid) = counter(&engine);
        std::thread::scope(|scope| {
            for _ in 0..SESSIONS {
                scope.spawn(|| {
                    let mut txn = engine.session(isolation);
                    txn.set_lock_wait_timeout(std::time::Duration::from_secs(60));
                    for _ in 0..EACH {
                        txn.start_statement();
                        txn.locks().lock_row(&table, rid, LockMode::Exclusive).unwrap();
                        let row = txn.read(&table, rid, ReadView::Newest).unwrap().unwrap();
                        // SAFETY: the statement has not ended.
                        let now = value(unsafe { row.bytes() });
                        txn.update(&table, rid, &(now + 1).to_le_bytes()).unwrap();
                        txn.commit().unwrap();
                        if now.is_multiple_of(64) {
                            engine.checkpoint().unwrap();
                            engine.purge();
                        }
                    }
                });
            }
        });
        assert_eq!(value(&committed(&engine, &table)[0]), SESSIONS * EACH);
    }
}

#[test]
fn a_change_without_a_read_never_conflicts() {
    let (_medium, engine) = pool();
    let (table, rid) = counter(&engine);
    let mut txn = engine.session(Isolation::RepeatableRead);
    let mut other = engine.session(Isolation::RepeatableRead);
    txn.start_statement();
    other.update(&table, rid, &1u64.to_le_bytes()).unwrap();
    other.commit().unwrap();
    txn.update(&table, rid, &2u64.to_le_bytes()).unwrap();
    txn.commit().unwrap();
    assert_eq!(value(&committed(&engine, &table)[0]), 2);
}

#[test]
fn a_change_of_what_was_read_before_conflicts() {
    let (_medium, engine) = pool();
    let (table, rid) = counter(&engine);
    let mut other = engine.session(Isolation::RepeatableRead);
    for read in [ReadView::Snapshot, ReadView::Newest] {
        let mut txn = engine.session(Isolation::RepeatableRead);
        txn.start_statement();
        txn.read(&table, rid, read).unwrap();
        txn.end_statement();
        other.update(&table, rid, &1u64.to_le_bytes()).unwrap();
        other.commit().unwrap();
        txn.start_statement();
        let outcome = txn.update(&table, rid, &2u64.to_le_bytes());
        match read {
            ReadView::Snapshot => assert_eq!(outcome.unwrap_err().kind(), ErrorKind::RecordChanged),
            ReadView::Newest => outcome.unwrap(),
        }
    }
}

/// Hazard: a snapshot taken after a locked read does not see the commit that wrote the row, or sees
/// only a part of it.
#[test]
fn a_snapshot_is_not_older_than_the_rows_locked_before_it() {
    for isolation in [Isolation::RepeatableRead, Isolation::ReadCommitted] {
        let seen_after = |txn: &mut Session, table: &Arc<Table>| rows(txn, table);
        locked_rows_are_seen_by_what_follows(isolation, seen_after);
    }
}

/// Hazard: a scan for rows to lock reads at a snapshot older than a row locked before, and so
/// misses a row that matches.
#[test]
fn a_search_for_rows_to_lock_is_not_older_than_the_rows_locked_before_it() {
    for isolation in [Isolation::RepeatableRead, Isolation::ReadCommitted] {
        locked_rows_are_seen_by_what_follows(isolation, |txn, table| {
            let mut scan = txn.scan_to_lock(table);
            let mut found = Vec::new();
            while let Some((rid, row)) = scan.next(txn).unwrap() {
                // SAFETY: the statement has not ended.
                found.push((rid, unsafe { row.bytes() }.to_vec()));
            }
            found
        });
    }
}

fn locked_rows_are_seen_by_what_follows(
    isolation: Isolation,
    look: impl Fn(&mut Session, &Arc<Table>) -> Vec<(Rid, Vec<u8>)>,
) {
    let (_medium, engine) = pool();
    let (table, rid) = counter(&engine);
    let late = engine.create_table("late", b"").unwrap();
    let mut other = engine.session(Isolation::RepeatableRead);
    // Longer than a busy machine may suspend the thread that holds the row lock.
    other.set_lock_wait_timeout(Duration::from_secs(60));
    let second = other.insert(&table, &0u64.to_le_bytes()).unwrap();
    other.commit().unwrap();
    for now in 1..20u64 {
        // An ordered commit that is not published yet: no later commit can become visible before it
        // does.
        let mut before = engine.session(Isolation::RepeatableRead);
        before.insert(&late, b"late").unwrap();
        before.end_statement();
        before.prepare(&now.to_le_bytes()).unwrap();
        before.commit_ordered();
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| {
                other.update(&table, rid, &now.to_le_bytes()).unwrap();
                other.update(&table, second, &now.to_le_bytes()).unwrap();
                other.commit().unwrap();
            });
            let mut txn = engine.session(isolation);
            txn.set_lock_wait_timeout(Duration::from_secs(60));
            let locked = loop {
                // The change cannot commit before `before` is published, so it ends early only by
                // failing.
                assert!(!changing.is_finished(), "the change failed");
                txn.start_statement();
                txn.locks().lock_row(&table, rid, LockMode::Exclusive).unwrap();
                let row = txn.read(&table, rid, ReadView::Newest).unwrap().unwrap();
                // SAFETY: the statement has not ended.
                let locked = value(unsafe { row.bytes() });
                txn.end_statement();
                if locked == now {
                    break locked;
                }
                txn.rollback().unwrap();
            };
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(5));
                before.commit().unwrap();
            });
            txn.start_statement();
            let seen: Vec<u64> = look(&mut txn, &table).iter().map(|(_, row)| value(row)).collect();
            assert_eq!(seen, [locked, locked], "{isolation:?}");
            txn.commit().unwrap();
        });
    }
}

#[test]
fn a_durable_commit_is_not_rolled_back() {
    let (_medium, engine) = pool();
    let (table, rid) = counter(&engine);
    let mut txn = engine.session(Isolation::RepeatableRead);
    txn.update(&table, rid, &7u64.to_le_bytes()).unwrap();
    txn.prepare(b"xid").unwrap();
    let csn = txn.commit_ordered();
    assert_eq!(txn.rollback().unwrap_err().kind(), ErrorKind::NotSupported);
    // The end of the session completes the commit, so that it does not block later ones.
    drop(txn);
    let mut next = engine.session(Isolation::RepeatableRead);
    next.update(&table, rid, &8u64.to_le_bytes()).unwrap();
    assert!(next.commit().unwrap() > csn);
    assert_eq!(value(&committed(&engine, &table)[0]), 8);
}

#[test]
fn an_old_snapshot_refuses_a_table_that_is_newer() {
    let (_medium, engine) = pool();
    let (table, rid) = counter(&engine);
    let mut old = engine.session(Isolation::RepeatableRead);
    old.take_snapshot();
    let emptied = engine.truncate_table("ctr").unwrap();
    let rebuilt = engine.create_table("#sql-alter", b"").unwrap();
    // Taken between the creation and the rename, before the rows were inserted.
    let mut between = engine.session(Isolation::RepeatableRead);
    between.take_snapshot();
    let mut txn = engine.session(Isolation::RepeatableRead);
    txn.insert(&rebuilt, b"copied").unwrap();
    txn.commit().unwrap();
    engine.rename_rebuilt_table("#sql-alter", "rebuilt").unwrap();
    let plain = engine.create_table("plain", b"").unwrap();
    let mut later = engine.session(Isolation::RepeatableRead);
    later.take_snapshot();
    engine.rename_table("plain", "renamed").unwrap();

    let scan =
        |txn: &mut perdura_engine::Session, table: &Arc<Table>| common::try_rows(txn, table).map(|rows| rows.len());
    for table in [&emptied, &rebuilt, &plain] {
        assert_eq!(scan(&mut old, table).unwrap_err().kind(), ErrorKind::DefinitionChanged);
    }
    assert_eq!(old.read(&emptied, rid, ReadView::Snapshot).unwrap_err().kind(), ErrorKind::DefinitionChanged);
    assert_eq!(scan(&mut between, &emptied).unwrap(), 0);
    assert_eq!(scan(&mut between, &rebuilt).unwrap_err().kind(), ErrorKind::DefinitionChanged);
    assert_eq!(scan(&mut later, &plain).unwrap(), 0, "a rename alone takes nothing from a snapshot");
    assert!(!table.name().is_empty());
}
