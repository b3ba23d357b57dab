//! Transactions that refer to rows of another table, beside such as delete those rows or give them
//! other keys: by foreign keys, as a server keeps them. No row is ever left without the one that it
//! refers to, and a row that is there all along is always found.

use perdura_engine::{
    Config, Engine, Error, ErrorKind, IndexDefinition, Isolation, Key, KeyChange, LockMode, ReadView, ReferenceKey,
    Rid, Session, Table,
};
use perdura_pmem::Medium;
use perdura_pmem::sim::{Body, Random, Scheduler};
use perdura_pmem::sync::yield_now;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Parents at the beginning. Whoever takes the first one away rolls back.
const PARENTS: u32 = 4;
const STAYING: u32 = 0;
/// Keys that parents get.
const KEYS: u64 = 7;
/// Threads, and transactions of each.
const THREADS: u64 = 4;
const TRANSACTIONS: u64 = 10;
/// Name of the transaction that is prepared when the process is killed.
const PREPARED: &[u8] = b"prepared";

/// Two tables whose rows are their keys: parents, unique, and children.
struct Family {
    parents: Arc<Table>,
    children: Arc<Table>,
}

/// Bytes of a key as an index takes it.
fn reference(bytes: &[u8]) -> ReferenceKey<'_> {
    ReferenceKey { index: 0, start: bytes, is_whole: true }
}

impl Family {
    fn open(engine: &Engine) -> Result<Family, Error> {
        Ok(Family { parents: engine.table("parents")?, children: engine.table("children")? })
    }

    fn create(engine: &Engine) -> Result<Family, Error> {
        for (name, unique) in [("parents", true), ("children", false)] {
            engine.create_table_with(name, b"", &[IndexDefinition { unique, key_bytes: 4 }])?;
        }
        let family = Family::open(engine)?;
        let mut txn = engine.session(Isolation::ReadCommitted);
        for key in 0..PARENTS {
            insert(&mut txn, &family.parents, key, false)?;
            insert(&mut txn, &family.children, key, true)?;
        }
        txn.commit()?;
        Ok(family)
    }

    /// Writes a reference, if there is a row with the key. Returns whether there is.
    fn refer(&self, txn: &mut Session, key: u32) -> Result<bool, Error> {
        let found = txn.lock_referenced(&self.parents, reference(&key.to_be_bytes()), None)?;
        yield_now();
        if found.is_some() {
            insert(txn, &self.children, key, true)?;
        }
        Ok(found.is_some())
    }

    /// Takes a row's key away: deletes the row, or gives it another key. Rows that refer to it
    /// refuse that, go along, or are deleted.
    fn take_away(&self, txn: &mut Session, key: u32, random: &mut Random) -> Result<(), Error> {
        let bytes = key.to_be_bytes();
        let Some(rid) = txn.index(&self.parents, 0).find(&bytes, ReadView::Newest)? else {
            return insert(txn, &self.parents, key, false).map(|_| ());
        };
        // As a server does, which finds the row first and locks it then.
        txn.locks().lock_row(&self.parents, rid, LockMode::Exclusive)?;
        if txn.index(&self.parents, 0).find(&bytes, ReadView::Newest)? != Some(rid) {
            return Ok(());
        }
        if random.one_in(3) {
            if !txn.is_referenced(&self.children, reference(&bytes))? {
                yield_now();
                txn.delete_with(&self.parents, rid, &[&bytes])?;
            }
            return Ok(());
        }
        let new = random.one_in(2).then(|| random.below(KEYS) as u32);
        match new {
            Some(new) => rekey(txn, &self.parents, rid, (key, new), false)?,
            None => txn.delete_with(&self.parents, rid, &[&bytes])?,
        }
        let Some(mut rows) = txn.find_referring(&self.children, reference(&bytes))? else { return Ok(()) };
        loop {
            let some = txn.lock_referring(&self.children, &mut rows, 1)?;
            if some.is_empty() {
                return Ok(());
            }
            for rid in some {
                if read(txn, &self.children, rid)? != Some(key) {
                    continue;
                }
                match new {
                    Some(new) => rekey(txn, &self.children, rid, (key, new), true)?,
                    None => txn.delete_with(&self.children, rid, &[&bytes])?,
                }
            }
        }
    }

    /// Deletes a row that refers to another.
    fn leave(&self, txn: &mut Session, key: u32) -> Result<(), Error> {
        let bytes = key.to_be_bytes();
        let Some(rid) = txn.index(&self.children, 0).find(&bytes, ReadView::Newest)? else { return Ok(()) };
        txn.locks().lock_row(&self.children, rid, LockMode::Exclusive)?;
        match read(txn, &self.children, rid)? {
            Some(now) if now == key => txn.delete_with(&self.children, rid, &[&bytes]),
            _ => Ok(()),
        }
    }

    /// Fails if a row refers to none.
    fn check(&self, engine: &Engine) -> Result<(), String> {
        let mut txn = engine.session(Isolation::ReadCommitted);
        let (parents, children) = (all(&mut txn, &self.parents)?, all(&mut txn, &self.children)?);
        match children.difference(&parents).next() {
            Some(key) => Err(format!("a row refers to {key}, which is gone")),
            None => Ok(()),
        }
    }
}

