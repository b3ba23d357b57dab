//! Scans that lock rows by an index beside writers that move the rows among the keys. All rows lie
//! within the ranges of each scan at every moment, so each scan finds every row once, whichever way
//! it goes and whatever it has to wait for.

use perdura_engine::{
    Config, Direction, Engine, Error, ErrorKind, IndexDefinition, IndexScan, Isolation, Key, KeyChange, LockMode,
    LockOutcome, ReadView, Rid, ScanBuffers, Session, Table,
};
use perdura_pmem::Medium;
use perdura_pmem::sim::{Body, Random, Scheduler};
use perdura_pmem::sync::yield_now;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const ROWS: u32 = 12;
/// Keys that rows have: from the first to below the second.
const KEYS: (u32, u32) = (100, 160);
const TRANSACTIONS: u32 = 12;
const SCANS: u32 = 6;

/// Runs with a seed. Returns what is wrong.
pub fn run(seed: u64, medium: Arc<dyn Medium>, config: Config, scheduler: Scheduler) -> Result<(), String> {
    let engine = Engine::open(medium, config).map_err(|error| error.to_string())?;
    let definition = IndexDefinition { unique: false, key_bytes: 4 };
    let table = engine.create_table_with("t", b"", &[definition]).expect("it is new");
    let mut random = Random::new(seed * 8 + 7);
    let mut txn = engine.session(Isolation::ReadCommitted);
    let rids: Vec<_> = (0..ROWS)
        .map(|_| {
            let key = some_key(&mut random).to_be_bytes();
            txn.insert_with(&table, &key, &[Key { bytes: &key, may_repeat: true }]).expect("there is room")
        })
        .collect();
    txn.commit().map_err(|error| error.to_string())?;
    drop(txn);
    let whole = AtomicU32::new(0);
    let mut bodies: Vec<Body<'_>> = Vec::new();
    for thread in 0..4 {
        let (engine, table, rids, whole) = (&engine, &table, &rids, &whole);
        let mut random = Random::new(seed * 8 + thread);
        bodies.push(Box::new(move || match thread {
            0 | 1 => (0..TRANSACTIONS).for_each(|_| {
                transaction(engine, Isolation::ReadCommitted, |txn| move_some(txn, table, rids, &mut random));
            }),
            _ => (0..SCANS).for_each(|_| {
                let isolation = [Isolation::ReadCommitted, Isolation::ConsistentReads][random.below(2) as usize];
                let scanned = transaction(engine, isolation, |txn| scan(txn, table, rids, &mut random));
                whole.fetch_add(u32::from(scanned), Ordering::Relaxed);
            }),
        }));
    }
    scheduler.try_run(bodies).map_err(|failure| failure.to_string())?;
    if whole.into_inner() == 0 { Err("no scan came to its end".to_owned()) } else { Ok(()) }
}

fn some_key(random: &mut Random) -> u32 {
    KEYS.0 + random.below(u64::from(KEYS.1 - KEYS.0)) as u32
}

/// Runs one transaction. A deadlock rolls it back; returns whether there was none.
fn transaction(engine: &Engine, isolation: Isolation, body: impl FnOnce(&mut Session) -> Result<(), Error>) -> bool {
    let mut txn = engine.session(isolation);
    txn.set_lock_wait_timeout(Duration::from_secs(1000));
    match body(&mut txn) {
        Ok(()) => txn.commit().map(|_| true).expect("the log has room"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}");
            false
        }
    }
}

/// Moves one row or two to other keys.
fn move_some(txn: &mut Session, table: &Arc<Table>, rids: &[Rid], random: &mut Random) -> Result<(), Error> {
    for _ in 0..1 + random.below(2) {
        let rid = rids[random.below(rids.len() as u64) as usize];
        txn.locks().lock_row(table, rid, LockMode::Exclusive)?;
        move_to(txn, table, rid, some_key(random))?;
        yield_now();
    }
    Ok(())
}

/// Gives a row that is locked another key.
fn move_to(txn: &mut Session, table: &Arc<Table>, rid: Rid, key: u32) -> Result<(), Error> {
    let old = key_of(txn, table, rid)?.to_be_bytes();
    let new = key.to_be_bytes();
    let change = KeyChange { index: 0, old: &old, new: Key { bytes: &new, may_repeat: true } };
    txn.update_with(table, rid, &new, &[change])
}

