//! Hazard: a switch of the log's generations loses a commit, or leaves the log stuck, when switches
//! come every few milliseconds and checkpoints do not.
//!
//! Sixteen writers commit, a transaction is larger than all generations, checkpoints stall, the log
//! grows and shrinks; what was acknowledged must be there after a restart without an ordered end
//! (I1). `PERDURA_GENERATIONS_MINUTES=N` goes on with further seeds for that long.

#![allow(clippy::disallowed_methods, reason = "real threads for a while: no seed runs them again")]

use crate::common::{directory, files, small};
use perdura_engine::{Config, Engine, ErrorKind, Isolation, LogConfig, Rid, Session, Table};
use perdura_log::LogStatus;
use perdura_pmem::FileMedium;
use perdura_pmem::sim::Random;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const WRITERS: u64 = 16;
/// Rows that a writer keeps; beyond them it deletes.
const ROWS_MAX: usize = 200;
/// Generations that the log begins with, and may grow to.
const GENERATIONS: usize = 2;
const GENERATIONS_MAX: u32 = 4;
/// Checkpoints within which an idle log shrinks, though each need of a generation doubles the wait.
const SHRINKS_WITHIN: u32 = 10_000;
/// Time of one pool.
const ROUND: Duration = Duration::from_millis(700);
/// A generation's lanes and their bytes, from the smallest legal size to 1 GiB in all.
const SHAPES: [(u32, u64); 5] = [(1, 4 << 10), (4, 4 << 10), (2, 64 << 10), (4, 4 << 20), (4, 256 << 20)];
/// Shapes of the short form: the last one needs 4 GiB.
const SHORT: usize = 4;

fn config(shape: (u32, u64)) -> Config {
    let (lanes, lane_bytes) = shape;
    let log = LogConfig {
        lanes,
        lane_bytes,
        generations: GENERATIONS as u32,
        generations_max: GENERATIONS_MAX,
        shrink_after: 3,
        ..Default::default()
    };
    Config { log, transaction_memory: 64 << 10, lock_wait_timeout: Duration::from_secs(20), ..small() }
}

/// A session that changes rows of its own, and what it was told that it has.
struct Writer {
    session: Session,
    table: Arc<Table>,
    random: Random,
    rows: BTreeMap<Rid, Vec<u8>>,
    number: u64,
    name: u64,
}

impl Writer {
    fn new(engine: &Engine, table: &Arc<Table>, name: u64, seed: u64) -> Writer {
        let session = engine.session(Isolation::ReadCommitted);
        let random = Random::new(seed * 100 + name);
        Writer { session, table: table.clone(), random, rows: BTreeMap::new(), number: 0, name }
    }

    fn row(&mut self) -> Vec<u8> {
        self.number += 1;
        let mut row = format!("{} {} ", self.name, self.number).into_bytes();
        row.resize(row.len() + self.random.below(80) as usize, b'.');
        row
    }

    /// Works until `end`, the writer of the seed with a transaction larger than the log first.
    fn work(&mut self, log_bytes: u64, seed: u64, end: Instant) {
        if self.name == seed % WRITERS {
            self.outgrow(log_bytes);
        }
        while Instant::now() < end {
            let changes = if self.random.one_in(20) { 60 } else { 1 + self.random.below(4) };
            self.transact(changes);
        }
    }

    /// A transaction of `changes` changes, for which the log may have no room.
    fn transact(&mut self, changes: u64) {
        let mut rows = self.rows.clone();
        self.session.start_statement();
        for _ in 0..changes {
            if let Err(error) = self.change(&mut rows) {
                assert_eq!(error.kind(), ErrorKind::LogFull, "{error}");
                self.session.end_statement();
                self.session.rollback().expect("a rollback needs no room");
                return;
            }
        }
        self.session.end_statement();
        if self.random.one_in(10) {
            return self.session.rollback().expect("a rollback needs no room");
        }
        match self.session.commit() {
            Ok(_) => self.rows = rows,
            Err(error) => assert_eq!(error.kind(), ErrorKind::LogFull, "{error}"),
        }
    }

    fn change(&mut self, rows: &mut BTreeMap<Rid, Vec<u8>>) -> Result<(), perdura_engine::Error> {
        let place = self.random.below(rows.len().max(1) as u64) as usize;
        let known = rows.keys().nth(place).copied();
        match (self.random.below(3), known) {
            (0, Some(rid)) => {
                let row = self.row();
                self.session.update(&self.table, rid, &row)?;
                rows.insert(rid, row);
            }
            (choice, Some(rid)) if choice == 1 && rows.len() > ROWS_MAX / 2 || rows.len() > ROWS_MAX => {
                self.session.delete(&self.table, rid)?;
                rows.remove(&rid);
            }
            _ => {
                let row = self.row();
                let rid = self.session.insert(&self.table, &row)?;
                assert!(rows.insert(rid, row).is_none(), "a RID given twice");
            }
        }
        Ok(())
    }

