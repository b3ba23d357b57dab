//! Hazard: at REPEATABLE READ without snapshot isolation, a change works on the row as the snapshot
//! shows it, and so undoes another's; or the transaction's own write is hidden from it because the
//! row is newer than its snapshot.

use crate::common::{pool, rows};
use perdura_engine::{Isolation, LockMode, ReadView, Session};

/// The rows as text, in order.
fn texts(txn: &mut Session, table: &std::sync::Arc<perdura_engine::Table>) -> Vec<String> {
    let mut found: Vec<_> =
        rows(txn, table).into_iter().map(|(_, row)| String::from_utf8_lossy(&row).into_owned()).collect();
    found.sort();
    found
}

#[test]
fn writes_work_on_the_newest_rows_and_reads_on_the_snapshot() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut other = engine.session(Isolation::ReadCommitted);
    let rids = ["a0", "b0", "c0"].map(|row| other.insert(&table, row.as_bytes()).unwrap());
    other.commit().unwrap();

    let mut txn = engine.session(Isolation::ConsistentReads);
    txn.start_statement();
    assert_eq!(texts(&mut txn, &table), ["a0", "b0", "c0"]);
    other.update(&table, rids[0], b"a1").unwrap();
    other.delete(&table, rids[1]).unwrap();
    let new = other.insert(&table, b"d1").unwrap();
    // A page that is published after the snapshot.
    let bulk: Vec<_> = (0..100).map(|_| other.insert(&table, b"e1").unwrap()).collect();
    other.commit().unwrap();

    txn.start_statement();
    assert_eq!(texts(&mut txn, &table), ["a0", "b0", "c0"], "the snapshot does not move");
    assert!(!txn.has_snapshot(), "it binds no write");
    txn.locks().lock_row(&table, rids[0], LockMode::Exclusive).unwrap();
    let row = txn.read(&table, rids[0], ReadView::Newest).unwrap().unwrap();
    // SAFETY: the row is locked.
    assert_eq!(unsafe { row.bytes() }, b"a1");
    txn.update(&table, rids[0], b"a2").unwrap();
    txn.update(&table, new, b"d2").unwrap();
    txn.update(&table, bulk[99], b"e2").unwrap();
    assert!(txn.update(&table, rids[1], b"b2").is_err(), "the row is gone");

    txn.start_statement();
    assert_eq!(texts(&mut txn, &table), ["a2", "b0", "c0", "d2", "e2"], "own writes on top of the snapshot");
    txn.delete(&table, new).unwrap();
    txn.start_statement();
    assert_eq!(texts(&mut txn, &table), ["a2", "b0", "c0", "e2"]);
    let mut scan = txn.scan_to_lock(&table);
    let mut newest = 0;
    while scan.next(&txn).unwrap().is_some() {
        newest += 1;
    }
    assert_eq!(newest, 102, "a scan for rows to lock finds the newest: a2, c0, e2 and the rest of the bulk");
    txn.commit().unwrap();
    assert_eq!(texts(&mut other, &table).len(), 102);
}

/// A statement that opens the transaction with a lock waits first, and its transaction then sees
/// what it has waited for.
#[test]
fn a_lock_before_the_snapshot_is_no_conflict() {
    for isolation in [Isolation::ConsistentReads, Isolation::RepeatableRead] {
        let (_medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let mut other = engine.session(Isolation::ReadCommitted);
        let rid = other.insert(&table, b"0").unwrap();
        other.commit().unwrap();
        let mut txn = engine.session(isolation);
        txn.start_statement();
        other.update(&table, rid, b"1").unwrap();
        assert!(txn.locks().try_lock_row(&table, rid, LockMode::Exclusive).unwrap().is_none());
        other.commit().unwrap();
        txn.locks().lock_row(&table, rid, LockMode::Exclusive).unwrap();
        txn.start_statement();
        assert_eq!(texts(&mut txn, &table), ["1"], "{isolation:?}");
        txn.update(&table, rid, b"2").unwrap();
        txn.commit().unwrap();
    }
}
