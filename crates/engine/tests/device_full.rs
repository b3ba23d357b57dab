//! Hazard: a full device stops more than one statement. Committed rows must stay, the transaction
//! must be able to go on or to roll back, other sessions must go on, deletions must succeed, and
//! what they delete must make room.
//!
//! The device fills up at every step in turn: during a row, a new data file, DDL, a commit, the
//! growth of the log.

use crate::common::{committed, pool, row_bytes, seeds, small};
use perdura_engine::{
    Config, Engine, Error, ErrorKind, Isolation, LogConfig, LogPath, PathConfig, Rid, Session, Table, Turns,
};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows that a table must have, by RID.
type Model = BTreeMap<u64, Vec<u8>>;

fn open(medium: &Arc<SimMedium>, config: Config) -> Result<Engine, Error> {
    let shared: Arc<dyn Medium> = medium.clone();
    Engine::open(shared, config)
}

/// Size of a new pool, in bytes, in whole pages.
fn empty_pool_bytes() -> u64 {
    let (medium, _engine) = pool();
    medium.list().unwrap().iter().map(|(_, len)| len.next_multiple_of(4096)).sum()
}

#[test]
fn a_device_too_small_for_a_pool_is_refused_and_a_larger_one_taken() {
    let needed = empty_pool_bytes();
    for capacity in (0..needed).step_by(4096) {
        let medium = Arc::new(SimMedium::with_capacity(capacity));
        let error = open(&medium, small()).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceFull, "{capacity}: {error}");
        assert!(error.to_string().contains("free space"), "{error}");
        // Traces of the attempt must not matter once there is room.
        let medium = Arc::new(SimMedium::from_image(medium.image()).limited_to(needed));
        let engine = open(&medium, small()).unwrap_or_else(|error| panic!("{capacity}: {error}"));
        assert!(engine.tables().unwrap().is_empty());
    }
}

/// A session that works on a table, and the rows that must be there.
struct Worker {
    txn: Session,
    table: Arc<Table>,
    model: Model,
    random: Random,
    full: u32,
}

impl Worker {
    fn new(engine: &Engine, table: &Arc<Table>, seed: u64) -> Worker {
        let txn = engine.session(Isolation::ReadCommitted);
        Worker { txn, table: table.clone(), model: Model::new(), random: Random::new(seed), full: 0 }
    }

    /// Runs a transaction of a few statements, some of which may find no room.
    fn transact(&mut self) {
        let mut changed = self.model.clone();
        for _ in 0..=self.random.below(3) {
            self.txn.start_statement();
            let mut after = changed.clone();
            match self.statement(&mut after) {
                Ok(()) => changed = after,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::DeviceFull, "{error}");
                    self.full += 1;
                    self.txn.rollback_statement();
                }
            }
            self.txn.end_statement();
        }
        if self.random.one_in(5) {
            return self.txn.rollback().unwrap();
        }
        match self.txn.commit() {
            Ok(_) => self.model = changed,
            Err(error) => {
                assert!([ErrorKind::DeviceFull, ErrorKind::LogFull].contains(&error.kind()), "{error}");
                self.full += 1;
            }
        }
    }

    fn statement(&mut self, model: &mut Model) -> Result<(), Error> {
        let count = match self.random.below(8) {
            0 => 90,
            _ => 1 + self.random.below(6),
        };
        for _ in 0..count {
            let bytes = match self.random.below(30) {
                0 => 3000 + self.random.below(30_000) as usize,
                _ => self.random.below(300) as usize,
            };
            let row = vec![self.random.next_u64() as u8; bytes];
            let known = model.keys().copied().nth(self.random.below(model.len().max(1) as u64) as usize);
            match (self.random.below(4), known) {
                (0, Some(rid)) => {
                    self.txn.update(&self.table, Rid::from_u64(rid), &row)?;
                    model.insert(rid, row);
                }
                (1, Some(rid)) if count < 90 => {
                    self.txn.delete(&self.table, Rid::from_u64(rid))?;
                    model.remove(&rid);
                }
                _ => {
                    let rid = self.txn.insert(&self.table, &row)?;
                    assert!(model.insert(rid.to_u64(), row).is_none(), "a RID given twice");
                }
            }
        }
        Ok(())
    }

    /// Deletes all rows, a few in each transaction. Each deletion must find room, at the latest
    /// after `patience` rounds of purge.
    fn delete_all(&mut self, engine: &Engine, patience: u32) {
        let rids: Vec<_> = std::mem::take(&mut self.model).into_keys().collect();
        for batch in rids.chunks(20) {
            for rid in batch {
                let mut left = patience;
                while let Err(error) = self.txn.delete(&self.table, Rid::from_u64(*rid)) {
                    assert!(left > 0 && error.kind() == ErrorKind::DeviceFull, "{error}");
                    left -= 1;
                    self.txn.commit().unwrap();
                    std::thread::yield_now();
                    engine.checkpoint().unwrap();
                    engine.purge();
                }
            }
            self.txn.commit().unwrap();
            engine.checkpoint().unwrap();
            engine.purge();
        }
    }

    fn check(&self, engine: &Engine) {
        let mut rows: Vec<_> = self.model.values().cloned().collect();
        rows.sort();
        assert!(committed(engine, &self.table) == rows, "rows of {} differ", self.table.name());
    }
}

