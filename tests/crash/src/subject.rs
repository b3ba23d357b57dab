//! The subject of a crash test: one kind of run of a product, with its oracle and its recovery.
//!
//! A subject knows what a run does, what must be found after a crash, and how to check it. The
//! explorer knows where to crash and what a crash may leave.

use perdura_pmem::sim::{Scheduler, SiteKind};
use perdura_pmem::{Medium, Mutant};
use std::sync::Arc;

/// A group of scenarios, and a label of stretches within them.
pub type Hazard = (&'static str, &'static str);

/// Properties that all scenarios of one product have in common.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// Its name.
    pub name: &'static str,
    /// Hazards that a campaign must see images of.
    pub hazards: &'static [Hazard],
    /// Folders of its sources, from the root of the project.
    pub sources: &'static [&'static str],
    /// Functions of its own, beside those of `pmem`, whose callers count as call sites of a flush,
    /// fence or sync.
    pub calls: &'static [(&'static str, &'static [SiteKind])],
    /// The recovery of one image in this many is cut off at each of its own crash points.
    pub recovery_one_in: u64,
    /// At one crash point in this many the process is killed, and the recovery of its successor is
    /// cut off at each crash point.
    pub kill_one_in: u64,
    /// Images that a campaign checks by default.
    pub images: u64,
    /// Images checked in each run for one mutation.
    pub images_per_mutation: u64,
}

/// Content that must be found after a crash, as the marks of a trace tell.
pub trait Oracle<History>: Clone + Default + Send + Sync {
    /// Follows one mark of the trace.
    fn mark(&mut self, payload: u64, history: &History);
}

/// A run without a crash, whose threads interleave as a seed decides. What they leave is compared
/// and audited.
#[derive(Clone, Copy)]
pub struct Drill {
    /// Its name, among scenarios and drills.
    pub name: &'static str,
    /// Seeds tried in each campaign.
    pub seeds: u64,
    /// Runs it with a seed, threads stalled at a place if one is given. An error or a panic says
    /// what is wrong.
    pub run: fn(u64, Stall) -> Result<(), String>,
}

/// File and line of an event after which its thread is stalled.
pub type Stall = Option<(&'static str, u32)>;

/// An error of reasoning that can be planted in a product.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// Its name, as at `planted(mutant)` in the code.
    pub mutant: Mutant,
    /// The rule it breaks: (I1) to (I11), or the place where the rule is written.
    pub rule: &'static str,
    /// Fault of the product while it is planted.
    pub error: &'static str,
    /// The scenario or drill that is known to notice it, which is tried first.
    pub shown_by: &'static str,
}

/// An entry of a list of planted errors.
pub const fn planted(mutant: Mutant, rule: &'static str, error: &'static str, shown_by: &'static str) -> Planted {
    Planted { mutant, rule, error, shown_by }
}

impl Planted {
    /// Its name, as the sources and `--plant` have it.
    pub fn name(&self) -> String {
        format!("{:?}", self.mutant)
    }
}

/// Mark of a finished recovery: from here on everybody sees what it found.
pub const RECOVERED: u64 = u64::MAX;

/// One kind of run.
pub trait Subject: Sized + Sync + 'static {
    /// Record of a run for the oracle.
    type History: Default + Send + Sync;
    /// Content that must be found at one point of its trace.
    type Oracle: Oracle<Self::History>;

    /// Its product.
    const PRODUCT: Product;

    /// All scenarios.
    fn scenarios() -> &'static [Self];

    /// Errors of reasoning for its product.
    fn planted() -> &'static [Planted] {
        &[]
    }

    /// Runs without a crash.
    fn drills() -> &'static [Drill] {
        &[]
    }

    /// Its name.
    fn name(&self) -> &'static str;

    /// Group under which its hazards are counted.
    fn group(&self) -> &'static str {
        ""
    }

    /// Labels of the stretches in and shortly after which crash points are examined; empty:
    /// everywhere.
    fn focus(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether its pool is on a page medium.
    fn is_paged(&self) -> bool {
        false
    }

    /// Images of a run after which a campaign goes on to the next.
    fn images_max(&self) -> u64 {
        6000
    }

    /// Room on the device on which it runs; `None` for as much as it takes. After a crash there is
    /// more.
    fn device_bytes(&self) -> Option<u64> {
        None
    }

    /// Runs on an empty medium, its threads interleaved by the scheduler. Returns what it recorded.
    fn work(&'static self, medium: Arc<dyn Medium>, seed: u64, scheduler: Scheduler) -> Self::History;

    /// Recovers and compares. An error says what is wrong. `depth` chooses how much is done after
    /// the first comparison.
    fn check(
        &self,
        medium: &Arc<dyn Medium>,
        oracle: &Self::Oracle,
        history: &Self::History,
        depth: u64,
    ) -> Result<(), String>;

    /// The oracle of every later recovery once a recovery of this medium is over ([`RECOVERED`]),
    /// if that is known.
    fn settled(
        &self,
        _medium: Arc<dyn Medium>,
        _oracle: &Self::Oracle,
        _history: &Self::History,
    ) -> Result<Option<Self::Oracle>, String> {
        Ok(None)
    }

    /// Recovers, marks the end of the recovery, and goes on for a while in a way that the oracle
    /// knows.
    fn recover(&self, medium: Arc<dyn Medium>) -> Result<(), String>;
}
