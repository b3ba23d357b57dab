//! Hazard: the server or a DBA is told wrongly who blocks whom: which sessions a waiter waits for,
//! which of them must give way, and what the report says of both.

use crate::common;

use crate::common::{pool, small};
use perdura_engine::{Client, Description, Engine, ErrorKind, Isolation, Killer, LockMode, Rid, Session, Table};
use perdura_pmem::SimMedium;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The client of a session in these tests. Its number is its context.
struct Fake {
    number: usize,
    /// Sessions with a higher number commit after this one, so they give way to it.
    ordered: bool,
    /// Contexts of the sessions that this one was told it waits for.
    told: Mutex<Vec<usize>>,
    ended: AtomicBool,
    kill: Mutex<Vec<(usize, Killer)>>,
}

impl Fake {
    fn behind(txn: &mut Session, number: usize, ordered: bool) -> Arc<Fake> {
        let fake = Arc::new(Fake {
            number,
            ordered,
            told: Mutex::default(),
            ended: AtomicBool::new(false),
            kill: Mutex::default(),
        });
        txn.set_client(Some(fake.clone()));
        fake
    }
}

impl Client for Fake {
    fn context(&self) -> usize {
        assert!(!self.ended.load(Ordering::SeqCst), "session {} was asked after its end", self.number);
        self.number
    }

    fn conflict(&self, holder: usize) -> bool {
        self.told.lock().unwrap().push(holder);
        let makes_way = self.ordered && holder > self.number;
        if makes_way && let Some((_, killer)) = self.kill.lock().unwrap().iter().find(|(number, _)| *number == holder) {
            killer.kill();
        }
        makes_way
    }

    fn describe(&self) -> Description {
        assert!(!self.ended.load(Ordering::SeqCst), "session {} was described after its end", self.number);
        Description {
            connection: self.number as u64,
            user: format!("user{}", self.number),
            statement: format!("UPDATE t -- by {}", self.number),
        }
    }
}

const LONG: Duration = Duration::from_secs(20);

