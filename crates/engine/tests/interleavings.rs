//! Hazard: races between sessions. Each seed replays one interleaving of threads at stores,
//! flushes, fences, locks and waits.
//!
//! The races: in the lock table (a wait that never ends, a victim without a cycle), between
//! snapshots and purge, over freed cells and RIDs, between writers and the sweep after a restart,
//! between two DDL statements (I4, I8).

use crate::common;

use crate::common::bank::Bank;
use crate::common::raid::Raid;
use crate::common::simulated::{audit, pool, survives};
use crate::common::threads::Threads;
use crate::common::{reopen, row_bytes, rows, seeds, settle};
use perdura_engine::{Engine, ErrorKind, Isolation, LockMode, LockOutcome, ReadView};
use perdura_pmem::sim::{Body, Random, Scheduler};
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[test]
fn one_row_wanted_by_all_is_never_a_deadlock() {
    for seed in seeds(200) {
        let (medium, engine) = pool();
        let bank = Bank::create(&engine, "t", 1);
        let body = |thread: u64| -> Body<'_> {
            let (engine, bank) = (&engine, &bank);
            Box::new(move || {
                let mut random = Random::new(seed * 10 + thread);
                let mut txn = engine.session(Isolation::ReadCommitted);
                txn.set_lock_wait_timeout(Duration::from_secs(100));
                for _ in 0..6 {
                    txn.start_statement();
                    bank.add(&mut txn, bank.accounts[0], 1, &mut random).unwrap();
                    txn.commit().unwrap();
                }
            })
        };
        Scheduler::new(seed).run((0..4).map(body).collect());
        let mut txn = engine.session(Isolation::ReadCommitted);
        assert_eq!(bank.sum(&mut txn).unwrap(), bank.total() + 24, "seed {seed}");
        drop(txn);
        let counters = engine.counters();
        assert_eq!((counters.deadlocks, counters.locks_held, counters.locks_waited_for), (0, 0, 0), "seed {seed}");
        drop(bank);
        audit(&engine);
        survives(&medium, engine);
    }
}

#[test]
fn transfers_keep_the_sum_beside_readers_and_purge() {
    for seed in seeds(200) {
        let (medium, engine) = pool();
        let bank = Bank::create(&engine, "t", 5);
        let mut threads = Threads::default();
        threads.transfer(&engine, &bank, seed, 8);
        threads.sum(&engine, &bank);
        threads.settle(&engine);
        threads.run(seed);
        drop(bank);
        audit(&engine);
        survives(&medium, engine);
    }
}

/// Hazard: of two transactions that read a row under shared locks and then write it, one overwrites
/// the other's update. One of the two must be a deadlock victim.
#[test]
fn shared_locks_raised_to_exclusive_lose_no_update() {
    let mut victims = 0;
    for seed in seeds(200) {
        let (_medium, engine) = pool();
        let bank = Bank::create(&engine, "t", 1);
        let rid = bank.accounts[0];
        let done = AtomicU32::new(0);
        let body = |thread: u64| -> Body<'_> {
            let (engine, bank, done) = (&engine, &bank, &done);
            Box::new(move || {
                let mut random = Random::new(seed * 10 + thread);
                let mut txn = engine.session(Isolation::ReadCommitted);
                txn.set_lock_wait_timeout(Duration::from_secs(100));
                for _ in 0..4 {
                    txn.start_statement();
                    let outcome = txn.locks().lock_row(&bank.table, rid, LockMode::Shared).and_then(|outcome| {
                        assert_eq!(outcome, LockOutcome::New);
                        bank.add(&mut txn, rid, 1, &mut random)
                    });
                    match outcome {
                        Ok(()) => {
                            txn.commit().unwrap();
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
                            txn.rollback().unwrap();
                        }
                    }
                }
            })
        };
        Scheduler::new(seed).run((0..3).map(body).collect());
        let mut txn = engine.session(Isolation::ReadCommitted);
        assert_eq!(bank.sum(&mut txn).unwrap() - bank.total(), i64::from(done.into_inner()), "seed {seed}");
        drop(txn);
        let counters = engine.counters();
        assert_eq!((counters.locks_held, counters.locks_waited_for), (0, 0), "seed {seed}");
        victims += counters.deadlocks;
    }
    assert!(victims > 20, "{victims} victims: the hazard was met");
}

