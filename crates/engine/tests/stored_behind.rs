//! Hazard: races with commits that are visible before their words are stored, and with locks in
//! place. Each seed replays one interleaving of threads at stores, flushes, fences, locks and waits
//! (I3, I4).

use crate::common::bank::Bank;
use crate::common::simulated::{after_power_failures, audit, pool, survives};
use crate::common::threads::Threads;
use crate::common::{committed, row_bytes, rows, seeds, small};
use perdura_engine::{Engine, Isolation, LockMode, LockOutcome, ReadView};
use perdura_pmem::sim::{Body, Random, Recorder, Scheduler};
use perdura_pmem::{SimMedium, sync};
use std::sync::Arc;
use std::time::Duration;

/// Hazard: a large commit is visible before its words are stored. Meanwhile others must see all of
/// its rows or none, find each row that they have seen, and may change it; a crash-free restart
/// then finds their changes.
#[test]
fn a_large_commit_is_whole_while_its_words_are_stored() {
    const ROWS: u32 = 300;
    for seed in seeds(40) {
        let (medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let mut threads = Threads::default();
        threads.work(|| {
            let mut txn = engine.session(Isolation::ReadCommitted);
            (0..ROWS).for_each(|number| {
                txn.insert(&table, &row_bytes(number)).unwrap();
            });
            txn.commit().unwrap();
            // The next one rewrites rows in all pages, each page with a few others' changes in it.
            let found = rows(&mut txn, &table);
            for (rid, _) in found.iter().step_by(3) {
                txn.update(&table, *rid, &row_bytes(7)).unwrap();
            }
            txn.commit().unwrap();
        });
        for thread in 0..2u64 {
            let (engine, table) = (&engine, &table);
            let (mut random, mut changes) = (Random::new(seed * 2 + thread), 0);
            threads.meanwhile(move || {
                for _ in 0..random.below(200) {
                    sync::yield_now();
                }
                let mut txn = engine.session(Isolation::ReadCommitted);
                txn.set_lock_wait_timeout(Duration::from_secs(100));
                txn.start_statement();
                let found = rows(&mut txn, table);
                assert!([0, ROWS as usize].contains(&found.len()), "seed {seed}: {} rows", found.len());
                // No row that the large update waits for while this transaction goes on.
                let pick = random.below(u64::from(ROWS / 3)) as usize * 3 + 1 + thread as usize;
                if let Some((rid, _)) = found.get(pick).filter(|_| changes < 8) {
                    txn.locks().lock_row(table, *rid, LockMode::Exclusive).unwrap();
                    let there = txn.read(table, *rid, ReadView::Newest).unwrap();
                    assert!(there.is_some(), "seed {seed}: row {:#x} was seen and is not there", rid.to_u64());
                    txn.update(table, *rid, &row_bytes(9)).unwrap();
                    changes += 1;
                }
                txn.commit().unwrap();
            });
        }
        threads.run(seed);
        audit(&engine);
        drop(table);
        survives(&medium, engine);
    }
}

/// Hazard: a transaction puts the lock that it waits for into the lock table in its holder's name,
/// just as the holder releases it. Nobody may be left as the holder.
#[test]
fn a_lock_released_while_others_queue_is_nobodys() {
    for seed in seeds(200) {
        let (_medium, engine) = pool();
        let bank = Bank::create(&engine, "t", 2);
        let body = |thread: u64| -> Body<'_> {
            let (engine, bank) = (&engine, &bank);
            Box::new(move || {
                let mut random = Random::new(seed * 10 + thread);
                let mut txn = engine.session(Isolation::ReadCommitted);
                txn.set_lock_wait_timeout(Duration::from_secs(100));
                for _ in 0..6 {
                    let rid = bank.accounts[random.below(2) as usize];
                    txn.start_statement();
                    let mode = if random.one_in(4) { LockMode::Shared } else { LockMode::Exclusive };
                    let outcome = txn.locks().lock_row(&bank.table, rid, mode).unwrap();
                    assert_eq!(outcome, LockOutcome::New);
                    match random.below(4) {
                        0 => txn.locks().unlock_row(&bank.table, rid),
                        1 => txn.rollback().unwrap(),
                        _ => drop(txn.commit().unwrap()),
                    }
                    if random.one_in(2) {
                        txn.rollback().unwrap();
                    }
                }
            })
        };
        Scheduler::new(seed).run((0..4).map(body).collect());
        let mut txn = engine.session(Isolation::ReadCommitted);
        for rid in &bank.accounts {
            let locked = txn.locks().try_lock_row(&bank.table, *rid, LockMode::Exclusive).unwrap();
            assert_eq!(locked, Some(LockOutcome::New), "seed {seed}: a row is locked by nobody");
        }
        txn.rollback().unwrap();
        let counters = engine.counters();
        assert_eq!((counters.locks_held, counters.locks_waited_for), (0, 0), "seed {seed}");
    }
}

