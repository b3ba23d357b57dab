//! Recovers a pool and compares it with the oracle.

use super::definitions;
use super::history::{Change, History, KINDS, NAMED, State, key_of};
use super::keys;
use super::oracle::{AFTER, AFTER_KEYS, AFTER_ROWS, Decided, Oracle};
use super::scenario::Scenario;
use super::workload::TABLE;
use perdura_engine::{Engine, ErrorKind, Isolation, LockMode, Table};
use perdura_pmem::{Medium, trace};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Id of the catalog (docs/format.md).
const CATALOG: u32 = 1;
/// First key of the rows by which a check uses free space. No other row has it.
const USED_KEYS: u64 = 0x6000_0000;

/// Checks a recovered pool. An error says what is wrong. `depth` chooses how much is done after the
/// first comparison.
pub fn check(
    medium: &Arc<dyn Medium>,
    scenario: &Scenario,
    oracle: &Oracle,
    history: &History,
    depth: u64,
) -> Result<(), String> {
    let engine =
        Engine::open(medium.clone(), scenario.config()).map_err(|error| format!("recovery refused: {error}"))?;
    if !engine.prepared().is_empty() {
        check_prepared(&engine, history)?;
    }
    let decided = decide(&engine, depth.is_multiple_of(2))?;
    let state = read(&engine)?;
    oracle.check(&state, &decided, history)?;
    no_file_is_left(&**medium, &engine)?;
    audit(&engine)?;
    if depth.is_multiple_of(16) {
        use_and_reopen(engine, medium, scenario, state)?;
    }
    Ok(())
}

/// Checks a pool after its run: it holds all commits and nothing else, each reader saw states of
/// the commit order, and no space and no row is held by a transaction that has ended.
pub fn check_end(engine: &Engine, history: &History) -> Result<(), String> {
    let decided = Decided { commit: false, txns: Vec::new() };
    Oracle::of_all(history, TABLE).check(&read(engine)?, &decided, history)?;
    history.check_readers(TABLE)?;
    lock_all(engine)?;
    audit(engine)
}

/// Locks each row. Nobody else has a transaction, so none may be locked.
fn lock_all(engine: &Engine) -> Result<(), String> {
    let table = engine.table(TABLE).map_err(|error| error.to_string())?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut rids = Vec::new();
    let mut scan = txn.scan(&table);
    while let Some((rid, _)) = scan.next(&txn).map_err(|error| format!("scan: {error}"))? {
        rids.push(rid);
    }
    for rid in rids {
        match txn.locks().try_lock_row(&table, rid, LockMode::Exclusive) {
            Ok(Some(_)) => {}
            Ok(None) => return Err(format!("row {:#x} is locked by a transaction that has ended", rid.to_u64())),
            Err(error) => return Err(format!("a lock of row {:#x}: {error}", rid.to_u64())),
        }
    }
    Ok(())
}

/// The oracle of the pool once this recovery is over.
pub fn settled(
    medium: Arc<dyn Medium>,
    scenario: &Scenario,
    oracle: &Oracle,
    history: &History,
) -> Result<Oracle, String> {
    let engine = Engine::open(medium, scenario.config()).map_err(|error| format!("recovery refused: {error}"))?;
    let prepared = engine.prepared().iter().map(|xid| number_of(xid)).collect::<Result<Vec<_>, _>>()?;
    oracle.settled(&read(&engine)?, &prepared, history)
}

