//! Hazard: the lists of transactions, row locks, waits and tables leave out who blocks, name the
//! wrong one, or open what is closed.

use crate::common::{pool, reopen, row_bytes, settle, small};
use perdura_engine::{
    Client, Config, Description, Engine, Isolation, LockKey, LockMode, LockStatus, LockWait, Rid, Session, Stage,
    Table, TableSpace, TransactionStatus,
};
use perdura_pmem::SimMedium;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The client of a session in these tests, by its number.
struct Numbered(u64);

impl Client for Numbered {
    fn context(&self) -> usize {
        self.0 as usize
    }

    fn conflict(&self, _holder: usize) -> bool {
        false
    }

    fn describe(&self) -> Description {
        Description { connection: self.0, user: format!("user{}", self.0), statement: format!("UPDATE by {}", self.0) }
    }
}

fn session(engine: &Engine, number: u64, isolation: Isolation) -> Session {
    let mut session = engine.session(isolation);
    session.set_lock_wait_timeout(Duration::from_secs(20));
    session.set_client(Some(Arc::new(Numbered(number))));
    session.mark_begun();
    session
}

fn transactions(engine: &Engine) -> Vec<TransactionStatus> {
    let mut all = Vec::new();
    engine.each_transaction(|one| {
        all.push(one);
        true
    });
    all
}

fn locks(engine: &Engine) -> Vec<LockStatus> {
    let mut all = Vec::new();
    assert!(engine.each_lock(|one| {
        all.push(one);
        true
    }));
    all
}

fn waits(engine: &Engine) -> Vec<LockWait> {
    let mut all = Vec::new();
    engine.each_wait(|one| {
        all.push(one);
        true
    });
    all
}

fn tables(engine: &Engine) -> Vec<TableSpace> {
    let mut all = Vec::new();
    engine.each_table(|one| {
        all.push(one);
        true
    });
    all
}

fn space(engine: &Engine, name: &str) -> TableSpace {
    tables(engine).into_iter().find(|table| table.name == name).expect("the table is listed")
}

fn until(mut reached: impl FnMut() -> bool) {
    while !reached() {
        std::thread::yield_now();
    }
}

