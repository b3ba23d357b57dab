//! The ordered maps as a subject: the list and the B+-tree, through their one trait.

pub mod bystander;
mod drill;
pub mod model;
pub mod oracle;
pub mod planted;
pub mod rivals;
pub mod run;
pub mod scenario;
pub mod stream;
pub mod verdict;
pub mod workload;

use crate::subject::{Drill, Hazard, Planted, Product, RECOVERED, Subject};
use oracle::{Oracle, Past};
use perdura_map::ErrorKind;
use perdura_pmem::sim::Scheduler;
use perdura_pmem::{Medium, trace};
use scenario::SCENARIOS;
pub use scenario::Scenario;
use std::sync::Arc;

/// Hazards that a campaign must see images of.
const HAZARDS: [Hazard; 19] = [
    ("list", "map_create"),
    ("list", "map_open"),
    ("list", "map_persist"),
    ("list", "map_free"),
    ("list", "map_copy"),
    ("list", "map_relink"),
    ("list", "map_load"),
    ("list", "recovery"),
    ("list", "second_recovery"),
    ("list", "killed"),
    ("btree", "map_create"),
    ("btree", "map_open"),
    ("btree", "map_persist"),
    ("btree", "map_free"),
    ("btree", "map_copy"),
    ("btree", "map_load"),
    ("btree", "recovery"),
    ("btree", "second_recovery"),
    ("btree", "killed"),
];

impl Subject for Scenario {
    type History = Past;
    type Oracle = Oracle;

    const PRODUCT: Product = Product {
        name: "map",
        hazards: &HAZARDS,
        sources: &["crates/map/src"],
        calls: &[],
        recovery_one_in: 20,
        // Odd, so that both fences of a persist get their turn.
        kill_one_in: 31,
        images: 2_000_000,
        images_per_mutation: 4000,
    };

    fn scenarios() -> &'static [Scenario] {
        &SCENARIOS
    }

    fn planted() -> &'static [Planted] {
        planted::PLANTED
    }

    fn drills() -> &'static [Drill] {
        &drill::DRILLS
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn group(&self) -> &'static str {
        self.group()
    }

    fn work(&'static self, medium: Arc<dyn Medium>, seed: u64, scheduler: Scheduler) -> Past {
        self.run(&medium, seed, scheduler)
    }

    fn check(&self, medium: &Arc<dyn Medium>, oracle: &Oracle, past: &Past, depth: u64) -> Result<(), String> {
        verdict::check(medium, self, oracle, &past.states, depth)
    }

    fn settled(&self, medium: Arc<dyn Medium>, oracle: &Oracle, past: &Past) -> Result<Option<Oracle>, String> {
        match self.open(&medium) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            opened => {
                let map = opened.map_err(|error| format!("recovery refused: {error}"))?;
                oracle.settled(&past.states, |state| state.compare(&*map, 3)).map(Some)
            }
        }
    }

    fn recover(&self, medium: Arc<dyn Medium>) -> Result<(), String> {
        let map = match self.open(&medium) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(|error| format!("recovery refused: {error}"))?,
        };
        trace::mark(RECOVERED);
        // The first round counts the pages in use, frees the others, and persists.
        map.collect().map(|_| ()).map_err(|error| format!("collection in recovery: {error}"))
    }
}