/// The key of a row that is locked.
fn key_of(txn: &mut Session, table: &Arc<Table>, rid: Rid) -> Result<u32, Error> {
    let row = txn.read(table, rid, ReadView::Newest)?.expect("no row is deleted");
    // SAFETY: the row is locked, and copied before anything else happens.
    let bytes = unsafe { row.bytes() };
    Ok(u32::from_be_bytes(bytes.try_into().expect("a row is its key")))
}

/// Walks through the ranges as a server does, which ends a range at the first row whose key is not
/// in it. At times it moves the rows that it finds.
fn scan(txn: &mut Session, table: &Arc<Table>, rids: &[Rid], random: &mut Random) -> Result<(), Error> {
    if random.one_in(2) {
        // The snapshot that later statements do not lock by.
        txn.start_statement();
        txn.index(table, 0).find(&KEYS.0.to_be_bytes(), ReadView::Snapshot)?;
        txn.end_statement();
        yield_now();
    }
    txn.start_statement();
    let direction = if random.one_in(2) { Direction::Forward } else { Direction::Backward };
    let middle = some_key(random);
    let mut ranges = vec![(KEYS.0, middle), (middle, KEYS.1)];
    let mut steps = direction;
    if direction == Direction::Backward {
        ranges.reverse();
        if random.one_in(2) {
            // Key by key, as for a list of values in descending order.
            ranges = (KEYS.0..KEYS.1).rev().map(|key| (key, key + 1)).collect();
            steps = Direction::Forward;
        }
    }
    let moves = random.one_in(3);
    let mut scan = txn.index(table, 0).scan_to_lock(ScanBuffers::default());
    let mut used = BTreeMap::<Rid, u32>::new();
    for range in ranges.into_iter().filter(|(from, to)| from < to) {
        for rid in one_range(txn, &mut scan, table, range, (direction, steps))? {
            *used.entry(rid).or_default() += 1;
            if moves {
                move_to(txn, table, rid, some_key(random))?;
            }
        }
    }
    let missed = rids.iter().filter(|rid| !used.contains_key(rid)).count();
    let repeated = used.values().filter(|times| **times > 1).count();
    assert_eq!((missed, repeated), (0, 0), "rows missed and rows found twice, {direction:?}");
    txn.end_statement();
    Ok(())
}

/// The rows that a server finds in a range, all locked: in steps of another direction than that of
/// the walk if the range has one key.
fn one_range(
    txn: &mut Session,
    scan: &mut IndexScan,
    table: &Arc<Table>,
    (from, to): (u32, u32),
    (direction, steps): (Direction, Direction),
) -> Result<Vec<Rid>, Error> {
    let mut found = Vec::new();
    let bound = if steps == Direction::Forward { from } else { to }.to_be_bytes();
    scan.seek(txn, if steps == Direction::Forward { Bound::Included(&bound) } else { Bound::Excluded(&bound) }, steps)?;
    loop {
        let is_there = match steps {
            Direction::Forward => scan.forward(txn)?,
            Direction::Backward => scan.backward(txn)?,
        };
        let is_within = steps == direction || scan.key() == bound;
        let Some(rid) = scan.rid().filter(|_| is_there && is_within) else { return Ok(found) };
        let lock = txn.locks().lock_row(table, rid, LockMode::Exclusive)?;
        let key = key_of(txn, table, rid)?;
        let is_of_entry = scan.key() == key.to_be_bytes();
        if !is_of_entry && (txn.has_written(table, rid) || !scan.is_offered_moved(&key.to_be_bytes(), direction)) {
            if lock == LockOutcome::New {
                txn.locks().unlock_row(table, rid);
            }
            continue;
        }
        let is_beyond = if direction == Direction::Forward { key >= to } else { key < from };
        if is_beyond {
            if lock == LockOutcome::New {
                txn.locks().unlock_row(table, rid);
            }
            return Ok(found);
        }
        found.push(rid);
    }
}
