//! Tests the explorer itself: with any single flush, fence or sync outside `pmem` switched off it must find a violation.
//!
//! A call site that no run reached counts as not caught. [`crate::sources`] finds such sites in the source files.
//! Tests (I3).

use crate::explore::{Depth, explore};
use crate::run::Run;
use crate::subject::Subject;
use crate::verdict::{self, Start};
use crate::workers::{map_on_all_workers, on_all_workers};
use perdura_pmem::sim::Random;
use perdura_pmem::sim::image::Seen;
use perdura_pmem::sim::point::{Point, PointKind};
use perdura_pmem::sim::replay::ReplayOptions;
use perdura_pmem::sim::{CallSite, Event};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Whether the explorer caught one mutation.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The call site, or the planted error.
    pub site: String,
    /// Whether a violation was found with it in force.
    pub caught: bool,
    /// The search for it.
    pub cost: Cost,
    /// Where it was found, in brackets, if that is of interest.
    pub shown: String,
}

impl Verdict {
    /// A mutation that no run can catch.
    pub fn missed(site: String) -> Verdict {
        Verdict { site, caught: false, cost: Cost::default(), shown: String::new() }
    }
}

/// The cost of a search.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Time of all workers together.
    pub time: Duration,
    /// Runs looked at.
    pub attempts: u64,
}

impl Cost {
    /// Adds one attempt that began at `begin`.
    pub fn add_attempt(&mut self, begin: Instant) {
        self.time += begin.elapsed();
        self.attempts += 1;
    }
}

/// Seeds of further runs, in each of which one thread is stalled right after the site.
const STALLED_SEEDS: u64 = 12;

/// A first look at a run takes one image in so many of those that are looked at in all.
const FIRST_LOOK_ONE_IN: u64 = 16;

/// Recoveries of killed processes, by the reclaims that made something durable there.
pub type Reclaiming<S> = BTreeMap<CallSite, Vec<Arc<Run<S>>>>;

/// Switches one call site off: in the runs that reach it, then in runs in which other threads get far between the site and the
/// next fence of its thread.
pub fn test<S: Subject>(runs: &[Run<S>], reclaiming: &Reclaiming<S>, site: CallSite) -> Verdict {
    let killed = reclaiming.get(&site).map_or(&[][..], Vec::as_slice);
    let mut search = Search { site, part: 1, cost: Cost::default() };
    let mut found = Ok(false);
    // Some runs show it at once, others never: no run is looked at long before all were looked at shortly.
    for part in [FIRST_LOOK_ONE_IN, 1] {
        search.part = part;
        found = search.look_for(runs, killed);
        if !matches!(found, Ok(false)) {
            break;
        }
    }
    let (caught, note) = match found {
        Ok(caught) => (caught, String::new()),
        Err(what) => (false, format!(": {what}")),
    };
    Verdict { site: format!("{site}{note}"), caught, cost: search.cost, shown: String::new() }
}

/// The search for what shows that a call site is switched off.
struct Search {
    site: CallSite,
    /// One image in so many is looked at, of those at which a search looks in all: the first ones of each run.
    part: u64,
    cost: Cost,
}

