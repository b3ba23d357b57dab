//! A table that is swept after a restart, while purge reclaims rows that were deleted since.
//!
//! A row belongs to the purge of its deletion from the commit on until its RID is free. A sweep
//! that takes it for one deleted before the restart frees its RID and its cell a second time, when
//! another row may have them.

use super::closing::purge_all;
use perdura_engine::{Config, Engine, Isolation, Result, Rid};
use perdura_pmem::Medium;
use perdura_pmem::sim::{Body, Random, Scheduler};
use perdura_pmem::sync::yield_now;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows before the restart: several pages of the row directory.
const ROWS: u64 = 800;
/// Transactions while the table is swept, and rows that each deletes. They insert none: whoever
/// looks for free RIDs sweeps the table itself.
const TRANSACTIONS: u64 = 12;
const DELETED: u64 = 20;

/// Rows, each with the number that is its content.
type Rows = Vec<(Rid, u64)>;

/// Runs with a seed. Returns what is wrong.
pub fn run(
    seed: u64,
    medium: Arc<dyn Medium>,
    config: Config,
    scheduler: Scheduler,
) -> std::result::Result<(), String> {
    let mut random = Random::new(seed);
    let mut rows = fill(medium.clone(), config.clone()).map_err(|error| format!("the table is not filled: {error}"))?;
    let engine = Engine::open(medium.clone(), config).map_err(|error| format!("after the restart: {error}"))?;
    let (lag, is_over) = (1 + random.below(DELETED), AtomicBool::new(false));
    let bodies: Vec<Body<'_>> = vec![
        Box::new(|| {
            delete(&engine, &mut rows, &mut random).unwrap_or_else(|error| panic!("a write beside a sweep: {error}"));
            is_over.store(true, Ordering::Release);
        }),
        Box::new(|| {
            while !is_over.load(Ordering::Acquire) {
                engine.checkpoint().expect("simulated memory takes it");
                engine.purge();
                yield_now();
            }
        }),
        Box::new(|| {
            while engine.counters().purge_lag < lag && !is_over.load(Ordering::Acquire) {
                yield_now();
            }
            engine.sweep().unwrap_or_else(|error| panic!("a sweep beside purge: {error}"));
        }),
    ];
    scheduler.try_run(bodies).map_err(|failure| failure.to_string())?;
    let seen = numbers(&engine).map_err(|error| format!("when all is over: {error}"))?;
    let expected: BTreeSet<u64> = rows.into_iter().map(|(_, number)| number).collect();
    if seen != expected {
        let lost = expected.difference(&seen).count();
        return Err(format!("{lost} rows are lost, {} are too many", seen.difference(&expected).count()));
    }
    purge_all(engine, medium)
}

/// Fills the table of a new pool.
fn fill(medium: Arc<dyn Medium>, config: Config) -> Result<Rows> {
    let engine = Engine::open(medium, config)?;
    let table = engine.create_table("t", b"")?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    let insert = |number: u64| txn.insert(&table, &number.to_le_bytes()).map(|rid| (rid, number));
    let rows = (0..ROWS).map(insert).collect::<Result<Rows>>()?;
    txn.commit()?;
    Ok(rows)
}

/// Deletes rows of all pages.
fn delete(engine: &Engine, rows: &mut Rows, random: &mut Random) -> Result<()> {
    let table = engine.table("t")?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    for _ in 0..TRANSACTIONS {
        for _ in 0..DELETED {
            let (rid, _) = rows.swap_remove(random.below(rows.len() as u64) as usize);
            txn.delete(&table, rid)?;
        }
        txn.commit()?;
        yield_now();
    }
    Ok(())
}

/// The contents of all rows.
fn numbers(engine: &Engine) -> Result<BTreeSet<u64>> {
    let table = engine.table("t")?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut scan = txn.scan(&table);
    let mut numbers = BTreeSet::new();
    while let Some((_, row)) = scan.next(&txn)? {
        // SAFETY: the statement is not over, and the table is held.
        let bytes = unsafe { row.bytes() };
        numbers.insert(u64::from_le_bytes(bytes.try_into().expect("rows of eight bytes")));
    }
    Ok(numbers)
}
