//! Hazard: a pool goes on writing after a failed persist. It must take no more changes and say so,
//! reads must go on, nothing may hang, and a restart must recover what was acknowledged (I11).
//! Tests (I5).

use crate::common::bank::Bank;
use crate::common::{committed, pool, reopen, row_bytes, rows, seeds, small};
use perdura_engine::{Config, Engine, ErrorKind, Isolation, ReadView};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

#[test]
fn a_failed_checkpoint_stops_writing_and_nothing_else() {
    let (medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rid = txn.insert(&table, b"acknowledged").unwrap();
    txn.commit().unwrap();
    let mut open = engine.session(Isolation::ReadCommitted);
    open.insert(&table, b"on its way").unwrap();
    let mut waiting = engine.session(Isolation::ReadCommitted);
    waiting.update(&table, rid, b"prepared").unwrap();
    waiting.prepare(b"branch").unwrap();
    medium.fail_syncs(true);
    assert!(engine.checkpoint().is_err());
    medium.fail_syncs(false);
    let refused = [
        txn.insert(&table, b"late").map(|_| ()).unwrap_err(),
        txn.update(&table, rid, b"late").unwrap_err(),
        txn.delete(&table, rid).unwrap_err(),
        open.commit().map(|_| ()).unwrap_err(),
        engine.create_table("new", b"").map(|_| ()).unwrap_err(),
        engine.drop_table("t").unwrap_err(),
        engine.rename_table("t", "u").unwrap_err(),
        engine.truncate_table("t").map(|_| ()).unwrap_err(),
        engine.checkpoint().map(|_| ()).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::ReadOnlyPool, "{error}");
        assert!(error.to_string().contains("restart"), "{error}");
    }
    assert!(engine.status().to_string().contains("read-only"));
    assert_eq!(engine.counters().failed, 1);
    assert_eq!(committed(&engine, &table), vec![b"acknowledged".to_vec()]);
    assert!(txn.read(&table, rid, ReadView::Newest).unwrap().is_some());
    waiting.rollback().unwrap();
    engine.close();
    drop((txn, open, waiting, table, engine));
    let engine = reopen(&medium);
    let table = engine.table("t").unwrap();
    assert_eq!(engine.prepared(), vec![b"branch".to_vec()], "its rollback was not durable");
    assert!(engine.rollback_prepared(b"branch").unwrap());
    assert_eq!(committed(&engine, &table), vec![b"acknowledged".to_vec()]);
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.insert(&table, b"after").unwrap();
    txn.commit().unwrap();
}

/// Any sync may be the one that fails. Whatever stops then, the restart must find what was
/// acknowledged.
#[test]
fn each_sync_may_fail() {
    for seed in seeds(150) {
        let (medium, engine) = pool();
        let table = engine.create_table("t", b"").unwrap();
        let mut txn = engine.session(Isolation::ReadCommitted);
        let mut random = Random::new(seed);
        let mut model = Vec::new();
        let fails_at = random.below(25);
        for round in 0..30 {
            medium.fail_syncs(round >= fails_at && round < fails_at + 3);
            let mut batch = Vec::new();
            let filled = (0..20 + random.below(60) as u32).try_for_each(|number| {
                batch.push(row_bytes(number));
                txn.insert(&table, batch.last().expect("just pushed")).map(|_| ())
            });
            match filled.and_then(|()| txn.commit().map(|_| ())) {
                Ok(()) => model.extend(batch),
                Err(error) => {
                    let kinds = [ErrorKind::ReadOnlyPool, ErrorKind::Medium];
                    assert!(kinds.contains(&error.kind()), "{:?} {error}", error.kind());
                    txn.rollback().unwrap();
                }
            }
            if random.one_in(4) {
                let _ = engine.checkpoint();
            }
            if random.one_in(6) {
                let _ = engine.create_table(&format!("t{round}"), b"");
            }
            if random.one_in(9) {
                let _ = engine.truncate_table(&format!("t{}", round / 2));
            }
            assert_eq!(committed(&engine, &table).len(), model.len(), "seed {seed} round {round}: reads go on");
        }
        medium.fail_syncs(false);
        model.sort();
        let names: Vec<_> = engine.tables().unwrap().iter().map(|table| table.name()).collect();
        drop((txn, table, engine));
        let engine = reopen(&medium);
        assert_eq!(committed(&engine, &engine.table("t").unwrap()), model, "seed {seed}");
        assert_eq!(engine.tables().unwrap().iter().map(|table| table.name()).collect::<Vec<_>>(), names, "seed {seed}");
        engine.create_table("works", b"").unwrap();
    }
}

/// Hazard: a recovery that fails at a sync leaves the pool half recovered. The next attempt must
/// find what this one found.
#[test]
fn a_recovery_that_cannot_persist_is_repeated() {
    let (medium, engine) = pool();
    let bank = Bank::create(&engine, "t", 20);
    let mut random = Random::new(7);
    bank.transfer_often(&mut engine.session(Isolation::ReadCommitted), 40, &mut random);
    let before = committed(&engine, &bank.table);
    drop((bank, engine));
    for _ in 0..3 {
        medium.fail_syncs(true);
        let shared: Arc<dyn Medium> = medium.clone();
        let error = Engine::open(shared, small()).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("failed"), "{error}");
        medium.fail_syncs(false);
    }
    let engine = reopen(&medium);
    assert_eq!(committed(&engine, &engine.table("t").unwrap()), before);
}

/// Hazard: sessions within commits, or the background thread, hang when the medium begins to fail.
/// All of them must return.
#[test]
fn nobody_hangs_when_the_medium_fails_under_load() {
    for seed in seeds(6) {
        let medium = Arc::new(SimMedium::new());
        let shared: Arc<dyn Medium> = medium.clone();
        let engine = Engine::open(shared, Config { background: true, ..small() }).unwrap();
        let table = engine.create_table("t", b"").unwrap();
        let acknowledged = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|thread| {
                    let (engine, table) = (&engine, &table);
                    scope.spawn(move || insert_until_refused(engine, table, thread))
                })
                .collect();
            std::thread::sleep(std::time::Duration::from_millis(3 * (seed % 10)));
            medium.fail_syncs(true);
            writers.into_iter().map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(engine.counters().failed, 1);
        let mut txn = engine.session(Isolation::ReadCommitted);
        rows(&mut txn, &table);
        engine.close();
        drop((txn, table, engine));
        medium.fail_syncs(false);
        let engine = reopen(&medium);
        let rows = committed(&engine, &engine.table("t").unwrap());
        for row in acknowledged.into_iter().flatten() {
            assert!(rows.binary_search(&row).is_ok(), "seed {seed}: an acknowledged row is gone");
        }
    }
}

/// Inserts and commits until the pool refuses. Returns the rows acknowledged.
fn insert_until_refused(engine: &Engine, table: &Arc<perdura_engine::Table>, thread: u32) -> Vec<Vec<u8>> {
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut acknowledged = Vec::new();
    for number in 0.. {
        let row = row_bytes(thread * 1_000_000 + number);
        match txn.insert(table, &row).and_then(|_| txn.commit()) {
            Ok(_) => acknowledged.push(row),
            Err(error) if error.kind() == ErrorKind::ReadOnlyPool => break,
            // A data file could not be created. The pool goes on until a superblock write fails.
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Medium, "{error}");
                txn.rollback().unwrap();
                std::thread::yield_now();
            }
        }
    }
    acknowledged
}
