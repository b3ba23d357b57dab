//! SERIALIZABLE readers beside writers that know nothing of them. Whoever has locked a table finds
//! it the same at every look, but for its own writes.

use perdura_engine::{Config, Engine, Error, ErrorKind, Isolation, LockMode, Rid, Session, Table};
use perdura_pmem::Medium;
use perdura_pmem::sim::{Body, Random, Scheduler};
use perdura_pmem::sync::yield_now;
use std::sync::Arc;
use std::time::Duration;

/// Rows at the beginning.
const ROWS: u64 = 40;
/// Transactions of each thread.
const TRANSACTIONS: u64 = 5;
/// Row that a reader writes itself.
const OWN: &[u8] = b"own";

type Rows = Vec<(Rid, Vec<u8>)>;

/// Runs with a seed. Returns what is wrong.
pub fn run(seed: u64, medium: Arc<dyn Medium>, config: Config, scheduler: Scheduler) -> Result<(), String> {
    let engine = Engine::open(medium, config).map_err(|error| error.to_string())?;
    let tables = ["one", "two"].map(|name| engine.create_table(name, b"").expect("it is new"));
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rids = tables.each_ref().map(|table| {
        (0..ROWS).map(|number| txn.insert(table, &number.to_le_bytes()).expect("there is room")).collect::<Vec<_>>()
    });
    txn.commit().map_err(|error| error.to_string())?;
    drop(txn);
    let mut bodies: Vec<Body<'_>> = Vec::new();
    for thread in 0..4 {
        let (engine, tables, rids) = (&engine, &tables, &rids);
        bodies.push(Box::new(move || {
            let mut random = Random::new(seed * 4 + thread);
            for _ in 0..TRANSACTIONS {
                match thread {
                    0 | 1 => {
                        let is_prepared = random.one_in(3);
                        transaction(engine, Isolation::ReadCommitted, is_prepared, |txn| {
                            write(txn, tables, rids, &mut random)
                        });
                    }
                    _ => transaction(engine, Isolation::Serializable, false, |txn| look(txn, tables, &mut random)),
                }
            }
        }));
    }
    scheduler.try_run(bodies).map_err(|failure| failure.to_string())?;
    let counters = engine.counters();
    match (counters.locks_held, counters.locks_waited_for) {
        (0, 0) => Ok(()),
        (held, waited) => Err(format!("{held} locks are held and {waited} waited for when all is over")),
    }
}

/// Runs one transaction, which is prepared first if `is_prepared`, as in a group commit: others get
/// far between its place in the order and its publication, and so come to be durable but not
/// visible, behind it. A conflict rolls it back.
fn transaction(
    engine: &Engine,
    isolation: Isolation,
    is_prepared: bool,
    body: impl FnOnce(&mut Session) -> Result<(), Error>,
) {
    let mut txn = engine.session(isolation);
    txn.set_lock_wait_timeout(Duration::from_secs(1000));
    match body(&mut txn) {
        Ok(()) => {
            if is_prepared {
                txn.prepare(&txn.id().to_le_bytes()).expect("the log has room");
                txn.commit_ordered();
                (0..150).for_each(|_| yield_now());
            }
            txn.commit().map(|_| ()).expect("the log has room");
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}"),
    }
}

/// Inserts a row or changes one, in one table or both.
fn write(txn: &mut Session, tables: &[Arc<Table>; 2], rids: &[Vec<Rid>; 2], random: &mut Random) -> Result<(), Error> {
    for _ in 0..1 + random.below(2) {
        let which = random.below(2) as usize;
        let rid = rids[which][random.below(ROWS) as usize];
        match random.below(3) {
            0 => txn.insert(&tables[which], b"inserted").map(|_| ())?,
            1 => txn.locks().lock_row(&tables[which], rid, LockMode::Exclusive).map(|_| ())?,
            _ => txn.update(&tables[which], rid, &random.next_u64().to_le_bytes())?,
        }
    }
    Ok(())
}

/// Reads both tables twice, at times with a write before the first look. The second table is locked
/// while the statement reads.
fn look(txn: &mut Session, tables: &[Arc<Table>; 2], random: &mut Random) -> Result<(), Error> {
    if random.one_in(3) {
        txn.insert(&tables[random.below(2) as usize], OWN)?;
    }
    txn.start_statement();
    let mut first = Vec::new();
    for table in tables {
        txn.locks().lock_table(table, LockMode::Shared)?;
        first.push(rows(txn, table)?);
        yield_now();
    }
    txn.start_statement();
    for (table, first) in tables.iter().zip(first) {
        assert!(first == rows(txn, table)?, "a table that is locked has changed");
    }
    Ok(())
}

fn rows(txn: &mut Session, table: &Arc<Table>) -> Result<Rows, Error> {
    let mut scan = txn.scan(table);
    let mut rows = Vec::new();
    while let Some((rid, row)) = scan.next(txn)? {
        // SAFETY: the statement has not ended.
        rows.push((rid, unsafe { row.bytes() }.to_vec()));
    }
    Ok(rows)
}