/// Checks that the rows of prepared transactions are locked and that nobody else is given their
/// space.
fn check_prepared(engine: &Engine, history: &History) -> Result<(), String> {
    let mut changed = BTreeSet::new();
    for xid in engine.prepared() {
        let number = number_of(&xid)?;
        for change in &history.txns.get(number).ok_or("an unknown transaction is prepared")?.changes {
            if let Change::Put(_, key, _) | Change::Remove(_, key) = change {
                changed.insert(*key);
            }
        }
    }
    read(engine)?;
    let table = engine.table(TABLE).map_err(|error| error.to_string())?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut there = Vec::new();
    let mut scan = txn.scan(&table);
    while let Some((rid, row)) = scan.next(&txn).map_err(|error| format!("scan: {error}"))? {
        // SAFETY: the statement is not over.
        there.push((key_of(unsafe { row.bytes() }), rid));
    }
    for (key, rid) in there.into_iter().filter(|(key, _)| changed.contains(key)) {
        let locked = txn.locks().try_lock_row(&table, rid, LockMode::Exclusive).map_err(|error| error.to_string())?;
        if locked.is_some() {
            return Err(format!("key {key:#x} was changed by a prepared transaction and is not locked"));
        }
    }
    drop(txn);
    use_space(engine)
}

fn number_of(xid: &[u8]) -> Result<usize, String> {
    let number = <[u8; 8]>::try_from(xid).map_err(|_| format!("a prepared transaction has the name {xid:x?}"))?;
    Ok(u64::from_le_bytes(number) as usize)
}

/// Ends all prepared transactions.
fn decide(engine: &Engine, commit: bool) -> Result<Decided, String> {
    let mut txns = Vec::new();
    for xid in engine.prepared() {
        txns.push(number_of(&xid)?);
        let found = if commit { engine.commit_prepared(&xid) } else { engine.rollback_prepared(&xid) };
        found.map_err(|error| format!("a prepared transaction could not be ended: {error}"))?;
    }
    Ok(Decided { commit, txns })
}

fn read(engine: &Engine) -> Result<State, String> {
    let mut state = State::new();
    let mut txn = engine.session(Isolation::ReadCommitted);
    for table in tables(engine)? {
        let rows = state.entry(table.name()).or_default();
        rows.extend(keys::altered_kinds(&table).map(|kinds| (KINDS, kinds)));
        rows.extend(definitions::named(engine, &table.name()).map(|name| (NAMED, name)));
        let mut found = Vec::new();
        let mut scan = txn.scan(&table);
        while let Some((rid, row)) = scan.next(&txn).map_err(|error| format!("scan: {error}"))? {
            // SAFETY: the statement is not over.
            let row = unsafe { row.bytes() };
            if rows.insert(key_of(row), row.to_vec()).is_some() {
                return Err(format!("table {} has key {:#x} twice", table.name(), key_of(row)));
            }
            if table.indexes() > 0 {
                found.push((rid, row.to_vec()));
            }
        }
        keys::compare(&mut txn, &table, &found)?;
    }
    Ok(state)
}

fn tables(engine: &Engine) -> Result<Vec<Arc<Table>>, String> {
    engine.tables().map_err(|error| format!("a table cannot be opened: {error}"))
}

/// Checks that each data file is that of a table, or of the catalog, once the tables are open.
fn no_file_is_left(medium: &dyn Medium, engine: &Engine) -> Result<(), String> {
    let ids: BTreeSet<u32> = tables(engine)?.iter().map(|table| table.id()).chain([CATALOG]).collect();
    for (name, _) in medium.list().map_err(|error| error.to_string())? {
        let parts = name.strip_prefix("t.").and_then(|rest| rest.split_once('.'));
        if let Some(id) = parts.and_then(|(id, _)| u32::from_str_radix(id, 16).ok())
            && !ids.contains(&id)
        {
            return Err(format!("file {name} is left, which is part of no table"));
        }
    }
    Ok(())
}

/// Sweeps all tables, and checks that their space adds up.
pub fn audit(engine: &Engine) -> Result<(), String> {
    // Closed tables are opened first, so that they are swept.
    let tables = tables(engine)?;
    engine.sweep().map_err(|error| format!("sweep: {error}"))?;
    for table in tables {
        table.audit().map_err(|error| format!("audit: {error}"))?;
    }
    Ok(())
}