impl Search {
    /// Whether a violation is found. An error names the run that failed by itself.
    fn look_for<S: Subject>(&mut self, runs: &[Run<S>], killed: &[Arc<Run<S>>]) -> Result<bool, String> {
        if killed.iter().any(|recovery| self.is_caught_after_kill(recovery))
            || runs.iter().any(|run| self.is_caught(run))
        {
            return Ok(true);
        }
        let site = self.site;
        for seed in 0..STALLED_SEEDS {
            let reaching = S::scenarios().iter().filter(|scenario| {
                runs.iter().any(|run| run.scenario.name() == scenario.name() && run.trace.sites().contains_key(&site))
            });
            for scenario in reaching {
                let failed = |what| format!("scenario {:?} seed {seed}, stalled there: {what}", scenario.name());
                let stalled = verdict::guarded(|| Ok(Run::record_stalled(scenario, seed, site.file, site.line)));
                let plain = verdict::guarded(|| Ok(Run::record(scenario, 100 + seed)));
                if self.is_caught(&stalled.map_err(failed)?) || self.is_caught(&plain.map_err(failed)?) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn is_caught<S: Subject>(&mut self, run: &Run<S>) -> bool {
        let Some(from) = first_event(run, &self.site) else { return false };
        // A recovery has few crash points, and few choices of surviving lines show the loss: more choices are tried.
        let choices = if run.trace.events().len() < 3000 { 40 } else { 4 };
        self.is_caught_from(run, from, choices, S::PRODUCT.images_per_mutation)
    }

    /// Looks at the recovery from the site on, and once more at its end, where the first commits are.
    fn is_caught_after_kill<S: Subject>(&mut self, recovery: &Run<S>) -> bool {
        let Some(first) = first_event(recovery, &self.site) else { return false };
        let late = recovery.trace.events().len() / 3 * 2;
        [first, late.max(first)].into_iter().any(|from| self.is_caught_from(recovery, from, 2, 600))
    }

    fn is_caught_from<S: Subject>(&mut self, run: &Run<S>, from: usize, choices: usize, images_max: u64) -> bool {
        let begin = Instant::now();
        let depth = Depth {
            choices,
            images_max: images_max.div_ceil(self.part),
            violations_max: 1,
            muted: Some(self.site),
            recovery_one_in: 0,
            kill_one_in: 0,
            check_step: 1,
            from,
        };
        let is_caught = !explore(run, &depth).violations.is_empty();
        self.cost.add_attempt(begin);
        is_caught
    }
}

/// Index of the first event of a call site.
fn first_event<S: Subject>(run: &Run<S>, site: &CallSite) -> Option<usize> {
    let is_here = |event: &Event| {
        let at = run.trace.site(event.site);
        at.file() == site.file && at.line() == site.line && at.column() == site.column
    };
    run.trace.events().iter().position(is_here)
}

/// Recorded recoveries of the runs' crash images and of what killed processes leave. They are explored like runs.
pub fn recovery_runs<S: Subject>(runs: &[Run<S>]) -> Vec<Run<S>> {
    map_on_all_workers(runs, recoveries).into_iter().flatten().collect()
}

/// Recoveries of one image in so many, and of what a process leaves that is killed at one crash point in so many.
fn recoveries<S: Subject>(run: &Run<S>) -> Vec<Run<S>> {
    const EACH: usize = 12;
    const IMAGES_ONE_IN: u64 = 150;
    const KILLS_ONE_IN: u64 = 40;
    let mut recoveries = Vec::new();
    let (mut seen, mut points, mut count) = (Seen::default(), run.seed, 0u64);
    let mut random = Random::new(run.seed);
    follow(run, |point, oracle| {
        let mut record = |start: Start| recoveries.extend(run.recovery(start, oracle));
        points += 1;
        if points.is_multiple_of(KILLS_ONE_IN) {
            record(Start::Killed(point.kill()));
        }
        point.for_each_image(&mut random, &mut seen, 2, |image| {
            count += 1;
            if count.is_multiple_of(IMAGES_ONE_IN) {
                record(Start::Image(image));
            }
        });
        if recoveries.len() >= EACH { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    recoveries
}

/// What a reclaim makes durable matters only after a kill, between stores and their fence. So processes are killed before
/// some fences of each call site, and what counts is what the reclaims of the next process find.
pub fn reclaiming<S: Subject>(seed: u64) -> Reclaiming<S> {
    const SEEDS: u64 = 3;
    const KILLS_PER_FENCE: usize = 24;
    let runs: Vec<_> =
        (0..SEEDS).flat_map(|add| S::scenarios().iter().map(move |scenario| (scenario, seed + add))).collect();
    // By how often the run came to that fence with a kill, then by the run: so they are of many scenarios, and the same
    // ones whichever worker is faster.
    type First<S> = BTreeMap<(usize, usize), Arc<Run<S>>>;
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::<(CallSite, Place), First<S>>::new()));
    on_all_workers(|| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(scenario, seed)) = runs.get(number) else { break };
            // A run that fails by itself is reported by those who explore it.
            let Ok(run) = verdict::guarded(|| Ok(Run::record(scenario, 100 + seed))) else { continue };
            let mut ranks = BTreeMap::<Place, usize>::new();
            for (fence, recovery) in killed_before_fences(&run) {
                let recovery = Arc::new(recovery);
                let rank = ranks.entry(fence).or_default();
                *rank += 1;
                for site in recovery.trace.effective_reclaims() {
                    let mut found = found.lock().expect("no worker panics with it");
                    let recoveries = found.entry((site, fence)).or_default();
                    recoveries.insert((*rank, number), recovery.clone());
                    if recoveries.len() > KILLS_PER_FENCE {
                        recoveries.pop_last();
                    }
                }
            }
        }
    });
    let mut reclaiming = Reclaiming::new();
    for ((site, _), recoveries) in found.into_inner().expect("no worker panics with it") {
        reclaiming.entry(site).or_default().extend(recoveries.into_values());
    }
    reclaiming
}

/// File and line.
type Place = (&'static str, u32);

/// Recoveries of what a process leaves that is killed before some fences of each call site.
fn killed_before_fences<S: Subject>(run: &Run<S>) -> Vec<(Place, Run<S>)> {
    const KILLS_PER_FENCE: u64 = 5;
    let fence_at = |point: &Point<'_>| {
        let site = point.site.filter(|_| point.kind == PointKind::Fence)?;
        Some((site.file(), site.line()))
    };
    let mut fences = BTreeMap::<Place, u64>::new();
    follow(run, |point, _| {
        if let Some(fence) = fence_at(point) {
            *fences.entry(fence).or_default() += 1;
        }
        ControlFlow::Continue(())
    });
    let (mut random, mut recoveries) = (Random::new(run.seed), Vec::new());
    follow(run, |point, oracle| {
        if let Some(fence) = fence_at(point)
            && random.below(fences[&fence]) < KILLS_PER_FENCE
            && let Ok(recovery) = run.recovery(Start::Killed(point.kill()), oracle)
        {
            recoveries.push((fence, recovery));
        }
        ControlFlow::Continue(())
    });
    recoveries
}

/// Visits the crash points of a run with the oracle as it stands there.
fn follow<S: Subject>(run: &Run<S>, mut visit: impl FnMut(&Point<'_>, &S::Oracle) -> ControlFlow<()>) {
    let (mut oracle, mut marks) = (run.prior.clone(), 0);
    run.trace.replay(&ReplayOptions { muted: None, salt: run.seed }, |point| {
        point.marks()[marks..].iter().for_each(|mark| run.follow(&mut oracle, mark));
        marks = point.marks().len();
        visit(point, &oracle)
    });
}
