//! Hazard: what a SERIALIZABLE transaction has read changes before it ends: rows that it decided by
//! (write skew), rows that it did not find (phantoms), rows whose writer it did not meet because
//! both came at the same moment.
//!
//! Each seed replays one interleaving of threads. Writers of all levels work beside the
//! SERIALIZABLE ones.

use crate::common;

use crate::common::simulated::{audit, pool, survives};
use crate::common::threads::Threads;
use crate::common::{reopen, row_bytes, rows, seeds, settle};
use perdura_engine::{Engine, Error, ErrorKind, Isolation, LockMode, ReadView, Rid, Session, Table};
use perdura_pmem::sim::{Body, Random, Scheduler};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(1000);

fn session(engine: &Engine, isolation: Isolation) -> Session {
    let mut txn = engine.session(isolation);
    txn.set_lock_wait_timeout(LONG);
    txn
}

/// All rows, once the transaction has locked the table.
fn locked_rows(txn: &mut Session, table: &Arc<Table>, mode: LockMode) -> Result<Vec<(Rid, Vec<u8>)>, Error> {
    txn.start_statement();
    txn.locks().lock_table(table, mode)?;
    common::try_rows(txn, table)
}

/// Ends a transaction: commits if all went well, else rolls back, which only a deadlock or a
/// conflict may demand.
fn end(txn: &mut Session, outcome: Result<bool, Error>) -> bool {
    match outcome {
        Ok(true) => {
            txn.commit().unwrap();
            return true;
        }
        Ok(false) => {}
        Err(error) => {
            let expected = [ErrorKind::Deadlock, ErrorKind::RecordChanged, ErrorKind::NotFound].contains(&error.kind());
            assert!(expected, "{:?}: {error}", error.kind());
        }
    }
    txn.rollback().unwrap();
    false
}

fn nobody_waits(engine: &Engine, seed: u64) {
    let counters = engine.counters();
    assert_eq!((counters.locks_held, counters.locks_waited_for), (0, 0), "seed {seed}");
}

/// Write skew: each takes itself off call if another is left. Somebody must stay.
#[test]
fn somebody_stays_on_call() {
    let (mut victims, mut left) = (0, 0);
    for seed in seeds(300) {
        let (medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let mut txn = session(&engine, Isolation::ReadCommitted);
        let doctors: Vec<Rid> = (0..3).map(|_| txn.insert(&table, b"on").unwrap()).collect();
        txn.commit().unwrap();
        drop(txn);
        let leaves = AtomicU32::new(0);
        let body = |thread: usize| -> Body<'_> {
            let (engine, table, doctors, leaves) = (&engine, &table, &doctors, &leaves);
            Box::new(move || {
                let mut txn = session(engine, Isolation::Serializable);
                let outcome = locked_rows(&mut txn, table, LockMode::Shared).and_then(|found| {
                    let others = found.iter().filter(|(rid, row)| *rid != doctors[thread] && row == b"on").count();
                    if others == 0 {
                        return Ok(false);
                    }
                    txn.update(table, doctors[thread], b"off")?;
                    Ok(true)
                });
                leaves.fetch_add(u32::from(end(&mut txn, outcome)), Ordering::Relaxed);
            })
        };
        Scheduler::new(seed).run((0..3).map(body).collect());
        let mut txn = session(&engine, Isolation::ReadCommitted);
        let on = rows(&mut txn, &table).iter().filter(|(_, row)| row == b"on").count();
        assert!(on >= 1, "seed {seed}: nobody is on call");
        drop(txn);
        victims += engine.counters().deadlocks;
        left += leaves.into_inner();
        nobody_waits(&engine, seed);
        drop(table);
        audit(&engine);
        survives(&medium, engine);
    }
    assert!(victims > 50 && left > 200, "{victims} victims, {left} off call: the hazard was met");
}