/// Hazard: a raised lock counts as a second one and is never released. It must be reported as held,
/// and be gone after one release.
#[test]
fn a_raised_lock_is_not_a_new_one() {
    for seed in seeds(200) {
        let (_medium, engine) = pool();
        let bank = Bank::create(&engine, "t", 1);
        let rid = bank.accounts[0];
        let both = AtomicU32::new(0);
        let mut bodies: Vec<Body<'_>> = Vec::new();
        bodies.push(Box::new(|| {
            let mut txn = engine.session(Isolation::ReadCommitted);
            txn.set_lock_wait_timeout(Duration::from_secs(100));
            assert_eq!(txn.locks().lock_row(&bank.table, rid, LockMode::Shared).unwrap(), LockOutcome::New);
            both.fetch_add(1, Ordering::Relaxed);
            perdura_pmem::sync::spin_until(|| both.load(Ordering::Relaxed) == 2);
            assert_eq!(
                txn.locks().lock_row(&bank.table, rid, LockMode::Exclusive).unwrap(),
                LockOutcome::Held,
                "seed {seed}"
            );
            txn.rollback().unwrap();
        }));
        bodies.push(Box::new(|| {
            let mut txn = engine.session(Isolation::ReadCommitted);
            txn.locks().lock_row(&bank.table, rid, LockMode::Shared).unwrap();
            both.fetch_add(1, Ordering::Relaxed);
            perdura_pmem::sync::spin_until(|| both.load(Ordering::Relaxed) == 2);
            for _ in 0..10 {
                perdura_pmem::sync::yield_now();
            }
            txn.locks().unlock_row(&bank.table, rid);
        }));
        Scheduler::new(seed).run(bodies);
        assert_eq!(engine.counters().locks_held, 0, "seed {seed}");
    }
}

#[test]
fn waits_end_by_kill_timeout_or_grant_and_leave_nothing() {
    let mut kinds = BTreeSet::new();
    for seed in seeds(200) {
        let (_medium, engine) = pool();
        let bank = Bank::create(&engine, "t", 1);
        let rid = bank.accounts[0];
        let mut holder = engine.session(Isolation::ReadCommitted);
        holder.update(&bank.table, rid, &common::bank::account(1, 0)).unwrap();
        let mut waiters: Vec<_> = (0..2).map(|_| engine.session(Isolation::ReadCommitted)).collect();
        let killers: Vec<_> = waiters.iter().map(|txn| txn.killer()).collect();
        let outcomes = perdura_pmem::sync::Mutex::new(Vec::new());
        let mut bodies: Vec<Body<'_>> = Vec::new();
        for (waiter, txn) in waiters.iter_mut().enumerate() {
            let (bank, outcomes) = (&bank, &outcomes);
            bodies.push(Box::new(move || {
                txn.set_lock_wait_timeout(Duration::from_micros(400 + 200 * waiter as u64));
                let outcome = txn.update(&bank.table, rid, &common::bank::account(2, 0));
                outcomes.lock().push(outcome.map_err(|error| error.kind()));
                txn.rollback().unwrap();
            }));
        }
        bodies.push(Box::new(|| {
            let mut random = Random::new(seed);
            for _ in 0..random.below(60) {
                perdura_pmem::sync::yield_now();
            }
            match random.below(3) {
                0 => killers[0].kill(),
                1 => holder.rollback().unwrap(),
                _ => {}
            }
        }));
        Scheduler::new(seed).run(bodies);
        drop((holder, waiters));
        for outcome in outcomes.into_inner() {
            kinds.insert(format!("{outcome:?}"));
        }
        let counters = engine.counters();
        assert_eq!((counters.locks_held, counters.locks_waited_for), (0, 0), "seed {seed}");
    }
    let expected = ["Err(Killed)", "Err(LockWaitTimeout)", "Ok(())"].map(String::from);
    assert_eq!(kinds, BTreeSet::from(expected));
}

