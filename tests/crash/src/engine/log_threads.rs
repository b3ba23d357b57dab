//! The threads of a log path beside those that commit: the seeded scheduler runs them all, so a
//! wake-up that is lost leaves them waiting for ever, which it reports.

use super::scenario::Scenario;
use perdura_engine::{Config, Engine, Isolation, LogPath, PathConfig, Turns};
use perdura_pmem::sim::{Body, Scheduler};
use perdura_pmem::{Medium, SimMedium};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: u64 = 5;
const COMMITS: u64 = 12;

/// Settings of a scenario with the threads of another path.
fn config(scenario: &Scenario, path: LogPath, turns: Turns) -> Config {
    let mut config = scenario.config();
    config.log.path = PathConfig { path, buffer_bytes: 4 << 10, write_ahead_bytes: 1024, turns };
    config
}

/// Commits rows from several threads beside those of the log, then opens the pool by another path.
pub fn run(seed: u64, medium: &Arc<SimMedium>, scenario: &Scenario, scheduler: Scheduler) -> Result<(), String> {
    let shared: Arc<dyn Medium> = medium.clone();
    let path = [LogPath::Classic, LogPath::Nf, LogPath::Persist, LogPath::WriteAhead][seed as usize % 4];
    let text = |error: perdura_engine::Error| error.to_string();
    {
        let engine = Engine::open(shared.clone(), config(scenario, path, Turns::Waiters)).map_err(text)?;
        engine.create_table("t", b"").map_err(text)?;
    }
    let (acknowledged, failure) = (Mutex::new(BTreeSet::new()), Mutex::new(None));
    {
        let engine = Engine::open(shared.clone(), config(scenario, path, Turns::Caller)).map_err(text)?;
        let writers = AtomicU64::new(THREADS);
        let mut bodies: Vec<Body<'_>> = engine.log_path_bodies().into_iter().map(|body| body as Body<'_>).collect();
        for thread in 0..THREADS {
            let (engine, writers, acknowledged, failure) = (&engine, &writers, &acknowledged, &failure);
            bodies.push(Box::new(move || {
                for number in 0..COMMITS {
                    match insert(engine, thread * COMMITS + number) {
                        Ok(row) => drop(acknowledged.lock().expect("unpoisoned").insert(row)),
                        Err(error) => *failure.lock().expect("unpoisoned") = Some(error.to_string()),
                    }
                }
                if writers.fetch_sub(1, Ordering::SeqCst) == 1 {
                    engine.end_log_path();
                }
            }));
        }
        scheduler.run(bodies);
    }
    if let Some(failure) = failure.into_inner().expect("unpoisoned") {
        return Err(format!("{path}: {failure}"));
    }
    let other = if seed.is_multiple_of(2) { LogPath::Direct } else { LogPath::Nf };
    let engine = Engine::open(shared, config(scenario, other, Turns::Waiters)).map_err(text)?;
    let found = super::failing::rows(&engine).map_err(text)?;
    if found == acknowledged.into_inner().expect("unpoisoned") {
        return Ok(());
    }
    Err(format!("{path}, then {other}: {} rows are found", found.len()))
}

/// Ends what a session waits for when the run is given up.
struct GivenUp<'a>(&'a Engine);

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail_stop("the run is given up");
        }
    }
}

/// Commits a row; every other one in two phases, of which the first waits at a slot.
fn insert(engine: &Engine, number: u64) -> perdura_engine::Result<u64> {
    let table = engine.table("t")?;
    let mut txn = engine.session(Isolation::ReadCommitted);
    let _guard = GivenUp(engine);
    txn.insert(&table, &number.to_le_bytes())?;
    if number.is_multiple_of(2) {
        txn.prepare(&number.to_le_bytes())?;
    }
    txn.commit()?;
    Ok(number)
}