fn two_rows(engine: &Engine) -> (Arc<Table>, Rid, Rid) {
    let table = engine.create_table("d/t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rows = (txn.insert(&table, b"a").unwrap(), txn.insert(&table, b"b").unwrap());
    txn.commit().unwrap();
    (table, rows.0, rows.1)
}

/// The clock of reports. Only one test moves it and reads it.
static NOW: AtomicU64 = AtomicU64::new(0);

#[test]
fn a_transaction_is_listed_from_its_beginning_to_its_end() {
    let clock = || Duration::from_secs(NOW.load(Ordering::SeqCst));
    let engine = Engine::open(Arc::new(SimMedium::new()), Config { clock, ..small() }).unwrap();
    let (table, a, b) = two_rows(&engine);
    assert!(transactions(&engine).is_empty());
    NOW.store(100, Ordering::SeqCst);
    let mut txn = session(&engine, 7, Isolation::RepeatableRead);
    NOW.store(110, Ordering::SeqCst);
    let begun = &transactions(&engine)[0];
    assert_eq!((begun.session, begun.age, begun.stage), (txn.id(), Duration::from_secs(10), Stage::Running));
    assert_eq!((begun.isolation, begun.snapshot, begun.memory), (Isolation::RepeatableRead, None, 0));
    assert_eq!(begun.client.as_ref().unwrap().user, "user7");
    assert!(txn.reader().get(&table, a).unwrap().is_some());
    txn.locks().lock_row(&table, b, LockMode::Exclusive).unwrap();
    txn.update(&table, a, b"a1").unwrap();
    txn.update(&table, a, b"a2").unwrap();
    txn.end_statement();
    NOW.store(130, Ordering::SeqCst);
    let busy = &transactions(&engine)[0];
    assert_eq!((busy.locks, busy.changes), (2, 2));
    assert!(busy.memory > 100, "{} bytes", busy.memory);
    let snapshot = busy.snapshot.expect("it has read");
    assert_eq!((snapshot.age, snapshot.csn), (Duration::from_secs(20), engine.counters().visible_csn));
    txn.prepare(b"x").unwrap();
    let prepared = &transactions(&engine)[0];
    assert_eq!((prepared.stage, prepared.snapshot), (Stage::Prepared, None));
    drop(txn);
    let detached = &transactions(&engine)[0];
    assert_eq!((detached.stage, detached.locks, detached.client.is_none()), (Stage::Prepared, 2, true));
    assert!(engine.commit_prepared(b"x").unwrap());
    assert!(transactions(&engine).is_empty());
}

/// Hazard: a statement under READ COMMITTED that runs for hours keeps purge waiting, and nobody
/// sees which it is.
#[test]
fn the_snapshot_of_a_statement_counts() {
    let (_medium, engine) = pool();
    let (table, a, _) = two_rows(&engine);
    let mut txn = session(&engine, 1, Isolation::ReadCommitted);
    let reader = txn.reader();
    assert!(reader.get(&table, a).unwrap().is_some());
    assert!(transactions(&engine)[0].snapshot.is_some());
    drop(reader);
    assert!(transactions(&engine)[0].snapshot.is_none());
    assert_eq!(transactions(&engine)[0].isolation, Isolation::ReadCommitted);
}

#[test]
fn a_prepared_transaction_is_listed_after_a_restart() {
    let (medium, engine) = pool();
    let (table, a, _) = two_rows(&engine);
    let mut txn = session(&engine, 1, Isolation::ReadCommitted);
    txn.update(&table, a, b"prepared").unwrap();
    txn.prepare(b"x").unwrap();
    drop((txn, table));
    engine.close();
    drop(engine);
    let engine = reopen(&medium);
    let found = transactions(&engine);
    assert_eq!(found.iter().map(|one| (one.stage, one.locks)).collect::<Vec<_>>(), [(Stage::Prepared, 1)]);
    assert!(engine.rollback_prepared(b"x").unwrap());
    assert!(transactions(&engine).is_empty());
}

#[test]
fn a_wait_is_in_all_three_lists() {
    let (_medium, engine) = pool();
    let (table, a, b) = two_rows(&engine);
    let mut holder = session(&engine, 1, Isolation::ReadCommitted);
    holder.update(&table, a, b"a1").unwrap();
    holder.locks().lock_row(&table, b, LockMode::Shared).unwrap();
    // Nobody waits for the locks in place, so they are only counted.
    assert!(locks(&engine).is_empty());
    assert_eq!((transactions(&engine)[0].locks, waits(&engine)), (2, Vec::new()));
    let mut refused = session(&engine, 3, Isolation::ReadCommitted);
    assert!(refused.locks().try_lock_row(&table, b, LockMode::Exclusive).unwrap().is_none());
    let shared = LockStatus {
        session: holder.id(),
        connection: Some(1),
        table: "d/t".to_owned(),
        key: LockKey::row(table.id(), b),
        mode: LockMode::Shared,
        waits: false,
    };
    assert_eq!(locks(&engine), std::slice::from_ref(&shared), "somebody has met it");
    drop(refused);
    std::thread::scope(|scope| {
        let mut waiter = session(&engine, 2, Isolation::ReadCommitted);
        let (id, table) = (waiter.id(), &table);
        let waiter = scope.spawn(move || waiter.update(table, a, b"a2").map(|()| waiter.rollback().unwrap()));
        until(|| !waits(&engine).is_empty());
        let held = LockStatus { key: LockKey::row(table.id(), a), mode: LockMode::Exclusive, ..shared.clone() };
        let wanted = LockStatus { session: id, connection: Some(2), waits: true, ..held.clone() };
        assert_eq!(locks(&engine), [held, wanted, shared]);
        let wait = &waits(&engine)[0];
        assert_eq!((wait.waiter.session, wait.blocker.session, wait.blockers), (id, holder.id(), 1));
        assert_eq!((wait.waiter.connection(), wait.blocker.connection()), (Some(2), Some(1)));
        assert_eq!(wait.blocker.client.as_ref().unwrap().statement, "UPDATE by 1");
        assert_eq!(
            (wait.table.as_str(), wait.key, wait.mode),
            ("d/t", LockKey::row(table.id(), a), LockMode::Exclusive)
        );
        let waits_for: Vec<_> =
            transactions(&engine).into_iter().map(|one| one.wait.map(|wait| (wait.table, wait.key))).collect();
        assert_eq!(waits_for, [None, Some(("d/t".to_owned(), LockKey::row(table.id(), a)))]);
        holder.rollback().unwrap();
        waiter.join().unwrap().unwrap();
    });
    assert!(locks(&engine).is_empty() && waits(&engine).is_empty());
}

/// Hazard: a thousand connections that wait for one row make half a million rows.
#[test]
fn of_a_long_queue_sixteen_blockers_are_listed() {
    let (_medium, engine) = pool();
    let (table, a, _) = two_rows(&engine);
    let mut holder = session(&engine, 100, Isolation::ReadCommitted);
    holder.locks().lock_row(&table, a, LockMode::Exclusive).unwrap();
    std::thread::scope(|scope| {
        for number in 0..20 {
            let (mut waiter, table) = (session(&engine, number, Isolation::ReadCommitted), &table);
            scope.spawn(move || {
                waiter.locks().lock_row(table, a, LockMode::Exclusive).map(|_| waiter.rollback().unwrap())
            });
            until(|| engine.counters().locks_waited_for == number + 1);
        }
        let last: Vec<_> = waits(&engine).into_iter().filter(|wait| wait.blockers == 20).collect();
        assert_eq!((last.len(), last[0].blocker.connection()), (16, Some(100)));
        holder.rollback().unwrap();
    });
}

#[test]
fn the_space_of_a_table_follows_its_rows() {
    let (_medium, engine) = pool();
    let table = engine.create_table("d/t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rids: Vec<_> = (0..400).map(|number| txn.insert(&table, &row_bytes(number)).unwrap()).collect();
    txn.commit().unwrap();
    settle(&engine);
    let full = space(&engine, "d/t");
    assert!(full.is_open && full.rows == Some(400) && full.files == 1 && full.purge_lag == 0, "{full:?}");
    rids.iter().for_each(|rid| txn.delete(&table, *rid).unwrap());
    txn.commit().unwrap();
    let deleted = space(&engine, "d/t");
    assert_eq!((deleted.rows, deleted.purge_lag, deleted.free_bytes), (Some(0), 400, full.free_bytes));
    settle(&engine);
    let purged = space(&engine, "d/t");
    assert!(purged.purge_lag == 0 && purged.free_bytes > full.free_bytes, "{purged:?}");
}

/// Hazard: to look at the space of a thousand tables maps the files of all of them, or keeps them
/// from being closed.
#[test]
fn closed_tables_are_listed_and_stay_closed() {
    let (medium, engine) = pool();
    // More than are copied from the register at once.
    for number in 0..300 {
        engine.create_table(&format!("d/t{number:03}"), b"").unwrap();
    }
    let table = engine.table("d/t007").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.insert(&table, b"row").unwrap();
    txn.commit().unwrap();
    drop((txn, table));
    engine.close();
    drop(engine);
    let engine = reopen(&medium);
    let names: Vec<_> = tables(&engine).into_iter().map(|table| table.name).collect();
    let mut sorted = names[1..].to_vec();
    sorted.sort();
    assert_eq!((names.len(), &names[1..]), (301, &sorted[..]));
    let closed = space(&engine, "d/t007");
    assert_eq!((closed.is_open, closed.files, closed.rows, closed.free_bytes), (false, 1, None, None));
    assert!(closed.data_bytes >= 64 << 10);
    drop(engine.table("d/t007").unwrap());
    assert_eq!((space(&engine, "d/t007").is_open, space(&engine, "d/t007").rows), (true, Some(1)));
    assert_eq!(tables(&engine).iter().filter(|table| table.is_open).count(), 2, "the catalog and that one");
}