/// Replaces the rows of a recovered pool in a transaction and rolls it back, before anything but
/// the cells is swept.
pub fn use_cells(engine: &Engine) -> Result<(), String> {
    let mut txn = engine.session(Isolation::ReadCommitted);
    // Prepared transactions hold rows.
    txn.set_lock_wait_timeout(Duration::ZERO);
    for table in tables(engine)? {
        let mut rows = Vec::new();
        let mut scan = txn.scan(&table);
        while let Some((rid, row)) = scan.next(&txn).map_err(|error| format!("scan: {error}"))? {
            // SAFETY: the statement is not over.
            rows.push((rid, unsafe { row.bytes() }.to_vec()));
        }
        drop(scan);
        for (rid, row) in rows {
            match txn.update(&table, rid, &row) {
                Err(error) if error.kind() == ErrorKind::LockWaitTimeout => {}
                done => done.map(drop).map_err(|error| format!("update after recovery: {error}"))?,
            }
        }
    }
    txn.rollback().map_err(|error| format!("rollback after recovery: {error}"))?;
    Ok(())
}

/// Fills free space and RIDs of a recovered pool in a transaction and rolls it back. Anything still
/// needed that was wrongly free is overwritten.
pub fn use_space(engine: &Engine) -> Result<(), String> {
    let tables = tables(engine)?;
    engine.sweep().map_err(|error| format!("sweep: {error}"))?;
    engine.purge();
    let mut txn = engine.session(Isolation::ReadCommitted);
    for table in tables {
        for number in 0..80u64 {
            let key = USED_KEYS + number;
            let row = [&key.to_le_bytes()[..], &vec![0x5a; (number * 7 % 70) as usize]].concat();
            let inserted = keys::insert(&mut txn, &table, &row);
            let rid = inserted.map_err(|error| format!("insert after recovery: {error}"))?;
            if number % 2 == 0 {
                keys::delete(&mut txn, &table, rid).map_err(|error| format!("deletion after recovery: {error}"))?;
            }
        }
    }
    txn.rollback().map_err(|error| format!("rollback after recovery: {error}"))?;
    Ok(())
}

/// The first commit of a recovered pool, unless an earlier recovery made it: rows in single pages
/// and in bulk, and a large one.
pub fn commit_after(engine: &Engine) -> Result<(), String> {
    let table = engine.table(TABLE).map_err(|error| error.to_string());
    let is_there = |state: &State| state.get(TABLE).is_some_and(|rows| rows.contains_key(&AFTER_KEYS));
    let (Ok(table), false) = (table, is_there(&read(engine)?)) else { return Ok(()) };
    let mut txn = engine.session(Isolation::ReadCommitted);
    for number in 0..AFTER_ROWS {
        let bytes = if number == 0 { 6000 } else { 30 };
        let row = [&(AFTER_KEYS + number).to_le_bytes()[..], &vec![0x77; bytes]].concat();
        keys::insert(&mut txn, &table, &row).map_err(|error| format!("insert after recovery: {error}"))?;
    }
    txn.commit().map_err(|error| format!("commit after recovery: {error}"))?;
    trace::ack(AFTER);
    Ok(())
}

/// Checks that the recovered pool takes writes and keeps them across another restart.
fn use_and_reopen(
    engine: Engine,
    medium: &Arc<dyn Medium>,
    scenario: &Scenario,
    mut state: State,
) -> Result<(), String> {
    let mut txn = engine.session(Isolation::ReadCommitted);
    for table in tables(&engine)? {
        for number in 0..40u64 {
            let row = [&(0x7777_0000 + number).to_le_bytes()[..], b"after recovery"].concat();
            keys::insert(&mut txn, &table, &row).map_err(|error| format!("insert after recovery: {error}"))?;
            state.entry(table.name()).or_default().insert(key_of(&row), row);
        }
    }
    txn.commit().map_err(|error| format!("commit after recovery: {error}"))?;
    engine.checkpoint().map_err(|error| format!("checkpoint after recovery: {error}"))?;
    engine.purge();
    audit(&engine)?;
    drop((txn, engine));
    let engine =
        Engine::open(medium.clone(), scenario.config()).map_err(|error| format!("second recovery refused: {error}"))?;
    if read(&engine)? == state { Ok(()) } else { Err("rows written after recovery did not survive a restart".into()) }
}
