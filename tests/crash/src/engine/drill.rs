//! Runs without a crash, cheap enough for many seeds: races between sessions, and what follows a
//! failed persist.

use super::closing;
use super::failing;
use super::holding;
use super::locking;
use super::log_threads;
use super::references;
use super::rekeyed;
use super::scenario::{
    CONTENDED, CROWDED, EMPTIED, KEYS_BY_VALUE, KEYS_CONTENDED, KEYS_CROWDED, MOVED, PURGED, SCENARIOS, Scenario,
};
use super::settling;
use super::shrinking;
use super::standing;
use super::sweeping;
use super::verdict;
use crate::subject::{Drill, Stall};
use crate::unrecorded::{medium, scheduler};
use perdura_engine::{Engine, ErrorKind, Isolation, ReadView};
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

/// All drills.
pub const DRILLS: [Drill; 37] = [
    Drill { name: "races, mixed", seeds: 40, run: |seed, stall| races("mixed", seed, stall) },
    Drill { name: "races, reuse", seeds: 40, run: |seed, stall| races("reuse", seed, stall) },
    Drill { name: "races, edited bulk", seeds: 40, run: |seed, stall| races("edited bulk", seed, stall) },
    Drill { name: "races, prepared", seeds: 40, run: |seed, stall| races("prepared", seed, stall) },
    Drill { name: "races, restarted", seeds: 40, run: |seed, stall| races("restarted", seed, stall) },
    Drill { name: "races, contended", seeds: 60, run: |seed, stall| races("contended", seed, stall) },
    Drill { name: "races, crowded", seeds: 60, run: |seed, stall| races("crowded", seed, stall) },
    Drill { name: "races, stored behind", seeds: 40, run: |seed, stall| races("stored behind", seed, stall) },
    Drill { name: "races, emptied", seeds: 40, run: |seed, stall| races("emptied", seed, stall) },
    Drill { name: "races, reload", seeds: 40, run: |seed, stall| races("reload", seed, stall) },
    Drill { name: "races, file return", seeds: 40, run: |seed, stall| races("file return", seed, stall) },
    Drill { name: "races, sparse", seeds: 40, run: |seed, stall| races("sparse", seed, stall) },
    Drill { name: "races, moved", seeds: 80, run: |seed, stall| races("moved", seed, stall) },
    Drill { name: "races, purged", seeds: 40, run: |seed, stall| races("purged", seed, stall) },
    Drill { name: "races, keys", seeds: 40, run: |seed, stall| races("keys", seed, stall) },
    Drill { name: "races, keys, prepared", seeds: 40, run: |seed, stall| races("keys, prepared", seed, stall) },
    Drill { name: "races, keys, restarted", seeds: 40, run: |seed, stall| races("keys, restarted", seed, stall) },
    Drill { name: "races, keys, contended", seeds: 80, run: |seed, stall| races("keys, contended", seed, stall) },
    Drill { name: "races, keys, crowded", seeds: 80, run: |seed, stall| races("keys, crowded", seed, stall) },
    Drill { name: "races, keys, by value", seeds: 60, run: |seed, stall| races("keys, by value", seed, stall) },
    Drill { name: "tables that close", seeds: 60, run: tables_that_close },
    Drill { name: "tables that shrink", seeds: 40, run: tables_that_shrink },
    Drill { name: "a sweep beside purge", seeds: 40, run: a_sweep_beside_purge },
    Drill { name: "tables that stand still", seeds: 100, run: tables_that_stand_still },
    Drill { name: "locks in cycles", seeds: 60, run: locks_in_cycles },
    Drill { name: "workers in order", seeds: 40, run: workers_in_order },
    Drill { name: "rows that change keys", seeds: 100, run: rows_that_change_keys },
    Drill { name: "rows that refer to others", seeds: 100, run: rows_that_refer },
    Drill { name: "tables that are defined anew", seeds: 1, run: tables_defined_anew },
    Drill { name: "a pool that is held", seeds: 40, run: a_pool_that_is_held },
    Drill { name: "a pool that is held by turns", seeds: 60, run: held_by_turns },
    Drill { name: "failed sync", seeds: 60, run: failed_sync },
    Drill { name: "failed sync of a path", seeds: 60, run: failed_sync_of_a_path },
    Drill { name: "threads of the log", seeds: 24, run: threads_of_the_log },
    Drill { name: "settled checkpoints", seeds: 1, run: settled_checkpoints },
    Drill { name: "checkpoints by themselves", seeds: 1, run: checkpoints_by_themselves },
    Drill { name: "failed persist", seeds: 1, run: failed_persist },
];

