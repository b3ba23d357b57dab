//! Hazard: a snapshot sees a row as it was between two writes of the same transaction.
//!
//! The interleaved transfers found it: the newest version linked an older snapshot to the version
//! before it, which the same transaction had written, never published, and freed already.

use crate::common::{committed, pool, reopen, rows};
use perdura_engine::{Isolation, ReadView};

#[test]
fn rows_written_twice_by_a_later_transaction() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut writer = engine.session(Isolation::ReadCommitted);
    let updated = writer.insert(&table, b"committed").unwrap();
    let deleted = writer.insert(&table, b"committed too").unwrap();
    writer.commit().unwrap();
    let mut reader = engine.session(Isolation::RepeatableRead);
    let before = rows(&mut reader, &table);
    for rid in [updated, deleted] {
        for step in 0..3 {
            writer.update(&table, rid, format!("step {step}").as_bytes()).unwrap();
        }
    }
    writer.delete(&table, deleted).unwrap();
    let fresh = writer.insert(&table, b"first").unwrap();
    writer.update(&table, fresh, b"second").unwrap();
    writer.commit().unwrap();
    assert_eq!(rows(&mut reader, &table), before);
    assert!(reader.read(&table, fresh, ReadView::Snapshot).unwrap().is_none());
    for number in 0..40u8 {
        writer.insert(&table, &[number; 13]).unwrap();
    }
    writer.commit().unwrap();
    engine.checkpoint().unwrap();
    engine.purge();
    assert_eq!(rows(&mut reader, &table), before, "their cells being in use again");
    assert!(reader.read(&table, fresh, ReadView::Snapshot).unwrap().is_none());
}

#[test]
fn rows_of_an_extent_written_again_before_it_was_published() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut reader = engine.session(Isolation::RepeatableRead);
    assert!(rows(&mut reader, &table).is_empty());
    let mut writer = engine.session(Isolation::ReadCommitted);
    let rids: Vec<_> = (0..200u8).map(|number| writer.insert(&table, &[number; 20]).unwrap()).collect();
    for rid in &rids {
        writer.update(&table, *rid, b"again").unwrap();
    }
    writer.commit().unwrap();
    writer.update(&table, rids[199], b"by a later one").unwrap();
    writer.commit().unwrap();
    for rid in &rids {
        assert!(reader.read(&table, *rid, ReadView::Snapshot).unwrap().is_none());
    }
    assert!(rows(&mut reader, &table).is_empty());
}

#[test]
fn rows_written_twice_by_a_transaction_prepared_before_a_restart() {
    let (medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rid = txn.insert(&table, b"committed").unwrap();
    txn.commit().unwrap();
    txn.update(&table, rid, b"step").unwrap();
    txn.update(&table, rid, b"prepared").unwrap();
    txn.prepare(b"branch").unwrap();
    drop((txn, table, engine));
    let engine = reopen(&medium);
    let table = engine.table("t").unwrap();
    let mut reader = engine.session(Isolation::RepeatableRead);
    assert_eq!(rows(&mut reader, &table), vec![(rid, b"committed".to_vec())]);
    assert!(engine.commit_prepared(b"branch").unwrap());
    assert_eq!(rows(&mut reader, &table), vec![(rid, b"committed".to_vec())]);
    assert_eq!(committed(&engine, &table), vec![b"prepared".to_vec()]);
}

/// The stress test found it: the unused RIDs of a bulk page go to any session, also to one whose
/// snapshot is older than the page, and the session did not see its own rows there.
#[test]
fn own_rows_in_a_page_newer_than_the_snapshot() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut reader = engine.session(Isolation::RepeatableRead);
    assert!(rows(&mut reader, &table).is_empty());
    let mut writer = engine.session(Isolation::ReadCommitted);
    for number in 0..100u8 {
        writer.insert(&table, &[number; 20]).unwrap();
    }
    writer.commit().unwrap();
    let mut own = Vec::new();
    for number in 0..30u8 {
        own.push((reader.insert(&table, &[number; 5]).unwrap(), vec![number; 5]));
        own.sort();
        assert_eq!(rows(&mut reader, &table), own);
    }
    reader.commit().unwrap();
    assert_eq!(committed(&engine, &table).len(), 130);
}