#[test]
fn every_step_meets_a_full_device() {
    let full = meets_a_full_device(&small(), 12);
    assert!(full > 100, "{full} statements met a full device");
}

/// The same with a log buffer, whose threads are those that commit, or its own.
#[test]
fn every_step_meets_a_full_device_by_the_other_paths_to_the_log() {
    for (path, turns) in [(LogPath::Classic, Turns::Waiters), (LogPath::Classic, Turns::Own), (LogPath::Nf, Turns::Own)]
    {
        let mut config = Config { background: turns == Turns::Own, ..small() };
        config.log.path = PathConfig { path, turns, buffer_bytes: 32 << 10, ..PathConfig::default() };
        let full = meets_a_full_device(&config, 60);
        assert!(full > 20, "{path}: {full} statements met a full device");
    }
}

/// Returns how many statements and commits found the device full, of as many sizes of it as there
/// are `step`s in.
fn meets_a_full_device(config: &Config, step: usize) -> u32 {
    let empty = empty_pool_bytes();
    let mut full = 0;
    for (seed, room) in (64..900u64).step_by(step).enumerate() {
        let medium = Arc::new(SimMedium::with_capacity(empty + (room << 10)));
        let engine = open(&medium, config.clone()).unwrap();
        let Ok(table) = engine.create_table("t", b"") else { continue };
        let other = engine.create_table("other", b"").unwrap_or_else(|error| {
            assert_eq!(error.kind(), ErrorKind::DeviceFull, "{error}");
            table.clone()
        });
        let mut workers = [Worker::new(&engine, &table, seed as u64), Worker::new(&engine, &other, seed as u64 + 1000)];
        let shared = Arc::ptr_eq(&table, &other);
        for round in 0..25 {
            workers[0].transact();
            if !shared {
                workers[1].transact();
            }
            if round % 5 == 0 {
                ddl(&engine, round);
                engine.checkpoint().unwrap();
                engine.purge();
            }
        }
        for worker in &mut workers[..if shared { 1 } else { 2 }] {
            worker.check(&engine);
            full += worker.full;
            let was_full = worker.full > 0;
            let rows = worker.model.len();
            worker.delete_all(&engine, 0);
            if was_full {
                for number in 0..rows as u32 / 2 {
                    let row = row_bytes(number);
                    let rid = worker.txn.insert(&worker.table, &row).unwrap_or_else(|error| panic!("{error}"));
                    worker.model.insert(rid.to_u64(), row);
                }
                worker.txn.commit().unwrap();
            }
            worker.check(&engine);
        }
        survives(&medium, engine, workers);
    }
    full
}

/// Runs DDL on a device that may be full. Each statement succeeds, or fails with DeviceFull and
/// leaves nothing behind.
fn ddl(engine: &Engine, round: u32) {
    let name = format!("ddl{round}");
    // The handle is dropped here: a table that somebody has mapped keeps its room when it is
    // truncated.
    match engine.create_table(&name, &[1; 200]).map(drop) {
        Ok(_) => {
            match engine.truncate_table(&name) {
                Ok(_) => {}
                // The log may lack room, but the table's file cannot: the pool has a spare.
                Err(error) => {
                    assert!(error.kind() == ErrorKind::DeviceFull && !error.to_string().contains(&name), "{error}")
                }
            }
            engine.rename_table(&name, "renamed").unwrap();
            engine.drop_table("renamed").unwrap();
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::DeviceFull, "{error}"),
    }
}