    /// Inserts rows by a transaction whose redo no generation holds, all of them together neither,
    /// and deletes them again.
    fn outgrow(&mut self, log_bytes: u64) {
        let count = (log_bytes / 16).min(40_000);
        self.session.start_statement();
        let inserted: Result<Vec<Rid>, _> =
            (0..count).map(|n| self.session.insert(&self.table, &n.to_le_bytes())).collect();
        self.session.end_statement();
        let committed = inserted.and_then(|rids| self.session.commit().map(|_| rids));
        match committed {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::LogFull, "{error}");
                self.session.rollback().expect("a rollback needs no room");
            }
            Ok(rids) => {
                for part in rids.chunks(50) {
                    self.retract(part);
                }
            }
        }
    }

    /// Deletes rows, as often as it takes to find room in the log.
    fn retract(&mut self, rids: &[Rid]) {
        loop {
            self.session.start_statement();
            let deleted: Result<(), _> = rids.iter().try_for_each(|rid| self.session.delete(&self.table, *rid));
            self.session.end_statement();
            match deleted.and_then(|()| self.session.commit().map(|_| ())) {
                Ok(()) => return,
                Err(error) => assert_eq!(error.kind(), ErrorKind::LogFull, "{error}"),
            }
            self.session.rollback().expect("a rollback needs no room");
            std::thread::yield_now();
        }
    }
}

/// Checkpoints and purges until `done`, and stalls at random for up to 60 ms.
fn maintain(engine: &Engine, done: &AtomicBool, seed: u64) {
    let mut random = Random::new(seed);
    while !done.load(Ordering::Acquire) {
        let stall = if random.one_in(8) { random.below(60) } else { 1 };
        std::thread::sleep(Duration::from_millis(stall));
        engine.checkpoint().expect("the pool is whole");
        engine.purge();
    }
}

/// Runs a pool of this shape for a while. Returns the log's status at its end.
fn run(engine: &Engine, writers: &mut [Writer], seed: u64) -> LogStatus {
    let (done, end) = (AtomicBool::new(false), Instant::now() + ROUND);
    let log = engine.status().log;
    let log_bytes = u64::from(log.lanes) * log.lane_bytes * u64::from(log.generations_max);
    std::thread::scope(|scope| {
        let maintainer = scope.spawn(|| maintain(engine, &done, seed));
        let threads: Vec<_> =
            writers.iter_mut().map(|writer| scope.spawn(move || writer.work(log_bytes, seed, end))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("seed and shape are above"));
        done.store(true, Ordering::Release);
        maintainer.join().expect("seed and shape are above");
    });
    shrink(engine)
}

/// Checkpoints a log that nobody uses until it has shrunk to the generations that it began with.
fn shrink(engine: &Engine) -> LogStatus {
    for _ in 0..SHRINKS_WITHIN {
        engine.checkpoint().expect("the pool is whole");
        let log = engine.status().log;
        if log.generations.len() == GENERATIONS {
            return log;
        }
    }
    panic!("no shrinking: {}", engine.status().log);
}

fn open(medium: Arc<FileMedium>, shape: (u32, u64)) -> Engine {
    Engine::open(medium, config(shape)).expect("the pool opens")
}

/// Runs a pool twice, each time up to a restart without an ordered end.
fn stress(seed: u64, shape: (u32, u64)) -> (u64, u64) {
    println!("seed {seed}, {} lanes of {} bytes", shape.0, shape.1);
    let directory = directory();
    let (mut rows, mut grown, mut shrunk) = (vec![BTreeMap::new(); WRITERS as usize], 0, 0);
    let engine = open(files(&directory), shape);
    engine.create_table("t", b"").expect("there is room");
    drop(engine);
    for life in 0..2 {
        let engine = open(files(&directory), shape);
        let table = engine.table("t").expect("it was created");
        let mut writers: Vec<_> =
            (0..WRITERS).map(|name| Writer::new(&engine, &table, name, seed * 2 + life)).collect();
        writers.iter_mut().zip(rows).for_each(|(writer, rows)| {
            writer.rows = rows;
            writer.number = life << 40;
        });
        assert_eq!(stored(&engine, &table), all(&writers), "before life {life}");
        let log = run(&engine, &mut writers, seed);
        assert_eq!(stored(&engine, &table), all(&writers), "after life {life}");
        (grown, shrunk) = (grown + log.grown, shrunk + log.shrunk);
        rows = writers.into_iter().map(|writer| writer.rows).collect();
    }
    (grown, shrunk)
}

fn all(writers: &[Writer]) -> BTreeMap<Rid, Vec<u8>> {
    writers.iter().flat_map(|writer| writer.rows.clone()).collect()
}

fn stored(engine: &Engine, table: &Arc<Table>) -> BTreeMap<Rid, Vec<u8>> {
    let mut session = engine.session(Isolation::ReadCommitted);
    crate::common::rows(&mut session, table).into_iter().collect()
}

#[test]
fn no_commit_is_lost_by_switches_under_load() {
    let minutes = std::env::var("PERDURA_GENERATIONS_MINUTES").ok().and_then(|text| text.parse::<u64>().ok());
    let end = minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    let (mut grown, mut shrunk) = (0, 0);
    for shape in &SHAPES[..SHORT] {
        let changed = stress(1, *shape);
        (grown, shrunk) = (grown + changed.0, shrunk + changed.1);
    }
    assert!(grown > 0 && shrunk > 0, "grown by {grown}, shrunk by {shrunk} generations");
    for seed in 2.. {
        if end.is_none_or(|end| Instant::now() >= end) {
            return;
        }
        stress(seed, SHAPES[seed as usize % SHAPES.len()]);
    }
}
