//! Recorded runs: of a scenario, and of the recovery of what an interrupted run leaves.

use crate::subject::{Oracle, RECOVERED, Subject};
use crate::verdict::{self, Start};
use perdura_pmem::Medium;
use perdura_pmem::sim::{Mark, Recorder, Scheduler, SimMedium, Trace};
use perdura_pmem::trace;
use std::sync::Arc;

/// A recorded run.
pub struct Run<S: Subject> {
    /// The scenario.
    pub scenario: &'static S,
    /// Its seed.
    pub seed: u64,
    /// All events.
    pub trace: Trace,
    /// Record of the run for its oracle.
    pub history: Arc<S::History>,
    /// The oracle when the trace begins.
    pub prior: S::Oracle,
    /// Of a recovery: the oracle when it is over.
    pub settled: Option<S::Oracle>,
}

impl<S: Subject> Run<S> {
    /// Advances an oracle by one mark of the run.
    pub fn follow(&self, oracle: &mut S::Oracle, mark: &Mark) {
        match (mark.payload, &self.settled) {
            (RECOVERED, Some(settled)) => oracle.clone_from(settled),
            (RECOVERED, None) => {}
            (payload, _) => oracle.mark(payload, &self.history),
        }
    }

    /// Records the recovery of what this run leaves when it is cut off where `oracle` stands. The
    /// caller ignores an error: the check of the image itself reports it.
    pub fn recovery(&self, start: Start, oracle: &S::Oracle) -> Result<Run<S>, String> {
        let recovery = self.recovery_if(start, oracle, |_| true)?;
        Ok(recovery.expect("every trace is wanted"))
    }

    /// As [`Run::recovery`], if its trace is `wanted`; `None` if it is not.
    pub fn recovery_if(
        &self,
        start: Start,
        oracle: &S::Oracle,
        wanted: impl FnOnce(&Trace) -> bool,
    ) -> Result<Option<Run<S>>, String> {
        let (scenario, image) = (self.scenario, start.image());
        let trace = verdict::record_recovery(start, scenario)?;
        if !wanted(&trace) {
            return Ok(None);
        }
        let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image));
        let settled = verdict::guarded(|| scenario.settled(medium, oracle, &self.history))?;
        let (history, prior) = (self.history.clone(), oracle.clone());
        Ok(Some(Run { scenario, seed: self.seed, trace, history, prior, settled }))
    }

    /// Runs a scenario on recorded memory, interleaved as `seed` decides.
    pub fn record(scenario: &'static S, seed: u64) -> Run<S> {
        // In two runs of three, threads pause for long, so that others get far.
        let scheduler = match seed % 3 {
            0 => Scheduler::new(seed),
            1 => Scheduler::new(seed).pause_one_in(60),
            _ => Scheduler::new(seed).pause_one_in(12),
        };
        Run::scheduled(scenario, seed, scheduler)
    }

    /// As [`Run::record`], but a thread that passes this line is stalled while the others go on: at
    /// once, or before its next fence.
    pub fn record_stalled(scenario: &'static S, seed: u64, file: &'static str, line: u32, until_fence: bool) -> Run<S> {
        let scheduler = Scheduler::new(seed).stall_after(file, line);
        Run::scheduled(scenario, seed, if until_fence { scheduler.until_fence() } else { scheduler })
    }

    /// As [`Run::record`], with a scheduler of the caller's.
    pub fn scheduled(scenario: &'static S, seed: u64, scheduler: Scheduler) -> Run<S> {
        let device = scenario.device_bytes().map_or_else(SimMedium::new, SimMedium::with_capacity);
        let device = if scenario.is_paged() { device.paged() } else { device };
        let (medium, recorder) = Recorder::attach(device);
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
