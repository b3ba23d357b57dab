//! Hazard: races that no seeded interleaving has met. Sessions run on real threads beside the
//! background thread, in a pool so small that files grow, the log wraps and space is reused all the
//! time.
//!
//! Sums must hold in every snapshot (I4), each session must find what it committed (I1), space must
//! add up (I8), and a restart must change nothing.

use crate::common;

use crate::common::bank::Bank;
use crate::common::raid::Raid;
use crate::common::{committed, row_bytes, rows, seeds, small, try_rows};
use perdura_engine::{Config, Engine, ErrorKind, Isolation, Rid, Session, Table};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A session that inserts, updates, deletes, makes bulk inserts and rolls back to savepoints, in a
/// table that it shares with others. It remembers what it committed.
struct Churner {
    txn: Session,
    table: Arc<Table>,
    random: Random,
    committed: BTreeMap<Rid, Vec<u8>>,
    thread: u32,
    number: u32,
}

impl Churner {
    fn new(engine: &Engine, table: &Arc<Table>, committed: BTreeMap<Rid, Vec<u8>>, thread: u32, seed: u64) -> Churner {
        let isolation = [Isolation::ReadCommitted, Isolation::RepeatableRead][thread as usize % 2];
        let mut txn = engine.session(isolation);
        txn.set_lock_wait_timeout(Duration::from_secs(20));
        let random = Random::new(seed * 100 + u64::from(thread));
        Churner { txn, table: table.clone(), random, committed, thread, number: 0 }
    }

    /// A row that names its session: thread, a number, and up to 6 KB of padding.
    fn row(&mut self) -> Vec<u8> {
        self.number += 1;
        let mut row = format!("{} {:05} ", self.thread, self.number).into_bytes();
        let padding = if self.random.one_in(25) { self.random.below(6000) } else { self.random.below(120) };
        row.resize(row.len() + padding as usize, b'.');
        row
    }

    fn pick(&mut self, rows: &BTreeMap<Rid, Vec<u8>>) -> Option<Rid> {
        let position = self.random.below(rows.len().max(1) as u64) as usize;
        rows.keys().nth(position).copied()
    }

    fn transact(&mut self) {
        let mut mine = self.committed.clone();
        for _ in 0..=self.random.below(4) {
            self.txn.start_statement();
            let (savepoint, before) = (self.txn.savepoint(), mine.clone());
            let steps = if self.random.one_in(12) { 150 } else { self.random.below(8) };
            for _ in 0..steps {
                self.step(&mut mine, steps);
            }
            if self.random.one_in(5) {
                self.txn.rollback_to(&savepoint).unwrap();
                mine = before;
            }
            if self.random.one_in(6) {
                self.check_scan(&mine);
            }
            self.txn.end_statement();
        }
        if self.random.one_in(5) {
            return self.txn.rollback().unwrap();
        }
        self.txn.commit().unwrap_or_else(|error| panic!("{error}"));
        self.committed = mine;
    }

    fn step(&mut self, mine: &mut BTreeMap<Rid, Vec<u8>>, steps: u64) {
        let known = self.pick(mine);
        let crowded = mine.len() > 150;
        match (self.random.below(4), known) {
            (0, Some(rid)) => {
                let row = self.row();
                self.txn.update(&self.table, rid, &row).unwrap_or_else(|error| panic!("{error}"));
                mine.insert(rid, row);
            }
            (choice, Some(rid)) if choice == 1 && steps < 100 || crowded => {
                self.txn.delete(&self.table, rid).unwrap_or_else(|error| panic!("{error}"));
                mine.remove(&rid);
            }
            _ => {
                let row = self.row();
                let rid = self.txn.insert(&self.table, &row).unwrap_or_else(|error| panic!("{error}"));
                assert!(mine.insert(rid, row).is_none(), "a RID given twice");
            }
        }
    }