fn scenario(name: &str) -> Result<&'static Scenario, String> {
    SCENARIOS
        .iter()
        .chain([&CONTENDED, &CROWDED, &EMPTIED, &MOVED, &PURGED, &KEYS_BY_VALUE, &KEYS_CONTENDED, &KEYS_CROWDED])
        .find(|scenario| scenario.name == name)
        .ok_or(format!("there is no scenario {name:?}"))
}

/// Runs a scenario, which checks its own end, and then opens what a killed process would leave.
fn races(name: &str, seed: u64, stall: Stall) -> Result<(), String> {
    let scenario = scenario(name)?;
    let medium = medium();
    let history = scenario.run(medium.clone(), seed, scheduler(seed, stall));
    let shared: Arc<dyn Medium> = medium;
    let engine = Engine::open(shared, scenario.config()).map_err(|error| format!("after the restart: {error}"))?;
    verdict::check_end(&engine, &history).map_err(|what| format!("after the restart: {what}"))
}

/// Tables are closed and opened again beside their users.
fn tables_that_close(seed: u64, _stall: Stall) -> Result<(), String> {
    closing::run(seed, medium())
}

/// A table grows and shrinks by several files, again and again.
fn tables_that_shrink(seed: u64, _stall: Stall) -> Result<(), String> {
    shrinking::run(seed, scenario("file return")?.config())
}

/// A table is swept after a restart, beside purge.
fn a_sweep_beside_purge(seed: u64, stall: Stall) -> Result<(), String> {
    let medium = medium();
    sweeping::run(seed, medium, scenario("mixed")?.config(), scheduler(seed, stall))
}

/// Tables are locked as a whole beside writers.
fn tables_that_stand_still(seed: u64, stall: Stall) -> Result<(), String> {
    let medium = medium();
    standing::run(seed, medium, scenario("mixed")?.config(), scheduler(seed, stall))
}

/// Transactions that lock rows in any order.
fn locks_in_cycles(seed: u64, stall: Stall) -> Result<(), String> {
    let medium = medium();
    locking::cycles(seed, medium, scenario("mixed")?.config(), scheduler(seed, stall))
}

/// A replica's workers beside a client.
fn workers_in_order(seed: u64, stall: Stall) -> Result<(), String> {
    let medium = medium();
    locking::replica(seed, medium, scenario("mixed")?.config(), scheduler(seed, stall))
}

/// Scans lock rows by an index that others move there.
fn rows_that_change_keys(seed: u64, stall: Stall) -> Result<(), String> {
    let medium = medium();
    rekeyed::run(seed, medium, scenario("mixed")?.config(), scheduler(seed, stall))
}

/// Rows refer to others, which are deleted or get other keys.
fn rows_that_refer(seed: u64, stall: Stall) -> Result<(), String> {
    let medium = medium();
    references::run(seed, medium, scenario("mixed")?.config(), scheduler(seed, stall))
}

/// A pool is held beside writers, purge and definitions of tables.
fn a_pool_that_is_held(seed: u64, stall: Stall) -> Result<(), String> {
    let medium = medium();
    holding::still(seed, &medium, scenario("reuse")?.config(), scheduler(seed, stall))
}