/// Hazard: a lock is counted twice, or left over, by a write, an undone write and a release of the
/// same row.
#[test]
fn a_row_locked_written_and_undone_is_one_lock() {
    let (_medium, engine) = pool();
    let bank = Bank::create(&engine, "t", 2);
    let (one, two) = (bank.accounts[0], bank.accounts[1]);
    let held = || engine.counters().locks_held;
    let mut txn = engine.session(Isolation::ReadCommitted);
    assert_eq!(txn.locks().lock_row(&bank.table, one, LockMode::Exclusive).unwrap(), LockOutcome::New);
    txn.start_statement();
    txn.update(&bank.table, one, &row_bytes(1)).unwrap();
    assert_eq!(held(), 1);
    txn.rollback_statement();
    assert_eq!(held(), 1);
    txn.locks().unlock_row(&bank.table, one);
    assert_eq!(held(), 0);
    // Through the lock table: shared first, then raised by the write.
    assert_eq!(txn.locks().lock_row(&bank.table, two, LockMode::Shared).unwrap(), LockOutcome::New);
    txn.update(&bank.table, two, &row_bytes(1)).unwrap();
    assert_eq!(held(), 1);
    txn.rollback_statement();
    txn.locks().unlock_row(&bank.table, two);
    assert_eq!(held(), 0);
    let mut other = engine.session(Isolation::ReadCommitted);
    for rid in [one, two] {
        let locked = other.locks().try_lock_row(&bank.table, rid, LockMode::Exclusive).unwrap();
        assert_eq!(locked, Some(LockOutcome::New), "the first transaction still holds the row");
    }
}

/// Hazard: a checkpoint goes past words that are in the cache only (I9): redo does not store them
/// again. More pages have such words than are flushed at a time, and of some the last store was not
/// their committer's.
#[test]
fn a_checkpoint_has_all_words_flushed_that_it_covers() {
    const ROWS: u32 = 3000;
    let (medium, recorder) = Recorder::attach(SimMedium::new());
    let engine = Engine::open(Arc::new(medium), small()).unwrap();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rids: Vec<_> = (0..ROWS).map(|number| txn.insert(&table, &row_bytes(number)).unwrap()).collect();
    txn.commit().unwrap();
    engine.checkpoint().unwrap();
    for (rid, number) in rids.iter().zip(0..ROWS) {
        match number % 7 {
            0 => txn.delete(&table, *rid).unwrap(),
            1 | 2 => txn.update(&table, *rid, &row_bytes(ROWS + number)).unwrap(),
            _ => continue,
        }
        if number % 5 == 0 {
            txn.commit().unwrap();
        }
    }
    txn.commit().unwrap();
    engine.checkpoint().unwrap();
    let expected = committed(&engine, &table);
    for engine in after_power_failures(&recorder, 10) {
        assert_eq!(committed(&engine, &engine.table("t").unwrap()), expected);
    }
}
