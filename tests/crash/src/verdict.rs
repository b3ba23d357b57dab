//! Opens a crash image with the real recovery and compares it with the oracle.

use crate::oracle::{Change, Decided, Oracle, State, key_of};
use crate::scenario::Scenario;
use perdura_engine::{Engine, Isolation};
use perdura_pmem::sim::Image;
use perdura_pmem::sim::recorder::{Recorder, Trace};
use perdura_pmem::{Medium, SimMedium};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Checks a crash image; an error says what is wrong. `depth` chooses how much is done after the first comparison.
pub fn check(
    image: Image,
    scenario: &Scenario,
    oracle: &Oracle,
    history: &[Vec<Change>],
    depth: u64,
) -> Result<(), String> {
    guarded(|| {
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image));
        let engine =
            Engine::open(medium.clone(), scenario.config()).map_err(|error| format!("recovery refused: {error}"))?;
        let decided = decide(&engine, depth.is_multiple_of(2))?;
        let state = read(&engine)?;
        oracle.check(&state, &decided, history)?;
        audit(&engine)?;
        if depth.is_multiple_of(16) {
            use_and_reopen(engine, &medium, scenario, state)?;
        }
        Ok(())
    })
}

/// Records the recovery of an image.
pub fn record_recovery(image: Image, scenario: &Scenario) -> Result<Trace, String> {
    guarded(|| {
        let (medium, recorder) = Recorder::attach(SimMedium::from_image(image));
        {
            let _attached = perdura_pmem::trace::attach(recorder.clone());
            let engine = Engine::open(Arc::new(medium), scenario.config())
                .map_err(|error| format!("recovery refused: {error}"))?;
            engine.close();
        }
        Ok(recorder.finish())
    })
}

fn guarded<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(format!("panic: {}", message(&*panic))))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// Ends all prepared transactions.
fn decide(engine: &Engine, commit: bool) -> Result<Decided, String> {
    let mut txns = Vec::new();
    for xid in engine.prepared() {
        let number =
            <[u8; 8]>::try_from(&xid[..]).map_err(|_| format!("a prepared transaction has the name {xid:x?}"))?;
        txns.push(u64::from_le_bytes(number) as usize);
        let found = if commit { engine.commit_prepared(&xid) } else { engine.rollback_prepared(&xid) };
        found.map_err(|error| format!("a prepared transaction could not be ended: {error}"))?;
    }
    Ok(Decided { commit, txns })
}

fn read(engine: &Engine) -> Result<State, String> {
    let mut state = State::new();
    let mut txn = engine.begin(Isolation::ReadCommitted);
    for table in engine.tables() {
        let rows = state.entry(table.name()).or_default();
        let mut scan = txn.scan(&table);
        while let Some((_, row)) = scan.next(&mut txn).map_err(|error| format!("scan: {error}"))? {
            // SAFETY: the statement is not over.
            let row = unsafe { row.bytes() };
            if rows.insert(key_of(row), row.to_vec()).is_some() {
                return Err(format!("table {} has key {:#x} twice", table.name(), key_of(row)));
            }
        }
    }
    Ok(state)
}

fn audit(engine: &Engine) -> Result<(), String> {
    engine.sweep().map_err(|error| format!("sweep: {error}"))?;
    for table in engine.tables() {
        table.audit().map_err(|error| format!("audit: {error}"))?;
    }
    Ok(())
}

/// The recovered pool takes writes, and has them after another restart.
fn use_and_reopen(
    engine: Engine,
    medium: &Arc<dyn Medium>,
    scenario: &Scenario,
    mut state: State,
) -> Result<(), String> {
    let mut txn = engine.begin(Isolation::ReadCommitted);
    for table in engine.tables() {
        for number in 0..40u64 {
            let row = [&(0x7777_0000 + number).to_le_bytes()[..], b"after recovery"].concat();
            txn.insert(&table, &row).map_err(|error| format!("insert after recovery: {error}"))?;
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