/// Phantoms: each inserts rows if the table has room for them by its own count. There must never be
/// too many, whether rows come one by one or in bulk, and whoever rolls back.
#[test]
fn counted_room_is_not_given_twice() {
    const MOST: usize = 200;
    let mut full = 0;
    for seed in seeds(150) {
        let (medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let mut threads = Threads::default();
        for thread in 0..3 {
            let (engine, table) = (&engine, &table);
            threads.work(move || {
                let mut random = Random::new(seed * 3 + thread);
                let mut txn = session(engine, Isolation::Serializable);
                for round in 0..4 {
                    let count = if random.one_in(3) { 90 } else { 1 + random.below(30) as usize };
                    // Some know from the start that they are going to write.
                    let mode = if random.one_in(2) { LockMode::Exclusive } else { LockMode::Shared };
                    let outcome = locked_rows(&mut txn, table, mode).and_then(|found| {
                        if found.len() + count > MOST {
                            return Ok(false);
                        }
                        for number in 0..count {
                            txn.insert(table, &row_bytes((round * 1000 + number) as u32))?;
                        }
                        Ok(!random.one_in(5))
                    });
                    end(&mut txn, outcome);
                }
            });
        }
        threads.settle(&engine);
        threads.run(seed);
        let mut txn = session(&engine, Isolation::ReadCommitted);
        let count = rows(&mut txn, &table).len();
        assert!(count <= MOST, "seed {seed}: {count} rows");
        full += u32::from(count > MOST / 2);
        drop(txn);
        nobody_waits(&engine, seed);
        drop(table);
        audit(&engine);
        survives(&medium, engine);
    }
    assert!(full > 20, "{full} tables filled: the hazard was met");
}

/// One transaction of a writer that knows nothing of readers: inserts, many or few, updates and
/// deletions, at times a savepoint, at times undone or prepared first.
fn write_some(txn: &mut Session, table: &Arc<Table>, known: &[Rid], random: &mut Random) -> Result<bool, Error> {
    txn.start_statement();
    match random.below(4) {
        0 => {
            for number in 0..70 + random.below(30) {
                txn.insert(table, &row_bytes(number as u32))?;
            }
        }
        1 => {
            txn.insert(table, &row_bytes(7))?;
            let savepoint = txn.savepoint();
            txn.insert(table, &row_bytes(8))?;
            txn.rollback_to(&savepoint).unwrap();
        }
        kind => {
            for _ in 0..1 + random.below(3) {
                let rid = known[random.below(known.len() as u64) as usize];
                let changed = match kind {
                    2 => txn.update(table, rid, &row_bytes(random.below(50) as u32)),
                    _ => txn.delete(table, rid),
                };
                match changed {
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    other => other?,
                }
            }
        }
    }
    if random.one_in(4) {
        txn.prepare(b"xid").unwrap();
    }
    Ok(!random.one_in(4))
}

/// Whoever has locked a table finds the same rows at every look, and its own writes besides,
/// whatever writers of lower levels, purge, the mover of rows and other readers do.
#[test]
fn a_locked_table_stands_still() {
    let levels = [Isolation::ReadCommitted, Isolation::ConsistentReads, Isolation::RepeatableRead];
    for seed in seeds(150) {
        let (medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let mut txn = session(&engine, Isolation::ReadCommitted);
        let known: Vec<Rid> = (0..60).map(|number| txn.insert(&table, &row_bytes(number)).unwrap()).collect();
        txn.commit().unwrap();
        drop(txn);
        let mut threads = Threads::default();
        for (thread, isolation) in levels.into_iter().enumerate() {
            let (engine, table, known) = (&engine, &table, &known);
            threads.work(move || {
                let mut random = Random::new(seed * 5 + thread as u64);
                let mut txn = session(engine, isolation);
                for _ in 0..6 {
                    let outcome = write_some(&mut txn, table, known, &mut random);
                    end(&mut txn, outcome);
                }
            });
        }
        for thread in 0..2 {
            let (engine, table) = (&engine, &table);
            threads.work(move || {
                let mut random = Random::new(seed * 5 + 3 + thread);
                let mut txn = session(engine, Isolation::Serializable);
                for _ in 0..4 {
                    let outcome = look_twice(&mut txn, table, &mut random, seed);
                    end(&mut txn, outcome);
                }
            });
        }
        threads.meanwhile(|| {
            settle(&engine);
            engine.compact();
        });
        threads.run(seed);
        nobody_waits(&engine, seed);
        drop(table);
        audit(&engine);
        survives(&medium, engine);
    }
}

/// Looks at all rows twice, at times with a write of its own before or between.
fn look_twice(txn: &mut Session, table: &Arc<Table>, random: &mut Random, seed: u64) -> Result<bool, Error> {
    let mut own = 0;
    if random.one_in(3) {
        txn.insert(table, b"own")?;
        own += 1;
    }
    let mode = if random.one_in(3) { LockMode::Exclusive } else { LockMode::Shared };
    let first = locked_rows(txn, table, mode)?;
    if random.one_in(3) {
        txn.insert(table, b"own")?;
        own += 1;
    }
    perdura_pmem::sync::yield_now();
    let mut second = locked_rows(txn, table, LockMode::Shared)?;
    assert!(second.iter().filter(|(_, row)| row == b"own").count() >= own, "seed {seed}: own rows are missing");
    second.retain(|row| first.contains(row) || row.1 != b"own");
    assert_eq!(first, second, "seed {seed}: the table has changed");
    Ok(false)
}

/// The race of announcement and look: a writer enters its first row, maybe on a page whose shadow
/// nobody ever had, in the moment in which a reader comes. Both at once must not happen, and nobody
/// waits for ever.
#[test]
fn a_writer_and_a_reader_that_come_together_see_each_other() {
    let (mut waited, mut free) = (0, 0);
    for seed in seeds(600) {
        let (_medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let mut filler = session(&engine, Isolation::ReadCommitted);
        // Up to the last pages of a bucket of shadows in half of the runs.
        let filled = if seed.is_multiple_of(2) { 460 + seed % 60 } else { 3 };
        let rids: Vec<Rid> =
            (0..filled).map(|number| filler.insert(&table, &row_bytes(number as u32)).unwrap()).collect();
        filler.commit().unwrap();
        settle(&engine);
        drop(filler);
        let (writing, reading) = (AtomicU32::new(0), AtomicU32::new(0));
        let mut bodies: Vec<Body<'_>> = Vec::new();
        for thread in 0..2u64 {
            let (engine, table, rids, writing, reading) = (&engine, &table, &rids, &writing, &reading);
            bodies.push(Box::new(move || {
                let mut random = Random::new(seed * 2 + thread);
                let mut txn = session(engine, Isolation::ReadCommitted);
                txn.start_statement();
                let outcome = match random.below(3) {
                    0 => txn.update(table, rids[thread as usize], b"new"),
                    1 => txn.locks().lock_row(table, rids[thread as usize], LockMode::Exclusive).map(|_| ()),
                    _ => (0..1 + random.below(70)).try_for_each(|_| txn.insert(table, b"new").map(|_| ())),
                };
                outcome.unwrap();
                writing.fetch_add(1, Ordering::SeqCst);
                assert_eq!(reading.load(Ordering::SeqCst), 0, "seed {seed}: a writer beside a reader");
                perdura_pmem::sync::yield_now();
                assert_eq!(reading.load(Ordering::SeqCst), 0, "seed {seed}: a reader beside a writer");
                writing.fetch_sub(1, Ordering::SeqCst);
                if random.one_in(2) { txn.rollback().unwrap() } else { txn.commit().map(|_| ()).unwrap() }
            }));
        }
        for _ in 0..2 {
            let (engine, table, writing, reading) = (&engine, &table, &writing, &reading);
            bodies.push(Box::new(move || {
                let mut txn = session(engine, Isolation::Serializable);
                let first = locked_rows(&mut txn, table, LockMode::Shared).unwrap();
                reading.fetch_add(1, Ordering::SeqCst);
                assert_eq!(writing.load(Ordering::SeqCst), 0, "seed {seed}: a reader beside a writer");
                perdura_pmem::sync::yield_now();
                assert_eq!(writing.load(Ordering::SeqCst), 0, "seed {seed}: a writer beside a reader");
                assert_eq!(first, locked_rows(&mut txn, table, LockMode::Shared).unwrap(), "seed {seed}");
                reading.fetch_sub(1, Ordering::SeqCst);
                txn.commit().unwrap();
            }));
        }
        Scheduler::new(seed).switch_one_in(1 + seed % 6).run(bodies);
        let waits = engine.counters().lock_waits;
        waited += u32::from(waits > 0);
        free += u32::from(waits == 0);
        nobody_waits(&engine, seed);
        drop(table);
        audit(&engine);
    }
    assert!(waited > 100 && free > 10, "{waited} runs with waits, {free} without: the race was met");
}

/// Of two that have read and then write, one is the victim, at once, and the other goes on.
#[test]
fn two_readers_that_write_are_a_deadlock_of_two() {
    for seed in seeds(100) {
        let (_medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let (both, done) = (AtomicU32::new(0), AtomicU32::new(0));
        let body = |_| -> Body<'_> {
            let (engine, table, both, done) = (&engine, &table, &both, &done);
            Box::new(move || {
                let mut txn = session(engine, Isolation::Serializable);
                locked_rows(&mut txn, table, LockMode::Shared).unwrap();
                both.fetch_add(1, Ordering::Relaxed);
                perdura_pmem::sync::spin_until(|| both.load(Ordering::Relaxed) == 2);
                let outcome = txn.insert(table, b"row").map(|_| true);
                done.fetch_add(u32::from(end(&mut txn, outcome)), Ordering::Relaxed);
            })
        };
        Scheduler::new(seed).run((0..2).map(body).collect());
        assert_eq!((done.into_inner(), engine.counters().deadlocks), (1, 1), "seed {seed}");
        nobody_waits(&engine, seed);
    }
}

/// A transaction that is going to write locks exclusively at once, so that those of its kind queue
/// up and none fails.
#[test]
fn those_who_are_going_to_write_are_no_deadlock() {
    for seed in seeds(100) {
        let (_medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let body = |_| -> Body<'_> {
            let (engine, table) = (&engine, &table);
            Box::new(move || {
                let mut txn = session(engine, Isolation::Serializable);
                for _ in 0..3 {
                    let count = locked_rows(&mut txn, table, LockMode::Exclusive).unwrap().len();
                    txn.insert(table, &row_bytes(count as u32)).unwrap();
                    txn.commit().unwrap();
                }
            })
        };
        Scheduler::new(seed).run((0..3).map(body).collect());
        let mut txn = session(&engine, Isolation::ReadCommitted);
        let mut found: Vec<_> = rows(&mut txn, &table).into_iter().map(|(_, row)| row).collect();
        found.sort();
        assert_eq!(found, (0..9).map(row_bytes).collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(engine.counters().deadlocks, 0, "seed {seed}");
    }
}

/// A prepared transaction stays a writer without its session, and after a restart.
#[test]
fn a_prepared_writer_keeps_readers_off() {
    let (medium, mut engine) = common::pool();
    let table = engine.create_table("t", b"").unwrap();
    let bulk = engine.create_table("bulk", b"").unwrap();
    let mut txn = session(&engine, Isolation::Serializable);
    txn.insert(&table, b"row").unwrap();
    for number in 0..100 {
        txn.insert(&bulk, &row_bytes(number)).unwrap();
    }
    txn.prepare(b"xid").unwrap();
    drop(txn);
    drop((table, bulk));
    for restart in [false, true] {
        if restart {
            drop(engine);
            engine = reopen(&medium);
        }
        for name in ["t", "bulk"] {
            let table = engine.table(name).unwrap();
            let mut reader = engine.session(Isolation::Serializable);
            assert!(!reader.locks().try_lock_table(&table, LockMode::Shared).unwrap(), "{name}, restart {restart}");
            // A transaction that has not locked the table is not kept off.
            let mut other = engine.session(Isolation::ReadCommitted);
            other.insert(&table, b"other").unwrap();
            other.rollback().unwrap();
        }
    }
    engine.commit_prepared(b"xid").unwrap();
    for (name, count) in [("t", 1), ("bulk", 100)] {
        let mut reader = engine.session(Isolation::Serializable);
        let found = locked_rows(&mut reader, &engine.table(name).unwrap(), LockMode::Shared).unwrap();
        assert_eq!(found.len(), count);
    }
}

/// A prepared transaction that has read keeps writers off until it is decided: otherwise a snapshot
/// could see what came after it, and not the transaction itself.
#[test]
fn a_prepared_reader_keeps_writers_off() {
    let (_medium, engine) = common::pool();
    let [read, written] = ["read", "written"].map(|name| engine.create_table(name, b"").unwrap());
    let mut txn = session(&engine, Isolation::Serializable);
    locked_rows(&mut txn, &read, LockMode::Shared).unwrap();
    txn.insert(&written, b"row").unwrap();
    txn.prepare(b"xid").unwrap();
    drop(txn);
    let mut writer = engine.session(Isolation::ReadCommitted);
    assert_eq!(writer.try_insert(&read, b"row").unwrap(), None);
    engine.commit_prepared(b"xid").unwrap();
    assert!(writer.try_insert(&read, b"row").unwrap().is_some());
}

/// Without the lock a read would see rows that may change. It is refused.
#[test]
fn a_table_that_is_not_locked_is_not_read() {
    let (_medium, engine) = common::pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::Serializable);
    let rid = txn.insert(&table, b"row").unwrap();
    txn.commit().unwrap();
    assert_eq!(common::try_rows(&mut txn, &table).unwrap_err().kind(), ErrorKind::Configuration);
    assert_eq!(txn.read(&table, rid, ReadView::Snapshot).unwrap_err().kind(), ErrorKind::Configuration);
    assert_eq!(txn.reader().get(&table, rid).unwrap_err().kind(), ErrorKind::Configuration);
    assert_eq!(txn.get_for_update(&table, rid).unwrap(), Some(&b"row"[..]), "a row lock is enough for one row");
    txn.locks().lock_table(&table, LockMode::Shared).unwrap();
    assert_eq!(rows(&mut txn, &table).len(), 1);
}

/// Rows read before the statement locks a further table stay valid, and that table is read as it is
/// now.
#[test]
fn a_statement_that_locks_a_second_table_sees_it_as_it_is_now() {
    let (_medium, engine) = common::pool();
    let [first, second] = ["first", "second"].map(|name| engine.create_table(name, b"").unwrap());
    let mut other = engine.session(Isolation::ReadCommitted);
    let rid = other.insert(&first, b"first").unwrap();
    other.commit().unwrap();
    let mut txn = engine.session(Isolation::Serializable);
    txn.locks().lock_table(&first, LockMode::Shared).unwrap();
    txn.start_statement();
    let row = txn.read(&first, rid, ReadView::Snapshot).unwrap().unwrap();
    other.insert(&second, b"second").unwrap();
    other.commit().unwrap();
    txn.locks().lock_table(&second, LockMode::Shared).unwrap();
    assert_eq!(rows(&mut txn, &second).len(), 1);
    settle(&engine);
    // SAFETY: the statement has not ended.
    assert_eq!(unsafe { row.bytes() }, b"first");
    assert_eq!(engine.counters().snapshots, 2);
    txn.end_statement();
    assert_eq!(engine.counters().snapshots, 0);
}

/// The same with real threads, which may see stores in an order that no interleaving has.
#[test]
fn real_threads_find_a_locked_table_standing_still() {
    let (_medium, engine) = common::pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = session(&engine, Isolation::ReadCommitted);
    let known: Vec<Rid> = (0..60).map(|number| txn.insert(&table, &row_bytes(number)).unwrap()).collect();
    txn.commit().unwrap();
    drop(txn);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (engine, table, known) = (&engine, &table, &known);
            scope.spawn(move || {
                let mut random = Random::new(thread);
                let mut txn = session(engine, Isolation::ReadCommitted);
                for number in 0..2000 {
                    let rid = known[random.below(60) as usize];
                    let outcome = match number % 20 {
                        0 => txn.insert(table, b"row").map(|_| false),
                        _ => txn.update(table, rid, &row_bytes(random.below(30) as u32)).map(|()| true),
                    };
                    end(&mut txn, outcome);
                    if number % 64 == 0 {
                        settle(engine);
                    }
                }
            });
        }
        for thread in 2..4 {
            let (engine, table) = (&engine, &table);
            scope.spawn(move || {
                let mut random = Random::new(thread);
                let mut txn = session(engine, Isolation::Serializable);
                for _ in 0..1000 {
                    let outcome = look_twice(&mut txn, table, &mut random, 0);
                    end(&mut txn, outcome);
                }
            });
        }
    });
    nobody_waits(&engine, 0);
    drop(table);
    audit(&engine);
}
