//! What is crashed: one kind of run of a product, with its oracle and its recovery.
//!
//! A subject knows what is done, what must be there after a crash, and how to look. The explorer knows where to crash, and what a
//! crash may leave.

use perdura_pmem::Medium;
use perdura_pmem::sim::{Scheduler, SiteKind};
use std::sync::Arc;

/// A group of scenarios, and a label of stretches within them.
pub type Hazard = (&'static str, &'static str);

/// What all scenarios of one product have in common.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// Its name.
    pub name: &'static str,
    /// Hazards of which images are wanted.
    pub hazards: &'static [Hazard],
    /// Folders of its sources, from the root of the project.
    pub sources: &'static [&'static str],
    /// Calls of its own, beside those of `pmem`, whose callers count as the call sites of a flush, fence or sync.
    pub calls: &'static [(&'static str, &'static [SiteKind])],
    /// Of so many images, the recovery of one is itself cut off everywhere.
    pub recovery_one_in: u64,
    /// At one of so many crash points the process is killed, and its successor's recovery is cut off everywhere.
    pub kill_one_in: u64,
    /// Labels of stretches in which a killed process leaves what its successor must reclaim; none: anywhere.
    pub kill_within: &'static [&'static str],
    /// Images after which it is enough, unless told otherwise.
    pub images: u64,
    /// Images looked at in each run for one mutation.
    pub images_per_mutation: u64,
}

/// What must be there after a crash, as known from the marks of a trace.
pub trait Oracle<History>: Clone + Default + Send + Sync {
    /// Takes one mark of the trace.
    fn mark(&mut self, payload: u64, history: &History);
}

/// Threads that run without a crash, in an interleaving that a seed decides; what they leave is compared and audited.
#[derive(Clone, Copy)]
pub struct Drill {
    /// Its name, among scenarios and drills.
    pub name: &'static str,
    /// Seeds tried in each campaign.
    pub seeds: u64,
    /// Runs it with a seed; an error, or a panic, says what is wrong.
    pub run: fn(u64) -> Result<(), String>,
}

/// An error that can be planted.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// Its number, as at `planted(number)` in the code.
    pub number: u32,
    /// The rule it breaks: (I1) to (I11), or the place where the rule is written.
    pub rule: &'static str,
    /// What is wrong with it in force.
    pub error: &'static str,
    /// The scenario or drill that is known to notice it, to be tried first.
    pub shown_by: &'static str,
}

/// Mark of a recovery that is over: what it found is seen by everybody from here on.
pub const RECOVERED: u64 = u64::MAX;

/// One kind of run.
pub trait Subject: Sized + Sync + 'static {
    /// What a run writes down for the oracle.
    type History: Default + Send + Sync;
    /// What is expected at a point of its trace.
    type Oracle: Oracle<Self::History>;

    /// Its product.
    const PRODUCT: Product;

    /// All kinds.
    fn scenarios() -> &'static [Self];

    /// Errors of reasoning that can be planted in its product.
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

    /// Labels at and shortly after which its crash points are looked at; none: all points.
    fn focus(&self) -> &'static [&'static str] {
        &[]
    }

    /// Works on an empty medium, its threads interleaved by the scheduler, and returns what it wrote down.
    fn work(&'static self, medium: Arc<dyn Medium>, seed: u64, scheduler: Scheduler) -> Self::History;

    /// Recovers and compares; an error says what is wrong. `depth` chooses how much is done after the first comparison.
    fn check(
        &self,
        medium: &Arc<dyn Medium>,
        oracle: &Self::Oracle,
        history: &Self::History,
        depth: u64,
    ) -> Result<(), String>;

    /// What is expected for good once a recovery of this medium is over ([`RECOVERED`]), if that is known.
    fn settled(
        &self,
        _medium: Arc<dyn Medium>,
        _oracle: &Self::Oracle,
        _history: &Self::History,
    ) -> Result<Option<Self::Oracle>, String> {
        Ok(None)
    }

    /// Recovers, marks that it has, and goes on for a while in a manner that the oracle knows.
    fn recover(&self, medium: Arc<dyn Medium>) -> Result<(), String>;
}