    /// Asserts that a scan finds exactly the session's own rows among all.
    fn check_scan(&mut self, mine: &BTreeMap<Rid, Vec<u8>>) {
        let prefix = format!("{} ", self.thread).into_bytes();
        let seen = try_rows(&mut self.txn, &self.table).unwrap_or_else(|error| panic!("{error}"));
        let of_mine: BTreeMap<_, _> = seen.into_iter().filter(|(_, row)| row.starts_with(&prefix)).collect();
        let text = |rows: &BTreeMap<Rid, Vec<u8>>, rid: &Rid| {
            let head = rows.get(rid).map(|row| String::from_utf8_lossy(&row[..8]).into_owned());
            format!("{:#x} {head:?}", rid.to_u64())
        };
        for rid in mine.keys().chain(of_mine.keys()) {
            let (wanted, seen) = (text(mine, rid), text(&of_mine, rid));
            assert!(mine.get(rid) == of_mine.get(rid), "session {}: {wanted} wanted, {seen} seen", self.thread);
        }
    }
}

/// Counts a writer down when it ends, also by a panic, so that nobody waits for it.
struct Ends<'a>(&'a AtomicU32);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Checks sums in snapshots of both isolation levels until the writers are done.
fn read_sums(engine: &Engine, bank: &Bank, writers: &AtomicU32) {
    while writers.load(Ordering::Acquire) > 0 {
        for isolation in [Isolation::RepeatableRead, Isolation::ReadCommitted] {
            let mut txn = engine.session(isolation);
            for _ in 0..3 {
                txn.start_statement();
                assert_eq!(bank.sum(&mut txn).unwrap(), bank.total(), "{isolation:?}");
                txn.end_statement();
            }
            let snapshots_differ = isolation == Isolation::RepeatableRead && {
                let first = rows(&mut txn, &bank.table);
                std::thread::yield_now();
                first != rows(&mut txn, &bank.table)
            };
            assert!(!snapshots_differ, "a snapshot moved");
        }
    }
}

/// Creates, fills, truncates, renames and drops tables until the writers are done.
fn run_ddl(engine: &Engine, writers: &AtomicU32, seed: u64) {
    let mut random = Random::new(seed);
    let mut number = 0;
    while writers.load(Ordering::Acquire) > 0 {
        number += 1;
        let table = engine.create_table("passing", &[1; 100]).unwrap();
        let mut txn = engine.session(Isolation::ReadCommitted);
        for row in 0..random.below(120) as u32 {
            txn.insert(&table, &row_bytes(row)).unwrap();
        }
        txn.commit().unwrap();
        let table = if random.one_in(2) { engine.truncate_table("passing").unwrap() } else { table };
        assert!(random.one_in(2) || !table.is_dropped());
        engine.rename_table("passing", "passing by").unwrap();
        assert_eq!(engine.table("passing").map(|_| ()).unwrap_err().kind(), ErrorKind::NotFound);
        engine.drop_table("passing by").unwrap();
        std::thread::sleep(Duration::from_millis(random.below(3)));
    }
    assert!(number > 0);
}

/// The rows that the sessions of one run committed, which the next run must find.
type Left = Vec<BTreeMap<Rid, Vec<u8>>>;