/// Asserts that a restart leaves all rows as they are, and that no space was lost before or after
/// it.
fn survives(medium: &Arc<SimMedium>, engine: Engine, workers: [Worker; 2]) {
    engine.checkpoint().unwrap();
    engine.purge();
    for table in engine.tables().unwrap() {
        table.audit().unwrap_or_else(|error| panic!("{error}"));
    }
    let before: Vec<_> =
        engine.tables().unwrap().iter().map(|table| (table.name(), committed(&engine, table))).collect();
    drop((workers, engine));
    let engine = open(medium, small()).unwrap();
    let after: Vec<_> =
        engine.tables().unwrap().iter().map(|table| (table.name(), committed(&engine, table))).collect();
    assert!(before == after, "rows differ after the restart");
    if engine.table("other").is_ok() {
        // The drop must succeed although the device is as full as before.
        engine.drop_table("other").unwrap_or_else(|error| panic!("{error}"));
    }
    engine.sweep().unwrap();
    engine.checkpoint().unwrap();
    engine.purge();
    for table in engine.tables().unwrap() {
        table.audit().unwrap_or_else(|error| panic!("after the restart: {error}"));
    }
}

/// Fills the device with rows of `table` until not even a row of one byte fits. Returns their
/// number.
fn fill_up(engine: &Engine, table: &Arc<Table>) -> u32 {
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut rows = 0;
    for bytes in [3000, 300, 1] {
        loop {
            txn.start_statement();
            match txn.insert(table, &vec![7; bytes]) {
                Ok(_) => rows += 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::DeviceFull, "{error}");
                    txn.rollback_statement();
                    break;
                }
            }
        }
    }
    txn.commit().unwrap();
    rows
}

/// TRUNCATE needs the new table's file before the room of the old one is free. On a full device it
/// failed, where DROP did not.
#[test]
fn a_table_that_fills_the_device_can_be_truncated() {
    for room in (300..700).step_by(37) {
        let medium = Arc::new(SimMedium::with_capacity(empty_pool_bytes() + (room << 10)));
        let mut engine = open(&medium, small()).unwrap();
        let mut table = engine.create_table("t", b"definition").unwrap();
        let mut first = None;
        for round in 0..8 {
            let rows = fill_up(&engine, &table);
            assert!(rows > first.unwrap_or(rows) / 2, "{room} KiB, round {round}: {rows} rows, {first:?} in the first");
            first = first.or(Some(rows));
            drop(table);
            if round == 5 {
                drop(engine);
                engine = open(&medium, small()).unwrap();
            }
            table = engine.truncate_table("t").unwrap_or_else(|error| panic!("{room} KiB, round {round}: {error}"));
            assert_eq!(committed(&engine, &table).len(), 0);
            engine.checkpoint().unwrap();
            engine.purge();
        }
        table.audit().unwrap();
        drop((table, engine));
        let engine = open(&medium, small()).unwrap();
        assert_eq!(committed(&engine, &engine.table("t").unwrap()).len(), 0);
        engine.drop_table("t").unwrap();
        let names: Vec<_> = medium.list().unwrap().into_iter().map(|(name, _)| name).collect();
        assert!(names.iter().all(|name| !name.starts_with("t.") || name.starts_with("t.00000001.")), "{names:?}");
    }
}

/// A table that needed a segment asked for its next file in full size only, and failed with
/// megabytes free.
#[test]
fn a_nearly_full_device_is_used_to_its_end() {
    let config = Config { data_file_bytes: 1 << 20, first_file_bytes: 64 << 10, ..small() };
    for room in [900u64 << 10, 1500 << 10, 3 << 20] {
        let medium = Arc::new(SimMedium::with_capacity(empty_pool_bytes() + room));
        let engine = open(&medium, config.clone()).unwrap();
        let table = engine.create_table("t", b"").unwrap();
        fill_up(&engine, &table);
        let used: u64 = medium.list().unwrap().iter().map(|(_, bytes)| bytes.next_multiple_of(4096)).sum();
        let left = empty_pool_bytes() + room - used;
        assert!(left < 4 * 4096, "{left} bytes are left");
        assert!(table.free_bytes() <= 4 * 4096, "{} bytes of the files are free", table.free_bytes());
        let mut txn = engine.session(Isolation::ReadCommitted);
        let error = txn.insert(&table, &[1; 3000]).map(|_| ()).unwrap_err().to_string();
        for part in ["table t ", "t.00000002.", "bytes wanted", "free space on the device"] {
            assert!(error.contains(part), "{part} is not in: {error}");
        }
    }
}