fn two_rows(engine: &Engine) -> (Arc<Table>, Rid, Rid) {
    let table = engine.create_table("d/t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rows = (txn.insert(&table, b"a").unwrap(), txn.insert(&table, b"b").unwrap());
    txn.commit().unwrap();
    (table, rows.0, rows.1)
}

fn session(engine: &Engine, number: usize, ordered: bool) -> (Session, Arc<Fake>) {
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.set_lock_wait_timeout(LONG);
    let fake = Fake::behind(&mut txn, number, ordered);
    (txn, fake)
}

fn until(mut reached: impl FnMut() -> bool) {
    while !reached() {
        std::thread::yield_now();
    }
}

fn waiting(engine: &Engine) -> usize {
    engine.status().counters.locks_waited_for as usize
}

/// Hazard: in replication, which commits in the primary's order, an earlier transaction waits in
/// silence for a later one, which waits to commit after it, until the timeout. The server must be
/// told of every session that a waiter waits for, those before it in the queue included.
#[test]
fn a_waiter_names_holders_and_those_before_it() {
    let (_medium, engine) = pool();
    let (table, a, _) = two_rows(&engine);
    let (mut first, _fake) = session(&engine, 1, false);
    first.locks().lock_row(&table, a, LockMode::Shared).unwrap();
    let (mut second, _fake) = session(&engine, 2, false);
    second.locks().lock_row(&table, a, LockMode::Shared).unwrap();
    std::thread::scope(|scope| {
        let (mut third, third_fake) = session(&engine, 3, false);
        let (mut fourth, fourth_fake) = session(&engine, 4, false);
        let table = &table;
        let third = scope
            .spawn(move || third.locks().lock_row(table, a, LockMode::Exclusive).map(|_| third.rollback().unwrap()));
        until(|| waiting(&engine) == 1);
        let fourth = scope
            .spawn(move || fourth.locks().lock_row(table, a, LockMode::Exclusive).map(|_| fourth.rollback().unwrap()));
        until(|| waiting(&engine) == 2);
        first.rollback().unwrap();
        second.rollback().unwrap();
        third.join().unwrap().unwrap();
        fourth.join().unwrap().unwrap();
        assert_eq!(*third_fake.told.lock().unwrap(), [1, 2]);
        assert_eq!(*fourth_fake.told.lock().unwrap(), [1, 2, 3]);
    });
}

/// The transaction that must commit first closes a cycle with one that must commit later. Refused
/// as the victim, it would be retried and meet the same one again. The server kills the later one
/// instead, whose wait ends at once, and the first goes on.
#[test]
fn who_commits_later_makes_way_and_is_no_deadlock() {
    let (_medium, engine) = pool();
    let (table, a, b) = two_rows(&engine);
    let (mut early, early_fake) = session(&engine, 1, true);
    let (mut late, _late_fake) = session(&engine, 2, true);
    early_fake.kill.lock().unwrap().push((2, late.killer()));
    early.update(&table, a, b"a1").unwrap();
    std::thread::scope(|scope| {
        let other = table.clone();
        let late = scope.spawn(move || {
            late.update(&other, b, b"b2").unwrap();
            let killed = late.update(&other, a, b"a2").map_err(|error| error.kind());
            late.rollback().unwrap();
            late.start_statement();
            // The retry, after the first has committed.
            late.update(&other, b, b"b2").unwrap();
            late.update(&other, a, b"a2").unwrap();
            late.commit().unwrap();
            killed
        });
        until(|| waiting(&engine) == 1);
        early.update(&table, b, b"b1").unwrap();
        early.commit().unwrap();
        assert_eq!(late.join().unwrap(), Err(ErrorKind::Killed));
    });
    assert_eq!(*early_fake.told.lock().unwrap(), [2]);
    assert_eq!(engine.counters().deadlocks, 0);
    assert_eq!(common::committed(&engine, &table), [b"a2".to_vec(), b"b2".to_vec()]);
}

/// Hazard: a client is called after its session has ended, by another session that conflicts with
/// it or by the report.
#[test]
fn nobody_is_asked_after_its_end() {
    let (_medium, engine) = pool();
    let (table, a, b) = two_rows(&engine);
    let told = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let (engine, table, told) = (&engine, &table, &told);
                scope.spawn(move || {
                    for round in 0.. {
                        if told.load(Ordering::Relaxed) >= 200 {
                            return;
                        }
                        let (mut txn, fake) = session(engine, worker, false);
                        let rows = if (worker + round) % 2 == 0 { [a, b] } else { [b, a] };
                        // The update may be refused as a deadlock; the session ends either way.
                        if txn.update(table, rows[0], b"x").is_ok() {
                            std::thread::yield_now();
                            let _ = txn.update(table, rows[1], b"y");
                        }
                        drop(txn);
                        fake.ended.store(true, Ordering::SeqCst);
                        told.fetch_add(fake.told.lock().unwrap().len() as u64, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let reports = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                engine.status().to_string();
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        reports.join().unwrap();
    });
}

/// The clock of reports. Only one test moves it and reads it.
static NOW: AtomicU64 = AtomicU64::new(0);

fn reported(engine: &Engine, words: &str) {
    let report = engine.status().to_string();
    assert!(report.contains(words), "no {words:?} in:\n{report}");
}

/// Hazard: a report with bare numbers of sessions and tables does not tell a DBA whom to kill.
#[test]
fn the_report_names_who_waits_for_whom_and_the_last_deadlock() {
    let clock = || Duration::from_secs(NOW.load(Ordering::SeqCst));
    let engine = Engine::open(Arc::new(SimMedium::new()), perdura_engine::Config { clock, ..small() }).unwrap();
    let (table, a, b) = two_rows(&engine);
    NOW.store(100, Ordering::SeqCst);
    let (mut idle, _fake) = session(&engine, 9, false);
    idle.mark_begun();
    let (mut one, _fake) = session(&engine, 1, false);
    one.mark_begun();
    one.update(&table, a, b"a1").unwrap();
    one.update(&table, a, b"a1 again").unwrap();
    NOW.store(103, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let other = table.clone();
        let (mut two, _fake) = session(&engine, 2, false);
        let two = scope.spawn(move || {
            two.mark_begun();
            two.update(&other, b, b"b2").unwrap();
            let outcome = two.update(&other, a, b"a2");
            two.rollback().unwrap();
            outcome
        });
        until(|| waiting(&engine) == 1);
        NOW.store(105, Ordering::SeqCst);
        reported(&engine, "connection 1 of user1: active 5 s, 1 locks, 2 changes\n    executes: UPDATE t -- by 1\n");
        reported(
            &engine,
            "connection 2 of user2: active 2 s, 1 locks, 1 changes\n    executes: UPDATE t -- by 2\n    waits 2 s",
        );
        reported(
            &engine,
            &format!("for row {:#x} of table d/t, held by session {} (connection 1)", a.to_u64(), one.id()),
        );
        assert!(!engine.status().to_string().contains("user9"), "a session that only began is no news");
        let error = one.update(&table, b, b"b1").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Deadlock);
        // The report keeps the deadlock as it was when it was found.
        one.rollback().unwrap();
        two.join().unwrap().unwrap();
    });
    let id = one.id();
    drop((idle, one));
    engine.rename_table("d/t", "d/other").unwrap();
    NOW.store(125, Ordering::SeqCst);
    reported(&engine, "LAST DEADLOCK\n  20 s ago, 2 transactions; the first was rolled back\n");
    reported(&engine, &format!("session {id}, connection 1 of user1 (rolled back)\n    executes: UPDATE t -- by 1\n"));
    reported(&engine, &format!("waited for row {:#x} of table d/t, held by session", b.to_u64()));
    reported(&engine, "connection 2 of user2\n    executes: UPDATE t -- by 2\n");
    reported(&engine, &format!("waited for row {:#x} of table d/t, held by session {id}\n", a.to_u64()));
    reported(&engine, "TRANSACTIONS\n  none that wrote");
}

/// Hazard: thousands of sessions make a report of megabytes.
#[test]
fn a_report_lists_the_oldest_and_counts_the_rest() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut open = Vec::new();
    for number in 0..150 {
        let (mut txn, _fake) = session(&engine, number, false);
        txn.insert(&table, b"x").unwrap();
        open.push(txn);
    }
    let status = engine.status();
    assert_eq!((status.transactions.len(), status.transactions_active), (100, 150));
    assert_eq!(status.transactions[0].client.as_ref().unwrap().connection, 0, "the oldest comes first");
    reported(&engine, "\n  and 50 more\n");
}

/// Hazard: a prepared transaction whose connection has ended holds locks and is in no report.
#[test]
fn a_prepared_transaction_without_a_connection_is_listed() {
    let (_medium, engine) = pool();
    let (table, a, _) = two_rows(&engine);
    let (mut txn, fake) = session(&engine, 1, false);
    txn.update(&table, a, b"prepared").unwrap();
    txn.prepare(b"x").unwrap();
    drop(txn);
    fake.ended.store(true, Ordering::SeqCst);
    reported(&engine, "without a connection: active 0 s, 1 locks, 1 changes\n");
    assert!(engine.rollback_prepared(b"x").unwrap());
    reported(&engine, "TRANSACTIONS\n  none that wrote");
}
