//! Drills of a pool that is held for a backup, beside sessions, purge and definitions of tables:
//! nothing is stored while it is held (I2), and whoever was told that it is held holds it alone.

use perdura_engine::{Config, Engine, ErrorKind, HoldNumber, Isolation, Table};
use perdura_pmem::SimMedium;
use perdura_pmem::sim::{Body, Random, Scheduler};
use perdura_pmem::sync::yield_now;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

const WRITERS: u64 = 2;
const TRANSACTIONS: u32 = 8;
const ROUNDS: u32 = 5;
/// Longer than any wait that ends.
const LONG: Duration = Duration::from_secs(1000);

/// Holds the pool again and again, and compares its files at the beginning and at the end.
pub fn still(seed: u64, medium: &Arc<SimMedium>, config: Config, scheduler: Scheduler) -> Result<(), String> {
    let (engine, table) = pool(medium, config)?;
    let working = AtomicU32::new(WRITERS as u32 + 1);
    let mut bodies: Vec<Body<'_>> = Vec::new();
    for writer in 0..WRITERS {
        let (engine, table, working) = (&engine, &table, &working);
        bodies.push(Box::new(move || {
            write(engine, table, &mut Random::new(seed * 4 + writer));
            working.fetch_sub(1, Ordering::Relaxed);
        }));
    }
    bodies.push(Box::new(|| {
        keep(&engine, &mut Random::new(seed * 4 + 2));
        working.fetch_sub(1, Ordering::Relaxed);
    }));
    bodies.push(Box::new(|| {
        let mut random = Random::new(seed * 4 + 3);
        while working.load(Ordering::Relaxed) > 0 {
            hold_once(&engine, medium, &mut random);
            (0..random.below(30)).for_each(|_| yield_now());
        }
    }));
    scheduler.try_run(bodies).map_err(|failure| failure.to_string()).map(|_| ())
}

fn pool(medium: &Arc<SimMedium>, config: Config) -> Result<(Engine, Arc<Table>), String> {
    let engine = Engine::open(medium.clone(), config).map_err(|error| error.to_string())?;
    let table = engine.create_table("t", b"").map_err(|error| error.to_string())?;
    Ok((engine, table))
}

/// Writes in statements, between which the transaction is in no change, and ends the transactions
/// in every way.
fn write(engine: &Engine, table: &Arc<Table>, random: &mut Random) {
    let mut own = Vec::new();
    for number in 0..TRANSACTIONS {
        let mut txn = engine.session(Isolation::ReadCommitted);
        let mut inserted = Vec::new();
        if let Some(rid) = own.pop() {
            txn.delete(table, rid).expect("nobody else knows the row");
        }
        for _ in 0..1 + random.below(3) {
            txn.start_statement();
            let rid = txn.insert(table, &random.next_u64().to_le_bytes()).expect("there is room");
            if random.one_in(2) {
                txn.update(table, rid, b"changed").expect("nobody else knows the row");
            }
            txn.end_statement();
            inserted.push(rid);
            (0..random.below(6)).for_each(|_| yield_now());
        }
        match random.below(4) {
            0 => {
                inserted.clear();
                txn.rollback().expect("nothing is ordered");
            }
            1 => {
                txn.prepare(&[&[number as u8][..], &random.next_u64().to_le_bytes()].concat()).expect("there is room");
                txn.commit().expect("there is room");
            }
            _ => {
                txn.commit().expect("there is room");
            }
        }
        own.extend(inserted);
    }
}

/// Purges, and defines tables.
fn keep(engine: &Engine, random: &mut Random) {
    for _ in 0..ROUNDS {
        engine.checkpoint().expect("simulated memory takes it");
        engine.purge();
        if random.one_in(2) {
            engine.create_table("made", b"").expect("it is new");
            engine.truncate_table("made").map(drop).expect("nobody uses it");
            engine.drop_table("made").expect("nobody uses it");
        }
    }
}

/// A pool that is held. A run that is given up must end: sessions that are dropped wait for the
/// release.
struct Held<'a>(&'a Engine, HoldNumber);

impl Held<'_> {
    /// Releases the pool. Returns whether it was held until now.
    fn release(self) -> bool {
        self.0.release(self.1)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release(self.1);
    }
}

fn hold_once(engine: &Engine, medium: &SimMedium, random: &mut Random) {
    let held = Held(engine, engine.hold(LONG).expect("statements end, so the pool can be held"));
    let first = medium.image().hash();
    (0..random.below(40)).for_each(|_| yield_now());
    let last = medium.image().hash();
    assert!(held.release(), "nobody else knows the number");
    assert!(first == last, "something was stored while the pool was held");
}

/// A hold waits for a statement; meanwhile somebody releases it and holds the pool himself. The
/// first one then releases its own number, as whoever has failed does.
pub fn by_turns(seed: u64, medium: &Arc<SimMedium>, config: Config, scheduler: Scheduler) -> Result<(), String> {
    let (engine, table) = pool(medium, config)?;
    let (is_open, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let (was_interrupted, is_first_held) = (AtomicBool::new(false), AtomicBool::new(false));
    let writer = || {
        let mut random = Random::new(seed);
        let mut txn = engine.session(Isolation::ReadCommitted);
        txn.start_statement();
        txn.insert(&table, b"a row").expect("there is room");
        is_open.store(true, Ordering::Relaxed);
        (0..20 + random.below(100)).for_each(|_| yield_now());
        is_open.store(false, Ordering::Relaxed);
        txn.commit().expect("there is room");
    };
    let first = || {
        let hold = engine.begin_hold().expect("nobody else holds the pool yet");
        let held = Held(&engine, hold);
        asked.store(hold.to_u64(), Ordering::Relaxed);
        match engine.await_hold(hold, LONG) {
            Ok(()) => is_first_held.store(true, Ordering::Relaxed),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Killed, "{error}"),
        }
        drop(held);
    };
    let second = || {
        while asked.load(Ordering::Relaxed) == 0 {
            yield_now();
        }
        // While the statement goes on nobody holds the pool: whoever is released waits.
        let was_open = is_open.load(Ordering::Relaxed);
        let is_released = engine.release(HoldNumber::from_u64(asked.load(Ordering::Relaxed)));
        was_interrupted.store(is_released && was_open && is_open.load(Ordering::Relaxed), Ordering::Relaxed);
        let held = Held(&engine, engine.hold(LONG).expect("the first hold is over"));
        (0..20).for_each(|_| yield_now());
        assert!(held.release(), "the hold was ended by the number of another");
    };
    let bodies: Vec<Body<'_>> = vec![Box::new(writer), Box::new(first), Box::new(second)];
    scheduler.try_run(bodies).map_err(|failure| failure.to_string())?;
    if was_interrupted.into_inner() && is_first_held.into_inner() {
        return Err("a hold that was released while it waited is called a success".to_owned());
    }
    Ok(())
}
