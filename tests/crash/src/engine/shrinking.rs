//! A table that is filled, emptied and filled again, while purge gives its files back. Pages of the
//! row directory go with the files and come back under the same numbers, so a RID of a row that is
//! gone could lead to a later row.

use perdura_engine::{Config, Engine, ErrorKind, Isolation, ReadView, Rid};
use perdura_pmem::sim::Random;
use perdura_pmem::{Medium, SimMedium};
use std::sync::Arc;

const ROUNDS: u64 = 4;
/// So many rows that the directory takes segments in several files.
const ROWS: u64 = 1200;

/// Runs with a seed. Returns what is wrong.
pub fn run(seed: u64, config: Config) -> Result<(), String> {
    let medium: Arc<dyn Medium> = Arc::new(SimMedium::new());
    let mut random = Random::new(seed);
    let open = || Engine::open(medium.clone(), config.clone()).map_err(|error| format!("the pool is refused: {error}"));
    let mut engine = open()?;
    engine.create_table("t", b"").map_err(|error| error.to_string())?;
    let mut gone = Vec::new();
    for round in 0..ROUNDS {
        let rids = fill(&engine, &mut random).map_err(|error| format!("round {round}: {error}"))?;
        look_for(&engine, &gone).map_err(|what| format!("round {round}: {what}"))?;
        empty(&engine, &rids).map_err(|error| format!("round {round}: {error}"))?;
        gone.extend(rids);
        let table = engine.table("t").map_err(|error| error.to_string())?;
        engine.sweep().and_then(|()| table.audit()).map_err(|error| format!("round {round}: {error}"))?;
        drop(table);
        if random.one_in(2) {
            drop(engine);
            engine = open()?;
        }
    }
    Ok(())
}

/// Inserts rows in transactions of all sizes.
fn fill(engine: &Engine, random: &mut Random) -> perdura_engine::Result<Vec<Rid>> {
    let table = engine.table("t")?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    let mut rids = Vec::new();
    while (rids.len() as u64) < ROWS {
        for _ in 0..1 + random.below(300) {
            rids.push(txn.insert(&table, &vec![rids.len() as u8; 8 + random.below(80) as usize])?);
        }
        txn.commit()?;
        engine.checkpoint()?;
    }
    Ok(rids)
}

/// Deletes the rows, and purges until nothing more goes.
fn empty(engine: &Engine, rids: &[Rid]) -> perdura_engine::Result<()> {
    let table = engine.table("t")?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    for some in rids.chunks(200) {
        some.iter().try_for_each(|rid| txn.delete(&table, *rid))?;
        txn.commit()?;
        engine.checkpoint()?;
    }
    for _ in 0..20 {
        engine.purge();
    }
    Ok(())
}

/// Looks rows up that are gone.
fn look_for(engine: &Engine, gone: &[Rid]) -> Result<(), String> {
    let table = engine.table("t").map_err(|error| error.to_string())?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    for rid in gone {
        match txn.read(&table, *rid, ReadView::Newest) {
            Ok(None) => {}
            Ok(Some(_)) => return Err(format!("row {:#x} is gone and leads to a later one", rid.to_u64())),
            Err(error) => return Err(format!("row {:#x} is gone, and reading it fails: {error}", rid.to_u64())),
        }
    }
    match gone.first().map(|rid| txn.delete(&table, *rid)) {
        Some(Ok(())) => Err("a row that is gone was deleted".to_owned()),
        Some(Err(error)) if error.kind() != ErrorKind::NotFound => Err(format!("deleting a row that is gone: {error}")),
        _ => Ok(()),
    }
}
