//! Runs without a crash, cheap enough for many seeds. The threads of a run check what they see, and
//! what they leave is opened again.

use super::oracle::Oracle;
use super::scenario::SCENARIOS;
use super::verdict;
use crate::subject::{Drill, Stall};
use crate::unrecorded::{medium, scheduler};
use perdura_pmem::Medium;
use std::sync::Arc;

/// All drills.
pub const DRILLS: [Drill; 2] = [
    Drill { name: "runs, list mixed", seeds: 20, run: |seed, stall| runs("list mixed", seed, stall) },
    Drill { name: "runs, list overwritten", seeds: 20, run: |seed, stall| runs("list overwritten", seed, stall) },
];

/// Runs a scenario, and opens what a killed process would leave.
fn runs(name: &str, seed: u64, stall: Stall) -> Result<(), String> {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
    let scenario = scenario.ok_or_else(|| format!("there is no scenario {name:?}"))?;
    let medium: Arc<dyn Medium> = medium();
    let past = scenario.run(&medium, seed, scheduler(seed, stall));
    verdict::check(&medium, scenario, &Oracle::of_all(&past), &past.states, 1)
}
