//! The engine as a subject: pools of tables and transactions.

pub mod closing;
mod definitions;
pub mod drill;
mod failing;
mod handover;
pub mod history;
mod holding;
pub mod keyed_writes;
pub mod keys;
pub mod locking;
mod log_threads;
pub mod mix;
pub mod old_snapshot;
pub mod oracle;
pub mod planted;
pub mod reader;
mod references;
pub mod rekeyed;
pub mod run;
pub mod scenario;
mod scripts;
mod settling;
pub mod shrinking;
mod slot;
pub mod standing;
mod sweeping;
pub mod verdict;
pub mod witness;
pub mod workload;

use crate::subject::{Drill, Hazard, Planted, Product, RECOVERED, Subject};
use history::History;
use oracle::Oracle;
use perdura_engine::Engine;
use perdura_pmem::Medium;
use perdura_pmem::sim::SiteKind;
use perdura_pmem::sim::{Scheduler, trace};
use scenario::SCENARIOS;
pub use scenario::Scenario;
use std::sync::Arc;

/// Hazards that a campaign must see images of.
const HAZARDS: [Hazard; 24] = [
    ("", "insert"),
    ("", "bulk_insert"),
    ("", "update"),
    ("", "delete"),
    ("", "rollback"),
    ("", "savepoint"),
    ("", "handed_over"),
    ("", "ddl"),
    ("", "altered_indexes"),
    ("", "file_expansion"),
    ("", "generation_switch"),
    ("", "wrap_around"),
    ("", "checkpoint"),
    ("", "purge"),
    ("", "reuse"),
    ("", "move"),
    ("", "log_growth"),
    ("", "log_shrink"),
    ("", "file_return"),
    ("", "file_reuse"),
    ("", "prepared"),
    ("", "recovery"),
    ("", "second_recovery"),
    ("", "killed"),
];

impl Subject for Scenario {
    type History = History;
    type Oracle = Oracle;

    const PRODUCT: Product = Product {
        name: "engine",
        hazards: &HAZARDS,
        sources: &["crates/log/src", "crates/engine/src"],
        calls: &[(".set_kind(", &[SiteKind::Flush]), ("directory.publish(", &[SiteKind::Flush])],
        recovery_one_in: 250,
        kill_one_in: 100,
        images: 100_000,
        images_per_mutation: 4000,
    };

    fn scenarios() -> &'static [Scenario] {
        &SCENARIOS
    }

    fn planted() -> &'static [Planted] {
        &planted::PLANTED
    }

    fn drills() -> &'static [Drill] {
        &drill::DRILLS
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn focus(&self) -> &'static [&'static str] {
        self.focus
    }

    fn images_max(&self) -> u64 {
        // A script repeats one thing; it is there for the mutations.
        if self.script.is_some() { 1000 } else { 6000 }
    }

    fn is_paged(&self) -> bool {
        self.is_paged
    }

    fn device_bytes(&self) -> Option<u64> {
        self.device_bytes
    }

    fn work(&'static self, medium: Arc<dyn Medium>, seed: u64, scheduler: Scheduler) -> History {
        self.run(medium, seed, scheduler)
    }

    fn check(&self, medium: &Arc<dyn Medium>, oracle: &Oracle, history: &History, depth: u64) -> Result<(), String> {
        verdict::check(medium, self, oracle, history, depth)
    }

    fn settled(&self, medium: Arc<dyn Medium>, oracle: &Oracle, history: &History) -> Result<Option<Oracle>, String> {
        verdict::settled(medium, self, oracle, history).map(Some)
    }

    fn recover(&self, medium: Arc<dyn Medium>) -> Result<(), String> {
        let engine = Engine::open(medium, self.config()).map_err(|error| format!("recovery refused: {error}"))?;
        trace::ack(RECOVERED);
        verdict::use_cells(&engine)?;
        verdict::use_space(&engine)?;
        verdict::commit_after(&engine)?;
        engine.close();
        Ok(())
    }
}