/// Hazard: a row that fits no usual data file is refused, or its room is lost when it is deleted.
/// The row gets a file of its own, and later rows reuse its room.
#[test]
fn a_row_larger_than_a_data_file_gets_one_of_its_own() {
    let (medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let row = |seed: u64, bytes: usize| {
        let mut random = Random::new(seed);
        (0..bytes).map(|_| random.next_u64() as u8).collect::<Vec<u8>>()
    };
    let large = txn.insert(&table, &row(1, 3_000_000)).unwrap();
    let mut model = vec![row(1, 3_000_000)];
    for number in 0..70 {
        model.push(row_bytes(number));
        txn.insert(&table, &row_bytes(number)).unwrap();
    }
    // A bulk insert gets a large row, too.
    model.push(row(2, 1_000_000));
    txn.insert(&table, &row(2, 1_000_000)).unwrap();
    txn.commit().unwrap();
    let mut most = 0;
    for round in 0..12 {
        model[0] = row(round, 3_000_000 - round as usize * 10_000);
        txn.update(&table, large, &model[0]).unwrap();
        txn.commit().unwrap();
        txn.insert(&table, &row(3, 2_000_000)).unwrap();
        txn.rollback().unwrap();
        for _ in 0..2 {
            engine.checkpoint().unwrap();
            engine.purge();
        }
        let small = row_bytes(round as u32);
        txn.insert(&table, &small).unwrap();
        model.push(small);
        txn.commit().unwrap();
        table.audit().unwrap();
        if round == 5 {
            most = table.data_bytes();
        }
    }
    assert_eq!(table.data_bytes(), most, "the files are used again");
    assert!(most < 15_000_000, "{most}");
    model.sort();
    assert!(committed(&engine, &table) == model);
    drop((txn, table, engine));
    let engine = open(&medium, small()).unwrap();
    let table = engine.table("t").unwrap();
    assert!(committed(&engine, &table) == model);
    engine.sweep().unwrap();
    table.audit().unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.delete(&table, large).unwrap();
    txn.commit().unwrap();
    for _ in 0..2 {
        engine.checkpoint().unwrap();
        engine.purge();
    }
    assert!(table.free_bytes() > 5_000_000);
}

/// Hazard: a transaction too large for the whole log stops others, or stays half done. It must be
/// rolled back, alone.
#[test]
fn a_transaction_larger_than_the_log_is_rolled_back_alone() {
    let config = Config {
        log: LogConfig { lanes: 2, lane_bytes: 4 << 10, generations: 2, generations_max: 3, ..LogConfig::default() },
        data_file_bytes: 4 << 20,
        ..small()
    };
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, config.clone()).unwrap();
    let table = engine.create_table("t", b"").unwrap();
    let other = engine.create_table("other", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rids: Vec<_> = (0..9000).map(|number| txn.insert(&table, &row_bytes(number)).unwrap()).collect();
    txn.commit().unwrap();
    let before = committed(&engine, &table);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let mut small = engine.session(Isolation::ReadCommitted);
            for number in 0..300 {
                small.insert(&other, &row_bytes(number)).unwrap();
                small.commit().unwrap();
            }
        });
        // Too few rows of each page to be spilled.
        for rid in rids.iter().step_by(3) {
            txn.update(&table, *rid, b"changed").unwrap();
        }
        let error = txn.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LogFull, "{error}");
        assert!(error.to_string().contains("smaller"), "{error}");
        beside.join().unwrap();
    });
    assert!(txn.is_read_only(), "it was rolled back");
    assert_eq!(committed(&engine, &table), before);
    for rid in rids.iter().step_by(3) {
        txn.update(&table, *rid, b"changed").unwrap();
    }
    assert_eq!(txn.prepare(b"large").unwrap_err().kind(), ErrorKind::LogFull);
    assert!(txn.is_read_only(), "so it was by its prepare");
    for rid in &rids[..300] {
        txn.update(&table, *rid, b"fits").unwrap();
    }
    txn.commit().unwrap();
    // However many rows: words are spilled and logged by reference, deletions cost a bit.
    for rid in &rids[300..2000] {
        txn.update(&table, *rid, b"fits").unwrap();
    }
    for rid in &rids[2000..] {
        txn.delete(&table, *rid).unwrap();
    }
    txn.commit().unwrap();
    assert_eq!(committed(&engine, &other).len(), 300);
    engine.checkpoint().unwrap();
    engine.purge();
    table.audit().unwrap();
    let after = committed(&engine, &table);
    drop((txn, table, other, engine));
    let engine = open(&medium, config).unwrap();
    assert_eq!(committed(&engine, &engine.table("t").unwrap()), after);
    assert!(engine.prepared().is_empty());
}