/// A pool that somebody waits to hold is released, and held by another.
fn held_by_turns(seed: u64, stall: Stall) -> Result<(), String> {
    let medium = medium();
    holding::by_turns(seed, &medium, scenario("mixed")?.config(), scheduler(seed, stall))
}

/// A snapshot sees a table as it was, or learns that there is another since.
fn tables_defined_anew(_seed: u64, _stall: Stall) -> Result<(), String> {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let engine = Engine::open(medium, scenario("ddl")?.config()).map_err(|error| error.to_string())?;
    let table = engine.create_table("t", b"").map_err(|error| error.to_string())?;
    let mut writer = engine.session(Isolation::ReadCommitted);
    let rid = writer.insert(&table, b"before").and_then(|rid| writer.commit().map(|_| rid));
    let rid = rid.map_err(|error| error.to_string())?;
    let mut reader = engine.session(Isolation::RepeatableRead);
    let seen = reader.read(&table, rid, ReadView::Snapshot).map_err(|error| error.to_string())?;
    seen.ok_or("a row that was committed is not there")?;
    reader.end_statement();
    drop((table, writer));
    engine.truncate_table("t").map_err(|error| error.to_string())?;
    let table = engine.table("t").map_err(|error| error.to_string())?;
    let mut scan = reader.scan(&table);
    let scanned = scan.next(&reader).map(|row| row.is_some());
    let read = reader.read(&table, rid, ReadView::Snapshot).map(|row| row.is_some());
    for found in [scanned, read] {
        match found {
            Err(error) if error.kind() == ErrorKind::DefinitionChanged => {}
            other => return Err(format!("at a snapshot from before a truncation: {other:?}")),
        }
    }
    Ok(())
}

/// A sync of a page medium fails, by the seed's number.
fn failed_sync(seed: u64, _stall: Stall) -> Result<(), String> {
    failing::run(seed, scenario("pages")?.config())
}

/// The same with a log writer.
fn failed_sync_of_a_path(seed: u64, _stall: Stall) -> Result<(), String> {
    let name = if seed.is_multiple_of(2) { "classic, pages" } else { "nf" };
    failing::run(seed, scenario(name)?.config())
}

/// Commits beside the threads of the log.
fn threads_of_the_log(seed: u64, stall: Stall) -> Result<(), String> {
    log_threads::run(seed, &medium(), scenario("mixed")?, scheduler(seed, stall))
}

/// A checkpoint of a medium that settles, and a recovery there.
fn settled_checkpoints(_seed: u64, _stall: Stall) -> Result<(), String> {
    settling::in_order(&scenario("pages")?.config())
}

/// Checkpoints that a medium, or the length of its log, makes due.
fn checkpoints_by_themselves(_seed: u64, _stall: Stall) -> Result<(), String> {
    settling::by_themselves(&scenario("pages")?.config())
}

/// After a failed persist the pool takes no more changes, even if the next persist would work
/// (I11).
fn failed_persist(_seed: u64, _stall: Stall) -> Result<(), String> {
    let medium = Arc::new(SimMedium::new());
    let shared: Arc<dyn Medium> = medium.clone();
    let engine = Engine::open(shared, scenario("wrap-around")?.config()).map_err(|error| error.to_string())?;
    let table = engine.create_table("t", b"").map_err(|error| error.to_string())?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    medium.fail_syncs(true);
    // The log soon wraps around and cannot arm a generation.
    let refused = (0..1000u64).find_map(|number| {
        let written = txn.insert(&table, &number.to_le_bytes()).and_then(|_| txn.commit());
        written.err()
    });
    medium.fail_syncs(false);
    refused.ok_or("a thousand commits went by a log that could not be armed")?;
    match txn.insert(&table, b"after the failure").and_then(|_| txn.commit()) {
        Err(error) if error.kind() == ErrorKind::ReadOnlyPool => Ok(()),
        Err(error) => Err(format!("after a failed persist: {error}")),
        Ok(csn) => Err(format!("commit {csn} after a failed persist")),
    }
}
