//! Hazard: two-phase commit gives the pool another commit order than the binary log, or a snapshot
//! that agrees with neither. As in a server, threads prepare one by one, order their commits under
//! the binary log's lock, and publish later (I1). Each seed is one interleaving.

use crate::common;

use crate::common::bank::Bank;
use crate::common::simulated::{audit, pool, survives};
use crate::common::{committed, reopen, seeds};
use perdura_engine::{Csn, Engine, ErrorKind, Isolation, LockMode, ReadView, Session};
use perdura_pmem::sim::{Body, Random, Scheduler};
use perdura_pmem::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Makes transfers by two-phase commit. `order` stands for the binary log.
fn transfer_in_two_phases(engine: &Engine, bank: &Bank, order: &Mutex<Vec<Csn>>, thread: u64, random: &mut Random) {
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.set_lock_wait_timeout(Duration::from_secs(100));
    for number in 0..6 {
        if let Err(error) = bank.transfer(&mut txn, random) {
            assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
            txn.rollback().unwrap();
            continue;
        }
        txn.prepare(format!("{thread} {number}").as_bytes()).unwrap();
        assert_eq!(txn.update(&bank.table, bank.accounts[0], b"").unwrap_err().kind(), ErrorKind::NotSupported);
        if random.one_in(4) {
            txn.rollback().unwrap();
            continue;
        }
        let csn = {
            let mut order = order.lock();
            let csn = txn.commit_ordered();
            if random.one_in(2) {
                txn.show_ordered();
            }
            order.push(csn);
            csn
        };
        assert_eq!(txn.commit().unwrap(), csn);
    }
}

#[test]
fn ordered_commits_and_consistent_snapshots() {
    for seed in seeds(200) {
        let (medium, engine) = pool();
        let bank = Bank::create(&engine, "t", 6);
        let (order, writers) = (Mutex::new(Vec::new()), AtomicU32::new(3));
        let mut bodies: Vec<Body<'_>> = Vec::new();
        for thread in 0..3u64 {
            let (engine, bank, order, writers) = (&engine, &bank, &order, &writers);
            bodies.push(Box::new(move || {
                transfer_in_two_phases(engine, bank, order, thread, &mut Random::new(seed * 7 + thread));
                writers.fetch_sub(1, Ordering::Relaxed);
            }));
        }
        bodies.push(Box::new(|| {
            while writers.load(Ordering::Relaxed) > 0 {
                let mut txn = engine.session(Isolation::RepeatableRead);
                let logged = {
                    let order = order.lock();
                    txn.take_snapshot();
                    order.last().copied().unwrap_or_default()
                };
                assert_eq!(bank.sum(&mut txn).unwrap(), bank.total());
                assert!(engine.counters().visible_csn >= logged, "the first read waits for what was ordered");
                engine.checkpoint().unwrap();
                engine.purge();
                assert_eq!(bank.sum(&mut txn).unwrap(), bank.total());
            }
        }));
        Scheduler::new(seed).run(bodies);
        let order = order.into_inner();
        assert!(order.is_sorted() && !order.is_empty(), "seed {seed}: the order of the binary log is that of the CSNs");
        assert!(engine.prepared().is_empty());
        drop(bank);
        audit(&engine);
        survives(&medium, engine);
    }
}

