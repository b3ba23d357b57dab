//! Hazard: a backup copies files of different moments, which do not make a pool.
//!
//! A backup copies the pool's files one after the other while the server runs. While the pool is
//! held nothing may be stored: no commit in flight, no purge, no file ahead of need, no DDL, no
//! rollback. The copy is then what a crash at that moment leaves (I2).

use crate::common;

use crate::common::bank::Bank;
use crate::common::simulated::{audit, pool, survives};
use crate::common::threads::Threads;
use crate::common::{committed, reopen, row_bytes, seeds};
use perdura_engine::check::check;
use perdura_engine::{Engine, ErrorKind, Isolation};
use perdura_pmem::sim::{Image, Random};
use perdura_pmem::sync::yield_now;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

/// Creates, fills, truncates, renames and drops tables; prepares transactions, leaves them, and
/// decides them by name.
fn other_work(engine: &Engine, random: &mut Random) {
    for round in 0..4u32 {
        let table = engine.create_table("made", b"").unwrap();
        let mut txn = engine.session(Isolation::ReadCommitted);
        for number in 0..80 {
            txn.insert(&table, &row_bytes(number)).unwrap();
        }
        txn.end_statement();
        let savepoint = txn.savepoint();
        txn.insert(&table, b"taken back").unwrap();
        txn.end_statement();
        txn.rollback_to(&savepoint).unwrap();
        let xid = round.to_le_bytes();
        txn.prepare(&xid).unwrap();
        drop(txn);
        let decided = if random.one_in(2) { engine.commit_prepared(&xid) } else { engine.rollback_prepared(&xid) };
        assert!(decided.unwrap());
        drop(table);
        drop(engine.truncate_table("made").unwrap());
        engine.rename_table("made", "renamed").unwrap();
        engine.drop_table("renamed").unwrap();
    }
}

/// Holds the pool for a while, asserts that its files do not change, and returns a copy of them.
fn copy_held(engine: &Engine, medium: &SimMedium, random: &mut Random) -> Image {
    let hold = engine.hold(PATIENCE).unwrap();
    let first = medium.image();
    for _ in 0..random.below(60) {
        yield_now();
    }
    let last = medium.image();
    assert!(engine.release(hold), "nobody else let go of it");
    assert_eq!(first.hash(), last.hash(), "the files changed while the pool was held");
    last
}

#[test]
fn nothing_is_stored_while_the_pool_is_held() {
    for seed in seeds(150) {
        let (medium, engine) = pool();
        let bank = Bank::create(&engine, "t", 5);
        let mut copies = Vec::new();
        let mut threads = Threads::default();
        threads.transfer(&engine, &bank, seed, 10);
        threads.work(|| other_work(&engine, &mut Random::new(seed * 10 + 7)));
        threads.settle(&engine);
        let mut random = Random::new(seed * 10 + 9);
        threads.meanwhile(|| {
            copies.push(copy_held(&engine, &medium, &mut random));
            for _ in 0..random.below(200) {
                yield_now();
            }
        });
        threads.run(seed);
        for copy in copies {
            is_whole(copy, &bank, seed);
        }
        drop(bank);
        audit(&engine);
        survives(&medium, engine);
    }
}

/// Asserts that the copy passes the check, and that an engine on it finds all the money.
fn is_whole(copy: Image, bank: &Bank, seed: u64) {
    let medium = Arc::new(SimMedium::from_image(copy));
    let shared: Arc<dyn Medium> = medium.clone();
    let report = check(shared, &mut |_, _| ()).unwrap();
    assert!(report.problems.is_empty(), "seed {seed}: {:?}", report.problems);
    let engine = reopen(&medium);
    let bank = Bank { table: engine.table("t").unwrap(), accounts: bank.accounts.clone() };
    let mut txn = engine.session(Isolation::ReadCommitted);
    assert_eq!(bank.sum(&mut txn).unwrap(), bank.total(), "seed {seed}");
}

/// Hazard: a transaction that somebody left open overnight, or a prepared one, keeps every backup
/// waiting.
#[test]
fn idle_transactions_do_not_keep_the_pool_from_being_held() {
    let (_medium, engine) = common::pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut open = engine.session(Isolation::ReadCommitted);
    open.start_statement();
    open.insert(&table, b"open").unwrap();
    open.end_statement();
    let mut prepared = engine.session(Isolation::ReadCommitted);
    prepared.insert(&table, b"prepared").unwrap();
    prepared.prepare(b"branch").unwrap();
    let hold = engine.hold(Duration::ZERO).unwrap();
    assert!(engine.is_held());
    assert_eq!(engine.hold(PATIENCE).unwrap_err().kind(), ErrorKind::Exists);
    assert!(engine.release(hold));
    assert!(!engine.release(hold), "it was let go of already");
    open.commit().unwrap();
    prepared.commit().unwrap();
    assert_eq!(committed(&engine, &table).len(), 2);
}

