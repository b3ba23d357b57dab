//! A drill: sessions look their tables up for each statement, while another thread closes every
//! table that nobody uses.
//!
//! A table that is closed too early has forgotten what waits for purge: an old snapshot loses
//! versions, or deleted rows keep their cells and RIDs for as long as the pool is open.

use super::scenario::SCENARIOS;
use super::verdict;
use perdura_engine::check::check;
use perdura_engine::{Config, Engine, Isolation, Rid, Session};
use perdura_pmem::sim::{Body, Random, Scheduler};
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const TABLES: [&str; 2] = ["one", "two"];
const WRITERS: u32 = 2;
const TRANSACTIONS: u32 = 12;

/// The rows that a transaction sees in a table, which is looked up for it.
fn rows(engine: &Engine, txn: &mut Session, table: &str) -> Vec<Vec<u8>> {
    let table = engine.table(table).expect("nobody drops it");
    let mut scan = txn.scan(&table);
    let mut rows = Vec::new();
    while let Some((_, row)) = scan.next(txn).unwrap_or_else(|error| panic!("scan: {error}")) {
        // SAFETY: the statement is not over, and the table is held.
        rows.push(unsafe { row.bytes() }.to_vec());
    }
    rows
}

/// Inserts, replaces and deletes rows of its own. Returns the number of rows left in each table.
fn write(engine: &Engine, writer: u32, random: &mut Random) -> [usize; 2] {
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut own: [Vec<Rid>; 2] = Default::default();
    for number in 0..TRANSACTIONS {
        let which = random.below(2) as usize;
        let table = engine.table(TABLES[which]).expect("nobody drops it");
        let row = [&writer.to_le_bytes()[..], &number.to_le_bytes()].concat();
        txn.start_statement();
        let written = match own[which].last().copied() {
            Some(rid) if random.one_in(2) => match random.one_in(2) {
                true => txn.update(&table, rid, &row),
                false => {
                    own[which].pop();
                    txn.delete(&table, rid)
                }
            },
            _ => txn.insert(&table, &row).map(|rid| own[which].push(rid)),
        };
        written.and_then(|()| txn.commit()).unwrap_or_else(|error| panic!("writer {writer}: {error}"));
    }
    own.map(|rids| rids.len())
}

/// Runs writers, a snapshot and the closer; in the end every row is there and all space adds up.
pub fn run(seed: u64, medium: Arc<SimMedium>) -> Result<(), String> {
    let config = Config { open_files: 1, ..SCENARIOS[0].config() };
    let medium: Arc<dyn Medium> = medium;
    let engine = Engine::open(medium.clone(), config).map_err(|error| error.to_string())?;
    for name in TABLES {
        engine.create_table(name, b"").map_err(|error| error.to_string())?;
    }
    let left = AtomicU32::new(WRITERS);
    let counts: [[AtomicU32; 2]; WRITERS as usize] = Default::default();
    let mut bodies: Vec<Body<'_>> = Vec::new();
    for writer in 0..WRITERS {
        let (engine, left, counts) = (&engine, &left, &counts[writer as usize]);
        bodies.push(Box::new(move || {
            let mut random = Random::new(seed * u64::from(WRITERS) + u64::from(writer));
            for (count, rows) in counts.iter().zip(write(engine, writer, &mut random)) {
                count.store(rows as u32, Ordering::Relaxed);
            }
            left.fetch_sub(1, Ordering::Relaxed);
        }));
    }
    bodies.push(Box::new(|| {
        while left.load(Ordering::Relaxed) > 0 {
            let mut txn = engine.session(Isolation::RepeatableRead);
            let first = rows(&engine, &mut txn, TABLES[0]);
            txn.end_statement();
            assert_eq!(first, rows(&engine, &mut txn, TABLES[0]), "a snapshot moved");
        }
    }));
    bodies.push(Box::new(|| {
        while left.load(Ordering::Relaxed) > 0 {
            engine.checkpoint().expect("simulated memory takes it");
            engine.close_idle_tables();
            engine.purge();
            engine.close_idle_tables();
            engine.sweep().unwrap_or_else(|error| panic!("a sweep beside others: {error}"));
        }
    }));
    Scheduler::new(seed).switch_one_in(1 + seed % 12).run(bodies);
    for (which, name) in TABLES.iter().enumerate() {
        let expected: u32 = counts.iter().map(|counts| counts[which].load(Ordering::Relaxed)).sum();
        let seen = rows(&engine, &mut engine.session(Isolation::ReadCommitted), name).len();
        if seen != expected as usize {
            return Err(format!("table {name} has {seen} rows instead of {expected}"));
        }
    }
    purge_all(engine, medium)
}

/// Purges all tables, and checks that this leaves no deleted row and that space adds up.
pub(super) fn purge_all(engine: Engine, medium: Arc<dyn Medium>) -> Result<(), String> {
    verdict::audit(&engine)?;
    let tables = engine.tables().map_err(|error| error.to_string())?;
    engine.sweep().and_then(|()| engine.checkpoint()).map_err(|error| error.to_string())?;
    engine.purge();
    drop(tables);
    verdict::audit(&engine)?;
    drop(engine);
    let report = check(medium, &mut |_, _| ()).map_err(|error| error.to_string())?;
    let kept = report.tables.iter().map(|table| table.tombstones).sum::<u64>();
    if kept > 0 || !report.problems.is_empty() {
        return Err(format!("{kept} deleted rows were never purged; {:?}", report.problems));
    }
    Ok(())
}