/// Hazard: the transactions of a group, which one thread orders, become visible only once all their
/// own threads have run, each waiting for the one before.
#[test]
fn what_one_thread_has_ordered_is_visible() {
    let (medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut group: Vec<Session> = Vec::new();
    for number in 0..4u8 {
        let mut txn = engine.session(Isolation::RepeatableRead);
        txn.insert(&table, &[number]).unwrap();
        txn.prepare(&[number]).unwrap();
        group.push(txn);
    }
    assert!(committed(&engine, &table).is_empty());
    for (number, txn) in group.iter_mut().enumerate() {
        let csn = txn.commit_ordered();
        assert_eq!(committed(&engine, &table).len(), number);
        txn.show_ordered();
        assert_eq!(engine.counters().visible_csn, csn);
        assert_eq!(committed(&engine, &table).len(), number + 1);
        assert_eq!(txn.commit_ordered(), csn, "it is ordered once");
        assert_eq!(txn.rollback().unwrap_err().kind(), ErrorKind::NotSupported);
    }
    // Their own threads end them in any order; the end of a session does too.
    group[2].commit().unwrap();
    drop(group);
    assert_eq!(committed(&engine, &table).len(), 4);
    drop(table);
    audit(&engine);
    survives(&medium, engine);
}

/// Hazard: the leader shows a transaction before those before it are durable, so that others build
/// on what a crash takes back.
#[test]
fn nothing_is_shown_before_what_precedes_it_is_durable() {
    for seed in seeds(300) {
        let (_medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let mut txn = engine.session(Isolation::RepeatableRead);
        let rows: Vec<_> = (0..2).map(|_| txn.insert(&table, &[0]).unwrap()).collect();
        txn.commit().unwrap();
        // The commit that gave the first row each of its values.
        let (csns, writers) = (Mutex::new(vec![0]), AtomicU32::new(2));
        let alone: Body<'_> = Box::new(|| {
            let mut txn = engine.session(Isolation::ReadCommitted);
            for value in 1..=6 {
                txn.update(&table, rows[1], &[value]).unwrap();
                txn.commit().unwrap();
            }
            writers.fetch_sub(1, Ordering::Relaxed);
        });
        let in_group: Body<'_> = Box::new(|| {
            let mut txn = engine.session(Isolation::ReadCommitted);
            txn.set_lock_wait_timeout(Duration::from_secs(100));
            for value in 1..=6 {
                txn.update(&table, rows[0], &[value]).unwrap();
                txn.prepare(&[value]).unwrap();
                csns.lock().push(txn.commit_ordered());
                txn.show_ordered();
                txn.commit().unwrap();
            }
            writers.fetch_sub(1, Ordering::Relaxed);
        });
        let reading: Body<'_> = Box::new(|| {
            let mut txn = engine.session(Isolation::ReadCommitted);
            txn.set_lock_wait_timeout(Duration::from_secs(100));
            while writers.load(Ordering::Relaxed) > 0 {
                txn.start_statement();
                txn.locks().lock_row(&table, rows[0], LockMode::Shared).unwrap();
                let row = txn.read(&table, rows[0], ReadView::Newest).unwrap().unwrap();
                // SAFETY: the statement has not ended.
                let csn = csns.lock()[usize::from(unsafe { row.bytes() }[0])];
                assert!(engine.counters().durable_csn >= csn, "seed {seed}: commit {csn} is not durable");
                txn.rollback().unwrap();
            }
        });
        Scheduler::new(seed).pause_one_in(16).run(vec![alone, in_group, reading]);
    }
}

/// Hazard: a prepared transaction is lost when its session ends. It must be there to be decided by
/// name, before or after a restart.
#[test]
fn sessions_that_end_while_prepared() {
    for seed in seeds(200) {
        let (medium, engine) = pool();
        let bank = Bank::create(&engine, "t", 9);
        let body = |thread: usize| -> Body<'_> {
            let (engine, bank) = (&engine, &bank);
            Box::new(move || {
                let mut random = Random::new(seed * 3 + thread as u64);
                let mut txn = engine.session(Isolation::ReadCommitted);
                // Three accounts each, so that nobody waits for a transaction that nobody decides.
                for account in &bank.accounts[thread * 3..thread * 3 + 3] {
                    bank.add(&mut txn, *account, 10, &mut random).unwrap();
                }
                txn.prepare(&[thread as u8]).unwrap();
            })
        };
        Scheduler::new(seed).run((0..3).map(body).collect());
        let total = bank.total();
        drop(bank);
        let mut random = Random::new(seed);
        let mut engine = engine;
        let mut kept = 0;
        for thread in 0..3u8 {
            if random.one_in(2) {
                drop(engine);
                engine = reopen(&medium);
            }
            let mut left = engine.prepared();
            left.sort();
            assert_eq!(left, (thread..3).map(|name| vec![name]).collect::<Vec<_>>(), "seed {seed}");
            if random.one_in(2) {
                assert!(engine.commit_prepared(&[thread]).unwrap());
                kept += 30;
            } else {
                assert!(engine.rollback_prepared(&[thread]).unwrap());
            }
            assert!(!engine.commit_prepared(&[thread]).unwrap());
            let rows = committed(&engine, &engine.table("t").unwrap());
            assert_eq!(rows.iter().map(|row| common::bank::balance(row)).sum::<i64>(), total + kept, "seed {seed}");
        }
        audit(&engine);
        survives(&medium, engine);
    }
}