fn insert(txn: &mut Session, table: &Arc<Table>, key: u32, may_repeat: bool) -> Result<Rid, Error> {
    let bytes = key.to_be_bytes();
    txn.insert_with(table, &bytes, &[Key { bytes: &bytes, may_repeat }])
}

fn rekey(
    txn: &mut Session,
    table: &Arc<Table>,
    rid: Rid,
    (old, new): (u32, u32),
    may_repeat: bool,
) -> Result<(), Error> {
    let (old, new) = (old.to_be_bytes(), new.to_be_bytes());
    if old == new {
        return Ok(());
    }
    txn.update_with(table, rid, &new, &[KeyChange { index: 0, old: &old, new: Key { bytes: &new, may_repeat } }])
}

/// The key of a row; `None` if it is gone.
fn read(txn: &mut Session, table: &Arc<Table>, rid: Rid) -> Result<Option<u32>, Error> {
    let row = txn.read(table, rid, ReadView::Newest)?;
    // SAFETY: the statement has not ended.
    Ok(row.map(|row| u32::from_be_bytes(unsafe { row.bytes() }.try_into().expect("a row is its key"))))
}

fn all(txn: &mut Session, table: &Arc<Table>) -> Result<BTreeSet<u32>, String> {
    let mut keys = BTreeSet::new();
    let mut scan = txn.scan(table);
    while let Some((_, row)) = scan.next(txn).map_err(|error| error.to_string())? {
        // SAFETY: the statement has not ended.
        keys.insert(u32::from_be_bytes(unsafe { row.bytes() }.try_into().expect("a row is its key")));
    }
    Ok(keys)
}

/// Runs with a seed, and then opens what a killed process leaves. Returns what is wrong.
pub fn run(seed: u64, medium: Arc<dyn Medium>, config: Config, scheduler: Scheduler) -> Result<(), String> {
    let engine = Engine::open(medium.clone(), config.clone()).map_err(|error| error.to_string())?;
    let family = Family::create(&engine).map_err(|error| error.to_string())?;
    let mut bodies: Vec<Body<'_>> = Vec::new();
    for thread in 0..THREADS {
        let (engine, family) = (&engine, &family);
        bodies.push(Box::new(move || {
            let mut random = Random::new(seed * THREADS + thread);
            (0..TRANSACTIONS).for_each(|_| transaction(engine, family, &mut random));
        }));
    }
    scheduler.try_run(bodies).map_err(|failure| failure.to_string())?;
    let counters = engine.counters();
    if (counters.locks_held, counters.locks_waited_for) != (0, 0) {
        return Err(format!("{} locks are held when all is over", counters.locks_held));
    }
    family.check(&engine)?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    let prepared = family.refer(&mut txn, STAYING).and_then(|_| txn.prepare(PREPARED));
    prepared.map_err(|error| error.to_string())?;
    drop((txn, family, engine));
    let engine = Engine::open(medium, config).map_err(|error| format!("after the restart: {error}"))?;
    let family = Family::open(&engine).map_err(|error| error.to_string())?;
    waits_for_prepared(&engine, &family)?;
    let ended =
        if seed.is_multiple_of(2) { engine.commit_prepared(PREPARED) } else { engine.rollback_prepared(PREPARED) };
    ended.map_err(|error| error.to_string())?;
    family.check(&engine)
}

/// A restart has let a prepared transaction keep no shared lock. What it has written is waited for
/// all the same.
fn waits_for_prepared(engine: &Engine, family: &Family) -> Result<(), String> {
    let mut txn = engine.session(Isolation::ReadCommitted);
    txn.set_lock_wait_timeout(Duration::ZERO);
    let bytes = STAYING.to_be_bytes();
    // Other children do not hide it.
    let found = txn.find_referring(&family.children, reference(&bytes)).map(|rows| rows.is_some());
    match found {
        Err(error) if error.kind() == ErrorKind::LockWaitTimeout => Ok(()),
        other => Err(format!("a prepared reference was not waited for: {other:?}")),
    }
}

fn transaction(engine: &Engine, family: &Family, random: &mut Random) {
    let isolation =
        [Isolation::ReadCommitted, Isolation::ConsistentReads, Isolation::RepeatableRead][random.below(3) as usize];
    let mut txn = engine.session(isolation);
    txn.set_lock_wait_timeout(Duration::from_secs(1000));
    let mut takes_staying = false;
    let outcome = (0..1 + random.below(2)).try_for_each(|_| {
        let key = random.below(KEYS) as u32;
        txn.start_statement();
        match random.below(5) {
            0 | 1 => family.refer(&mut txn, key).map(|found| {
                assert!(found || key != STAYING || takes_staying, "a row that is there all along is not found");
            }),
            2 => family.leave(&mut txn, key),
            _ => {
                takes_staying |= key == STAYING;
                family.take_away(&mut txn, key, random)
            }
        }
    });
    match outcome {
        Ok(()) if !takes_staying => drop(txn.commit().expect("the log has room")),
        Ok(()) => {}
        Err(error) => {
            let expected =
                [ErrorKind::Deadlock, ErrorKind::RecordChanged, ErrorKind::DuplicateKey, ErrorKind::NotFound];
            assert!(expected.contains(&error.kind()), "{:?}: {error}", error.kind());
        }
    }
}
