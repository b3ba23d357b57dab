//! Pools whose threads the simulation's scheduler runs, and what must hold when these are done.

use super::{committed, reopen, small};
use perdura_engine::Engine;
use perdura_pmem::SimMedium;
use perdura_pmem::sim::{PointKind, Random, Recorder, ReplayOptions, Seen};
use perdura_pmem::trace::{Access, Site, Tap};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A tap that records nothing: it makes every store, flush and fence a point where the scheduler
/// may switch threads.
struct Unheard;

impl Tap for Unheard {
    fn record(&self, _access: Access<'_>, _site: Site) {}
}

/// A medium on which the scheduler may switch threads at every store, flush and fence.
pub fn medium() -> Arc<SimMedium> {
    Arc::new(SimMedium::new().recording(Arc::new(Unheard)))
}

/// Creates a pool on such a medium.
pub fn pool() -> (Arc<SimMedium>, Engine) {
    let medium = medium();
    let engine = reopen(&medium);
    (medium, engine)
}

/// Asserts that space adds up in every table. Nothing else may run.
pub fn audit(engine: &Engine) {
    // Closed tables are opened first, so that they are swept.
    let tables = engine.tables().unwrap();
    engine.checkpoint().unwrap();
    engine.purge();
    engine.sweep().unwrap();
    for table in tables {
        table.audit().unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Asserts that a restart leaves all rows as they are, and that space still adds up.
pub fn survives(medium: &Arc<SimMedium>, engine: Engine) {
    let before: Vec<_> =
        engine.tables().unwrap().iter().map(|table| (table.name(), committed(&engine, table))).collect();
    drop(engine);
    let engine = reopen(medium);
    let after: Vec<_> =
        engine.tables().unwrap().iter().map(|table| (table.name(), committed(&engine, table))).collect();
    assert_eq!(before, after);
    audit(&engine);
}

/// Opens the pool in each of some images that a power failure at the end of a recording may leave.
pub fn after_power_failures(recorder: &Recorder, choices: usize) -> Vec<Engine> {
    let mut images = Vec::new();
    recorder.finish().replay(&ReplayOptions::default(), |point| {
        if point.kind == PointKind::End {
            images = point.images(&mut Random::new(1), &mut Seen::default(), choices);
        }
        ControlFlow::Continue(())
    });
    assert!(!images.is_empty());
    images.into_iter().map(|image| Engine::open(Arc::new(SimMedium::from_image(image)), small()).unwrap()).collect()
}