/// Hazard: a failed prepare leaves parts of its transaction in the log, and a later commit of the
/// session brings them back.
#[test]
fn a_failed_prepare_leaves_nothing_to_come_back() {
    let config = Config {
        log: LogConfig { lanes: 1, lane_bytes: 4 << 10, generations: 2, generations_max: 2, ..LogConfig::default() },
        data_file_bytes: 4 << 20,
        ..small()
    };
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, config.clone()).unwrap();
    let table = engine.create_table("t", b"").unwrap();
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rids: Vec<_> = (0..2000).map(|number| txn.insert(&table, &row_bytes(number)).unwrap()).collect();
    txn.commit().unwrap();
    let savepoint = txn.savepoint();
    for rid in rids.iter().step_by(3) {
        txn.update(&table, *rid, b"too much").unwrap();
    }
    assert_eq!(txn.prepare(b"large").unwrap_err().kind(), ErrorKind::LogFull);
    // The failed prepare has rolled the transaction back, and its savepoints went with it.
    assert_eq!(txn.rollback_to(&savepoint).unwrap_err().kind(), ErrorKind::NotFound);
    txn.update(&table, rids[0], b"kept").unwrap();
    txn.commit().unwrap();
    let after = committed(&engine, &table);
    assert!(after.len() == 2000 && !after.contains(&b"too much".to_vec()));
    drop((txn, table, engine));
    let engine = open(&medium, config).unwrap();
    assert_eq!(committed(&engine, &engine.table("t").unwrap()), after);
}

/// Sessions on threads, beside the background thread, on a device that is full most of the time.
#[test]
fn sessions_share_a_full_device() {
    for seed in seeds(4) {
        let medium = Arc::new(SimMedium::with_capacity(empty_pool_bytes() + (600 << 10)));
        let engine = open(&medium, Config { background: true, ..small() }).unwrap();
        let tables: Vec<_> = (0..3).map(|n| engine.create_table(&format!("t{n}"), b"").unwrap()).collect();
        let full = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3)
                .map(|thread| {
                    let (engine, table) = (&engine, &tables[thread as usize]);
                    scope.spawn(move || {
                        let mut worker = Worker::new(engine, table, seed * 10 + thread);
                        for round in 0..150 {
                            worker.transact();
                            if round % 50 == 49 {
                                worker.check(engine);
                                // Snapshots of the others hold purge back now and then.
                                worker.delete_all(engine, 1000);
                            }
                        }
                        worker.check(engine);
                        worker.full
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u32>()
        });
        assert!(full > 20, "{full} statements met a full device");
        engine.close();
        engine.checkpoint().unwrap();
        engine.purge();
        for table in engine.tables().unwrap() {
            table.audit().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}

/// Hazard: small transactions exhaust the smallest possible log. Its two generations must take
/// turns for any number of them.
#[test]
fn a_tiny_log_refuses_no_small_transaction() {
    let config = Config {
        log: LogConfig { lanes: 1, lane_bytes: 4 << 10, generations: 2, generations_max: 2, ..LogConfig::default() },
        ..small()
    };
    let medium = Arc::new(SimMedium::new());
    let engine = open(&medium, config).unwrap();
    let table = engine.create_table("t", b"").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (engine, table) = (&engine, &table);
            scope.spawn(move || {
                let mut txn = engine.session(Isolation::ReadCommitted);
                for number in 0..400 {
                    for _ in 0..=number % 4 {
                        txn.insert(table, &row_bytes(thread * 1000 + number)).unwrap();
                    }
                    txn.commit().unwrap_or_else(|error| panic!("{error}"));
                }
            });
        }
    });
    assert_eq!(committed(&engine, &table).len(), 4 * (400 * 5 / 2));
    assert!(engine.counters().generation_switches > 20);
}