/// A session that had truncated a table waited, within its change, for the DDL lock, whose holder
/// waited for the release: the pool could not be held.
#[test]
fn definitions_changed_by_two_sessions_do_not_keep_the_pool_from_being_held() {
    for seed in seeds(60) {
        let (_medium, engine) = pool();
        let mut threads = Threads::default();
        for name in ["one", "other"] {
            let engine = &engine;
            threads.work(move || {
                engine.create_table(name, b"").unwrap();
                for _ in 0..6 {
                    engine.truncate_table(name).unwrap();
                }
                engine.drop_table(name).unwrap();
            });
        }
        threads.meanwhile(|| {
            let held = engine.hold(PATIENCE);
            assert!(held.is_ok(), "seed {seed}: {held:?}");
            assert!(engine.release(held.unwrap()));
        });
        threads.run(seed);
        audit(&engine);
    }
}

/// Hazard: a statement that does not end makes the backup, and with it all other writers, wait for
/// ever.
#[test]
fn a_hold_that_waits_too_long_gives_up_and_lets_everybody_go_on() {
    let (_medium, engine) = common::pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut running = engine.session(Isolation::ReadCommitted);
    running.start_statement();
    running.insert(&table, b"one of many").unwrap();
    let error = engine.hold(Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockWaitTimeout, "{error}");
    assert!(!engine.is_held());
    let mut other = engine.session(Isolation::ReadCommitted);
    other.insert(&table, b"goes on").unwrap();
    other.commit().unwrap();
    running.commit().unwrap();
    engine.hold(Duration::ZERO).unwrap();
}

/// A release named no hold. So the one of a connection whose own hold was long over ended that of
/// another, whose copy then had files of several moments.
#[test]
fn a_number_releases_its_own_hold_waiting_or_not_and_no_other() {
    let (_medium, engine) = common::pool();
    let table = engine.create_table("t", b"").unwrap();
    assert_eq!(engine.present_hold(), None);
    let first = engine.hold(Duration::ZERO).unwrap();
    assert!(engine.release(first));
    let mut running = engine.session(Isolation::ReadCommitted);
    running.start_statement();
    running.insert(&table, b"one of many").unwrap();
    // It is named before it waits, so whoever knows the number can end the wait.
    let waiting = engine.begin_hold().unwrap();
    assert_eq!((engine.present_hold(), engine.is_held()), (Some(waiting), true));
    assert!(!engine.release(first), "another's");
    std::thread::scope(|scope| {
        let wait = scope.spawn(|| engine.await_hold(waiting, PATIENCE).unwrap_err());
        std::thread::sleep(Duration::from_millis(10));
        assert!(!wait.is_finished(), "a statement that has written is running");
        assert!(engine.release(waiting));
        let error = wait.join().unwrap();
        assert_eq!(error.kind(), ErrorKind::Killed, "{error}");
    });
    // A wait that ends without the pool may be taken up again, for the hold is there until it is
    // released.
    let next = engine.begin_hold().unwrap();
    let error = engine.await_hold(next, Duration::from_millis(2)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LockWaitTimeout, "{error}");
    running.end_statement();
    engine.await_hold(next, PATIENCE).unwrap();
    assert!(!engine.release(waiting) && !engine.release(first) && engine.is_held());
    assert!(engine.release(next));
    running.commit().unwrap();
}

/// Hazard: a statement that waits for the end of a backup cannot be killed, or a shutdown waits for
/// it.
#[test]
fn who_waits_for_the_release_can_be_killed_and_closing_releases() {
    let (_medium, engine) = common::pool();
    let table = engine.create_table("t", b"").unwrap();
    engine.hold(Duration::ZERO).unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let killer = txn.killer();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| txn.insert(&table, b"waits").unwrap_err());
        std::thread::sleep(Duration::from_millis(10));
        assert!(!waiting.is_finished(), "nothing was stored while the pool was held");
        killer.kill();
        assert_eq!(waiting.join().unwrap().kind(), ErrorKind::Killed);
    });
    drop(txn);
    engine.close();
    assert!(!engine.is_held());
}