/// Hazard: after a restart, writers, the sweep and purge meet in segments that are still unswept,
/// and a cell is given out twice.
#[test]
fn the_sweep_gives_no_space_twice_beside_writers() {
    for seed in seeds(200) {
        let (medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let mut txn = engine.session(Isolation::ReadCommitted);
        let mut random = Random::new(seed);
        let mut rids = Vec::new();
        for number in 0..160 {
            rids.push(txn.insert(&table, &row_bytes(number)).unwrap());
        }
        rids.push(txn.insert(&table, &[1; 6000]).unwrap());
        txn.commit().unwrap();
        rids.retain(|rid| {
            let keep = !random.one_in(3);
            if !keep {
                txn.delete(&table, *rid).unwrap();
            }
            keep
        });
        txn.commit().unwrap();
        drop((txn, table, engine));
        let engine = reopen(&medium);
        let table = engine.table("t").unwrap();
        let (left, right) = rids.split_at(rids.len() / 2);
        let mut threads = Threads::default();
        for (thread, mine) in [left, right].into_iter().enumerate() {
            let (engine, table) = (&engine, &table);
            threads.work(move || churn(engine, table, mine, &mut Random::new(seed * 2 + thread as u64)));
        }
        threads.work(|| engine.sweep().unwrap());
        threads.settle(&engine);
        threads.run(seed);
        drop(table);
        audit(&engine);
        survives(&medium, engine);
    }
}

/// Deletes and updates the rows `rids`, and inserts others.
fn churn(engine: &Engine, table: &Arc<perdura_engine::Table>, rids: &[perdura_engine::Rid], random: &mut Random) {
    let mut txn = engine.session(Isolation::ReadCommitted);
    for (number, rid) in rids.iter().enumerate() {
        match random.below(4) {
            0 => txn.update(table, *rid, &row_bytes(5000 + number as u32)).unwrap(),
            1 => txn.insert(table, &row_bytes(number as u32)).map(|_| ()).unwrap(),
            _ => txn.delete(table, *rid).unwrap(),
        }
        match random.below(6) {
            0 => txn.rollback().unwrap(),
            1 | 2 => txn.commit().map(|_| ()).unwrap(),
            _ => {}
        }
    }
    txn.insert(table, &[9; 9000]).unwrap();
    txn.commit().unwrap();
}

/// Hazard: a RID or cell that purge frees goes to two sessions.
#[test]
fn freed_rids_and_cells_have_one_taker() {
    for seed in seeds(200) {
        let (medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let mut threads = Threads::default();
        for thread in 0..3u64 {
            let (engine, table) = (&engine, &table);
            threads.work(move || {
                let mut random = Random::new(seed * 3 + thread);
                for round in 0..6 {
                    insert_and_delete(engine, table, (thread * 1000 + round) as u32, &mut random);
                }
            });
        }
        threads.settle(&engine);
        threads.run(seed);
        drop(table);
        audit(&engine);
        survives(&medium, engine);
    }
}

/// Hazard: a session deletes a row that another has just inserted or is about to change, while
/// purge frees RIDs and cells for the next. The last commit on each row must count, and no other.
#[test]
fn sessions_change_and_delete_each_others_rows() {
    for seed in seeds(120) {
        let (medium, engine) = pool();
        let raid = Raid::new(engine.create_table("t", b"").unwrap());
        let mut threads = Threads::default();
        for (session, isolation) in
            [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::ReadCommitted].into_iter().enumerate()
        {
            let (engine, raid) = (&engine, &raid);
            threads.work(move || {
                let mut random = Random::new(seed * 3 + session as u64);
                raid.take_part(&mut engine.session(isolation), session as u32, 10, &mut random);
            });
        }
        threads.meanwhile(|| {
            settle(&engine);
            let mut txn = engine.session(Isolation::RepeatableRead);
            assert_eq!(rows(&mut txn, &raid.table), rows(&mut txn, &raid.table), "seed {seed}: a snapshot moved");
        });
        threads.run(seed);
        raid.check(&engine);
        drop(raid);
        audit(&engine);
        survives(&medium, engine);
    }
}

/// Inserts rows, reads each by its RID, and deletes most of them.
fn insert_and_delete(engine: &Engine, table: &Arc<perdura_engine::Table>, base: u32, random: &mut Random) {
    let mut txn = engine.session(Isolation::ReadCommitted);
    let inserted: Vec<_> =
        (0..4 + random.below(3) as u32).map(|n| (n, txn.insert(table, &row_bytes(base * 10 + n)).unwrap())).collect();
    if random.one_in(4) {
        return txn.rollback().unwrap();
    }
    txn.commit().unwrap();
    for (number, rid) in inserted {
        txn.start_statement();
        let row = txn.read(table, rid, ReadView::Snapshot).unwrap().expect("nobody else deletes it");
        // SAFETY: the statement has not ended.
        assert_eq!(unsafe { row.bytes() }, row_bytes(base * 10 + number));
        if !random.one_in(5) {
            txn.delete(table, rid).unwrap();
        }
        txn.commit().unwrap();
    }
}

/// Hazard: DDL of three sessions on the same names leaves a name twice, or a catalog that says
/// something else after a restart.
#[test]
fn ddl_beside_ddl_on_the_same_names() {
    for seed in seeds(200) {
        let (medium, engine) = pool();
        let body = |thread: u64| -> Body<'_> {
            let engine = &engine;
            Box::new(move || {
                let mut random = Random::new(seed * 5 + thread);
                for _ in 0..8 {
                    let [one, two] = [0, 1].map(|_| format!("t{}", random.below(3)));
                    let outcome = match random.below(4) {
                        0 => engine.create_table(&one, one.as_bytes()).map(|_| ()),
                        1 => engine.drop_table(&one),
                        2 => engine.rename_table(&one, &two),
                        _ => engine.truncate_table(&one).map(|_| ()),
                    };
                    let kind = outcome.map_err(|error| (error.kind(), error.to_string()));
                    let fine = matches!(kind, Ok(()) | Err((ErrorKind::Exists | ErrorKind::NotFound, _)));
                    assert!(fine, "seed {seed}: {kind:?}");
                }
            })
        };
        Scheduler::new(seed).run((0..3).map(body).collect());
        for name in ["t0", "t1", "t2", "after"] {
            match engine.create_table(name, b"") {
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::Exists, "seed {seed}: {error}"),
            }
        }
        let mut names: Vec<_> = engine.tables().unwrap().iter().map(|table| table.name()).collect();
        names.sort();
        assert_eq!(names, ["after", "t0", "t1", "t2"], "seed {seed}");
        let files =
            |medium: &SimMedium| medium.list().unwrap().iter().filter(|(name, _)| name.starts_with("t.")).count();
        assert_eq!(files(&medium), 5, "seed {seed}: no file is left over");
        survives(&medium, engine);
    }
}