/// Runs all threads once on an opened pool.
fn run(engine: &Engine, seed: u64, rounds: u32, left: Left) -> Left {
    let churned = engine.table("churned").or_else(|_| engine.create_table("churned", b"")).unwrap();
    let bank = match engine.table("bank") {
        Ok(table) => {
            let mut txn = engine.session(Isolation::ReadCommitted);
            let accounts = rows(&mut txn, &table).into_iter().map(|(rid, _)| rid).collect();
            Bank { table, accounts }
        }
        Err(_) => Bank::create(engine, "bank", 12),
    };
    let mut txn = engine.session(Isolation::ReadCommitted);
    assert_eq!(bank.sum(&mut txn).unwrap(), bank.total(), "after the restart");
    drop(txn);
    // In this table, which each run creates for itself, sessions change and delete each other's
    // rows.
    let raid = Raid::new(engine.create_table(&format!("raided {seed}"), b"").unwrap());
    let writers = AtomicU32::new(6);
    let left = std::thread::scope(|scope| {
        let mut churners = Vec::new();
        for (thread, committed) in (0..).zip(left) {
            let (writers, churned) = (&writers, &churned);
            churners.push(scope.spawn(move || {
                let _ends = Ends(writers);
                let mut churner = Churner::new(engine, churned, committed, thread, seed);
                churner.check_scan(&churner.committed.clone());
                (0..rounds).for_each(|_| churner.transact());
                churner.committed
            }));
        }
        for (thread, isolation) in [(7, Isolation::ReadCommitted), (8, Isolation::RepeatableRead)] {
            let (writers, bank) = (&writers, &bank);
            scope.spawn(move || {
                let _ends = Ends(writers);
                let mut random = Random::new(seed * 100 + thread);
                let mut txn = engine.session(isolation);
                txn.set_lock_wait_timeout(Duration::from_secs(20));
                bank.transfer_often(&mut txn, rounds * 2, &mut random);
            });
        }
        for (session, isolation) in [(0, Isolation::ReadCommitted), (1, Isolation::RepeatableRead)] {
            let (writers, raid) = (&writers, &raid);
            scope.spawn(move || {
                let _ends = Ends(writers);
                let mut random = Random::new(seed * 100 + 50 + u64::from(session));
                let mut txn = engine.session(isolation);
                txn.set_lock_wait_timeout(Duration::from_secs(20));
                raid.take_part(&mut txn, session, rounds, &mut random);
            });
        }
        scope.spawn(|| read_sums(engine, &bank, &writers));
        scope.spawn(|| run_ddl(engine, &writers, seed));
        scope.spawn(|| {
            while writers.load(Ordering::Acquire) > 0 {
                engine.checkpoint().unwrap();
                engine.purge();
                std::thread::yield_now();
            }
        });
        churners.into_iter().map(|churner| churner.join().unwrap()).collect::<Left>()
    });
    raid.check(engine);
    engine.drop_table(&format!("raided {seed}")).unwrap();
    let mut expected: Vec<_> = left.iter().flat_map(|rows| rows.values().cloned()).collect();
    expected.sort();
    assert!(committed(engine, &churned) == expected, "rows at the end of the run");
    left
}

fn audit(engine: &Engine) {
    engine.sweep().unwrap();
    engine.checkpoint().unwrap();
    engine.purge();
    assert_eq!(engine.counters().failed, 0);
    assert_eq!((engine.counters().locks_held, engine.counters().snapshots), (0, 0));
    for table in engine.tables().unwrap() {
        table.audit().unwrap_or_else(|error| panic!("{error}"));
    }
}

fn background() -> Config {
    Config { background: true, prefault: true, lock_wait_timeout: Duration::from_secs(20), ..small() }
}

#[test]
fn in_simulated_memory_through_restarts_of_both_kinds() {
    let medium = Arc::new(SimMedium::new());
    let mut left = vec![BTreeMap::new(); 2];
    for seed in seeds(6) {
        let shared: Arc<dyn Medium> = medium.clone();
        let orderly = seed % 2 == 0;
        let config = if orderly { background() } else { small() };
        let engine = Engine::open(shared, config).unwrap_or_else(|error| panic!("run {seed}: {error}"));
        left = run(&engine, seed, 400, left);
        if orderly {
            engine.close();
            audit(&engine);
        }
    }
}

#[test]
fn in_files_through_restarts() {
    let directory = common::directory();
    let mut left = vec![BTreeMap::new(); 2];
    for seed in seeds(3) {
        let engine =
            Engine::open(common::files(&directory), background()).unwrap_or_else(|error| panic!("run {seed}: {error}"));
        left = run(&engine, 50 + seed, 400, left);
        engine.close();
        audit(&engine);
    }
}
