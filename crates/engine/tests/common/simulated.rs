//! Pools for threads run by the simulation's scheduler, and what must hold once they are done.

use super::{committed, reopen};
use perdura_engine::Engine;
use perdura_pmem::SimMedium;
use perdura_pmem::trace::{Access, Site, Tap};
use std::sync::Arc;

/// Makes every store, flush and fence a point at which the scheduler may switch threads.
struct Unheard;

impl Tap for Unheard {
    fn record(&self, _access: Access<'_>, _site: Site) {}
}

/// A new pool whose every event is such a point.
pub fn pool() -> (Arc<SimMedium>, Engine) {
    let medium = Arc::new(SimMedium::new().recording(Arc::new(Unheard)));
    let engine = reopen(&medium);
    (medium, engine)
}

/// Space adds up in every table, once nothing runs.
pub fn audit(engine: &Engine) {
    engine.checkpoint().unwrap();
    engine.purge();
    engine.sweep().unwrap();
    for table in engine.tables() {
        table.audit().unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Rows are the same after a restart, and space still adds up.
pub fn survives(medium: &Arc<SimMedium>, engine: Engine) {
    let before: Vec<_> = engine.tables().iter().map(|table| (table.name(), committed(&engine, table))).collect();
    drop(engine);
    let engine = reopen(medium);
    let after: Vec<_> = engine.tables().iter().map(|table| (table.name(), committed(&engine, table))).collect();
    assert_eq!(before, after);
    audit(&engine);
}
