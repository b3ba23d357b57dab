//! Hazard: a program in safe Rust gets hold of a row that is changed or freed under it. The tests
//! use the engine as such a program does: readers, locked reads, tables of another pool. Tests
//! (I8).

use crate::common::pool;
use perdura_engine::{ErrorKind, Isolation, LockMode, ReadView, Result, Session, Table};
use std::sync::Arc;

/// All rows that a reader of `session` sees.
fn rows(session: &mut Session, table: &Arc<Table>) -> Vec<Vec<u8>> {
    let reader = session.reader();
    let rows: Result<Vec<_>> = reader.scan(table).unwrap().map(|row| Ok(row?.1.to_vec())).collect();
    rows.unwrap()
}

/// Hazard: commits of others and purge change the rows of a reader beneath it. All its rows must be
/// those of one moment.
#[test]
fn a_reader_keeps_its_rows_while_others_change_and_purge_them() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let (_medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let mut writer = engine.session(Isolation::ReadCommitted);
        let rids: Vec<_> = (0u8..100).map(|number| writer.insert(&table, &[number; 40]).unwrap()).collect();
        writer.commit().unwrap();

        let mut session = engine.session(isolation);
        let reader = session.reader();
        let mut scan = reader.scan(&table).unwrap();
        let first = scan.next().unwrap().unwrap();
        let kept: Vec<&[u8]> = rids.iter().map(|rid| reader.get(&table, *rid).unwrap().unwrap()).collect();
        for round in 0u8..5 {
            for rid in &rids {
                writer.update(&table, *rid, &[200 + round; 40]).unwrap();
            }
            writer.commit().unwrap();
            engine.checkpoint().unwrap();
            engine.purge();
        }
        for rid in &rids {
            writer.delete(&table, *rid).unwrap();
        }
        writer.commit().unwrap();
        engine.checkpoint().unwrap();
        engine.purge();
        assert_eq!(first, (rids[0], &[0u8; 40][..]));
        assert!(kept.iter().enumerate().all(|(number, row)| *row == [number as u8; 40]));
        assert_eq!(scan.map(|row| row.unwrap().1[0]).collect::<Vec<_>>(), (1..100).collect::<Vec<u8>>());
        drop(reader);
        session.commit().unwrap();
        assert!(rows(&mut session, &table).is_empty());
        drop(session);
        engine.purge();
        table.audit().unwrap();
    }
}

/// Hazard: a reader misses what its session wrote, or keeps its snapshot when it is dropped and so
/// holds purge back.
#[test]
fn a_reader_sees_its_own_session_and_lets_go() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut session = engine.session(Isolation::ReadCommitted);
    let rid = session.insert(&table, b"one").unwrap();
    assert_eq!(rows(&mut session, &table), [b"one"]);
    session.update(&table, rid, b"two").unwrap();
    assert_eq!(session.reader().get(&table, rid).unwrap(), Some(&b"two"[..]));
    session.commit().unwrap();
    session.update(&table, rid, b"three").unwrap();
    session.rollback().unwrap();
    assert_eq!(rows(&mut session, &table), [b"two"]);
    assert_eq!(engine.status().counters.snapshots, 0);
}

/// Hazard: a locked read returns an old version, or lets others change the row.
#[test]
fn a_locked_read_is_of_the_newest_row_and_locks_it() {
    let (_medium, engine) = pool();
    engine.set_lock_wait_timeout(std::time::Duration::ZERO);
    let table = engine.create_table("t", b"").unwrap();
    let (mut one, mut other) = (engine.session(Isolation::RepeatableRead), engine.session(Isolation::RepeatableRead));
    let rid = one.insert(&table, b"old").unwrap();
    one.commit().unwrap();
    assert_eq!(rows(&mut other, &table), [b"old"]);
    one.update(&table, rid, b"new").unwrap();
    one.commit().unwrap();
    assert_eq!(rows(&mut other, &table), [b"old"]);
    assert_eq!(other.get_for_update(&table, rid).unwrap(), Some(&b"new"[..]));
    assert_eq!(one.update(&table, rid, b"newer").unwrap_err().kind(), ErrorKind::LockWaitTimeout);
    other.rollback().unwrap();
    one.rollback().unwrap();
    one.delete(&table, rid).unwrap();
    one.commit().unwrap();
    assert_eq!(other.get_for_update(&table, rid).unwrap(), None);
}

/// Hazard: a session reads a table of another pool, where its snapshots and locks hold nothing. The
/// table must be refused.
#[test]
fn a_table_of_another_pool_is_refused() {
    let ((_one_medium, one), (_other_medium, other)) = (pool(), pool());
    let table = other.create_table("t", b"").unwrap();
    let mut theirs = other.session(Isolation::ReadCommitted);
    let rid = theirs.insert(&table, b"row").unwrap();
    theirs.commit().unwrap();
    let mut session = one.session(Isolation::ReadCommitted);
    let mut errors = vec![
        session.insert(&table, b"row").unwrap_err(),
        session.update(&table, rid, b"row").unwrap_err(),
        session.delete(&table, rid).unwrap_err(),
        session.get_for_update(&table, rid).unwrap_err(),
        session.locks().lock_row(&table, rid, LockMode::Shared).unwrap_err(),
        session.read(&table, rid, ReadView::Newest).unwrap_err(),
    ];
    let mut scan = session.scan(&table);
    errors.push(scan.next(&session).unwrap_err());
    let reader = session.reader();
    errors.extend([reader.get(&table, rid).unwrap_err(), reader.scan(&table).err().expect("refused")]);
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Configuration);
        assert!(error.to_string().contains("another pool"), "{error}");
    }
    assert_eq!(rows(&mut theirs, &table), [b"row"]);
}

/// Hazard: a savepoint of another session is taken for an own one, and rolls back as many writes as
/// that one had.
#[test]
fn a_savepoint_of_another_session_is_refused() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut one = engine.session(Isolation::RepeatableRead);
    one.insert(&table, b"one").unwrap();
    let savepoint = one.savepoint();
    let mut other = engine.session(Isolation::RepeatableRead);
    for row in [b"a", b"b"] {
        other.insert(&table, row).unwrap();
    }
    for foreign in [savepoint, Default::default()] {
        assert_eq!(other.rollback_to(&foreign).unwrap_err().kind(), ErrorKind::NotFound);
    }
    assert_eq!(rows(&mut other, &table), [b"a", b"b"]);
}

/// Hazard: a second prepare panics, or rolls back what the first one promised to keep.
#[test]
fn a_transaction_is_prepared_once() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut session = engine.session(Isolation::RepeatableRead);
    session.insert(&table, b"row").unwrap();
    session.prepare(b"first").unwrap();
    assert_eq!(session.prepare(b"second").unwrap_err().kind(), ErrorKind::NotSupported);
    session.commit_ordered();
    assert_eq!(session.prepare(b"third").unwrap_err().kind(), ErrorKind::NotSupported);
    session.commit().unwrap();
    assert_eq!(rows(&mut session, &table), [b"row"]);
}
