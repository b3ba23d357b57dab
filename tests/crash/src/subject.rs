//! What is crashed: one kind of run of a product, with its oracle and its recovery.
//!
//! A subject knows what is done, what must be there after a crash, and how to look. The explorer knows where to crash, and what a
//! crash may leave.

use crate::planted::Planted;
use crate::verdict::{self, Start};
use perdura_pmem::Medium;
use perdura_pmem::sim::{Mark, Recorder, SiteKind, Trace};
use perdura_pmem::sim::{Scheduler, SimMedium};
use perdura_pmem::trace;
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

/// A recorded run: the trace, and what was written down.
pub struct Run<S: Subject> {
    /// The scenario.
    pub scenario: &'static S,
    /// Its seed.
    pub seed: u64,
    /// All events.
    pub trace: Trace,
    /// What was written down.
    pub history: Arc<S::History>,
    /// The oracle when the trace begins.
    pub prior: S::Oracle,
    /// If it is a recovery: the oracle when that is over.
    pub settled: Option<S::Oracle>,
}

impl<S: Subject> Run<S> {
    /// Lets an oracle follow a mark of the run.
    pub fn follow(&self, oracle: &mut S::Oracle, mark: &Mark) {
        match (mark.payload, &self.settled) {
            (RECOVERED, Some(settled)) => oracle.clone_from(settled),
            (RECOVERED, None) => {}
            (payload, _) => oracle.mark(payload, &self.history),
        }
    }

    /// Records the recovery of what this run leaves when it is cut off where `oracle` stands. An error is for the check of the
    /// image itself to report.
    pub fn recovery(&self, start: Start, oracle: &S::Oracle) -> Result<Run<S>, String> {
        let scenario = self.scenario;
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(start.image()));
        let settled = verdict::guarded(|| scenario.settled(medium, oracle, &self.history))?;
        let trace = verdict::record_recovery(start, scenario)?;
        let (history, prior) = (self.history.clone(), oracle.clone());
        Ok(Run { scenario, seed: self.seed, trace, history, prior, settled })
    }

    /// Runs a scenario on recorded memory, interleaved as `seed` decides.
    pub fn record(scenario: &'static S, seed: u64) -> Run<S> {
        // Two of three runs have long pauses, in which the others get far.
        let scheduler = match seed % 3 {
            0 => Scheduler::new(seed),
            1 => Scheduler::new(seed).pause_one_in(60),
            _ => Scheduler::new(seed).pause_one_in(12),
        };
        Run::scheduled(scenario, seed, scheduler)
    }

    /// As [`Run::record`], but a thread that passes this line is kept from going on while the others do.
    pub fn record_stalled(scenario: &'static S, seed: u64, file: &'static str, line: u32) -> Run<S> {
        Run::scheduled(scenario, seed, Scheduler::new(seed).stall_after(file, line))
    }

    /// As [`Run::record`], interleaved by this scheduler.
    pub fn scheduled(scenario: &'static S, seed: u64, scheduler: Scheduler) -> Run<S> {
        let (medium, recorder) = Recorder::attach(SimMedium::new());
        let history = {
            let _attached = trace::attach(recorder.clone());
            scenario.work(Arc::new(medium), seed, scheduler)
        };
        Run {
            scenario,
            seed,
            trace: recorder.finish(),
            history: Arc::new(history),
            prior: S::Oracle::default(),
            settled: None,
        }
    }
}
