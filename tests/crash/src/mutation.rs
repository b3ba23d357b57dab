//! Tests the explorer itself: with any single flush, fence or sync outside `pmem` switched off it
//! must find a violation.
//!
//! A call site that no run reached counts as not caught. [`crate::sources`] finds such sites in the
//! source files. Tests (I3).

use crate::explore::{Depth, explore};
use crate::run::Run;
use crate::subject::Subject;
use crate::verdict::{self, Start};
use crate::workers::{map_on_all_workers, on_all_workers};
use perdura_pmem::sim::Random;
use perdura_pmem::sim::image::Seen;
use perdura_pmem::sim::point::{Point, PointKind};
use perdura_pmem::sim::replay::ReplayOptions;
use perdura_pmem::sim::{CallSite, Event, EventKind, SiteKind};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
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

/// The looks at the runs: each takes the first ones of so many images that are looked at in all,
/// and so many of the [`STALLED_SEEDS`]. Some runs show it at once, others never: none is looked at
/// long before all were looked at shortly.
const LOOKS: [(u64, u64); 3] = [(64, 2), (8, 4), (1, STALLED_SEEDS)];

/// Stretches of a run that are looked at before all else ([`overtaken`]), and images of each.
const STRETCHES: usize = 3;
const STRETCH_IMAGES: u64 = 40;

/// Recoveries of killed processes, by the reclaims that made something durable there.
pub type Reclaiming<S> = BTreeMap<CallSite, Vec<Arc<Run<S>>>>;

/// Switches one call site off: in the runs that reach it, then in runs in which other threads get
/// far between the site and the next fence of its thread.
pub fn test<S: Subject>(runs: &[Run<S>], reclaiming: &Reclaiming<S>, site: CallSite) -> Verdict {
    let killed = reclaiming.get(&site).map_or(&[][..], Vec::as_slice);
    let mut search = Search { site, part: 1, stalled: 0, cost: Cost::default() };
    let mut found = Ok(runs.iter().any(|run| search.is_caught_overtaken(run)));
    for (part, stalled) in LOOKS {
        if !matches!(found, Ok(false)) {
            break;
        }
        (search.part, search.stalled) = (part, stalled);
        found = search.look_for(runs, killed);
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
    /// One image in so many is looked at, of those at which a search looks in all: the first ones
    /// of each run.
    part: u64,
    /// So many seeds are tried with stalled threads.
    stalled: u64,
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
        for seed in 0..self.stalled {
            let reaching = S::scenarios().iter().filter(|scenario| {
                runs.iter().any(|run| run.scenario.name() == scenario.name() && run.trace.sites().contains_key(&site))
            });
            for scenario in reaching {
                let failed = |what| format!("scenario {:?} seed {seed}, stalled there: {what}", scenario.name());
                let until_fence = !seed.is_multiple_of(2);
                let stalled =
                    verdict::guarded(|| Ok(Run::record_stalled(scenario, seed, site.file, site.line, until_fence)));
                let plain = verdict::guarded(|| Ok(Run::record(scenario, 100 + seed)));
                for run in [stalled.map_err(failed)?, plain.map_err(failed)?] {
                    if self.is_caught_overtaken(&run) || self.is_caught(&run) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    fn is_caught<S: Subject>(&mut self, run: &Run<S>) -> bool {
        let Some(from) = first_event(run, &self.site) else { return false };
        // A recovery has few crash points, and few choices of surviving lines show the loss: more
        // choices are tried.
        let choices = if run.trace.events().len() < 3000 { 40 } else { 4 };
        self.is_caught_in(run, from..usize::MAX, choices, S::PRODUCT.images_per_mutation.div_ceil(self.part))
    }

    /// Looks at the stretches in which other threads got furthest without the fence.
    fn is_caught_overtaken<S: Subject>(&mut self, run: &Run<S>) -> bool {
        let stretches = if self.site.kind == SiteKind::Fence { overtaken(run, &self.site) } else { Vec::new() };
        stretches.into_iter().any(|stretch| self.is_caught_in(run, stretch, 2, STRETCH_IMAGES))
    }

    /// Looks at the recovery from the site on, and once more at its end, where the first commits
    /// are.
    fn is_caught_after_kill<S: Subject>(&mut self, recovery: &Run<S>) -> bool {
        let Some(first) = first_event(recovery, &self.site) else { return false };
        let late = recovery.trace.events().len() / 3 * 2;
        let images_max = 600u64.div_ceil(self.part.min(16));
        [first, late.max(first)].into_iter().any(|from| self.is_caught_in(recovery, from..usize::MAX, 2, images_max))
    }

    fn is_caught_in<S: Subject>(&mut self, run: &Run<S>, at: Range<usize>, choices: usize, images_max: u64) -> bool {
        let begin = Instant::now();
        let depth = Depth {
            choices,
            images_max,
            violations_max: 1,
            muted: Some(self.site),
            recovery_one_in: 0,
            kill_one_in: 0,
            check_step: 1,
            from: at.start,
            until: at.end,
        };
        let is_caught = !explore(run, &depth).violations.is_empty();
        self.cost.add_attempt(begin);
        is_caught
    }
}

/// Index of the first event of a call site.
fn first_event<S: Subject>(run: &Run<S>, site: &CallSite) -> Option<usize> {
    run.trace.events().iter().position(|event| is_at(run, event, site))
}

fn is_at<S: Subject>(run: &Run<S>, event: &Event, site: &CallSite) -> bool {
    let at = run.trace.site(event.site);
    at.file() == site.file && at.line() == site.line && at.column() == site.column
}

/// Meaning of an event to the search for overtaken fences.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passing {
    /// The fence that is switched off.
    Muted,
    /// Another fence.
    Fence,
    /// Something is acknowledged.
    Ack,
    Other,
}

/// As [`stretches`], of a run in which the fences of a call site are switched off.
fn overtaken<S: Subject>(run: &Run<S>, site: &CallSite) -> Vec<Range<usize>> {
    let passing = |event: &Event| match event.kind {
        EventKind::Fence if is_at(run, event, site) => Passing::Muted,
        EventKind::Fence => Passing::Fence,
        EventKind::Ack(_) => Passing::Ack,
        _ => Passing::Other,
    };
    stretches(run.trace.events().iter().map(|event| (event.thread, passing(event))))
}

/// Stretches from a muted fence to the next fence of its thread in which others were acknowledged
/// something, those with most acknowledgements first, as ranges of events. Each begins with the
/// last of these: if others have relied on what is not fenced, it shows from there on.
fn stretches(events: impl Iterator<Item = (u16, Passing)>) -> Vec<Range<usize>> {
    // By thread: acknowledgements of others since its muted fence, and the event of the last one.
    let mut open = BTreeMap::<u16, (usize, usize)>::new();
    let (mut found, mut end) = (Vec::new(), 0);
    for (index, (thread, passing)) in events.enumerate() {
        end = index + 1;
        match passing {
            Passing::Muted | Passing::Fence => {
                found.extend(open.remove(&thread).map(|(count, last)| (count, last..end)));
                if passing == Passing::Muted {
                    open.insert(thread, (0, index));
                }
            }
            Passing::Ack => {
                for (_, (count, last)) in open.iter_mut().filter(|(other, _)| **other != thread) {
                    (*count, *last) = (*count + 1, index);
                }
            }
            Passing::Other => {}
        }
    }
    // At the end of the recording there is a crash point as well.
    found.extend(open.into_values().map(|(count, last)| (count, last..end + 1)));
    found.retain(|(count, _)| *count > 0);
    found.sort_by_key(|(count, _)| Reverse(*count));
    found.into_iter().take(STRETCHES).map(|(_, stretch)| stretch).collect()
}

/// Recorded recoveries of the runs' crash images and of what killed processes leave. They are
/// explored like runs.
pub fn recovery_runs<S: Subject>(runs: &[Run<S>]) -> Vec<Run<S>> {
    map_on_all_workers(runs, recoveries).into_iter().flatten().collect()
}

/// Recoveries of one image in so many, and of what a process leaves that is killed at one crash
/// point in so many.
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

/// The effect of a reclaim on the medium matters only after a kill, between stores and their fence.
/// So processes are killed before some fences of each call site, and what counts is what the
/// reclaims of the next process find.
pub fn reclaiming<S: Subject>(seed: u64) -> Reclaiming<S> {
    const SEEDS: u64 = 3;
    const KILLS_PER_FENCE: usize = 30;
    let runs: Vec<_> =
        (0..SEEDS).flat_map(|add| S::scenarios().iter().map(move |scenario| (scenario, seed + add))).collect();
    // By how often the run came to that fence with a kill, then by the run: so they are of many
    // scenarios, and the same ones whichever worker is faster.
    type First<S> = BTreeMap<(usize, usize), Arc<Run<S>>>;
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::<(CallSite, Place), First<S>>::new()));
    on_all_workers(|| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(scenario, seed)) = runs.get(number) else { break };
            // A run that fails by itself is reported by those who explore it.
            let Ok(run) = verdict::guarded(|| Ok(Run::record(scenario, 100 + seed))) else { continue };
            let mut ranks = BTreeMap::<Place, usize>::new();
            killed_before_fences(&run, |fence, start, oracle| {
                let rank = ranks.entry(fence).or_default();
                *rank += 1;
                let key = (*rank, number);
                let is_full = |known: &First<S>| {
                    known.len() == KILLS_PER_FENCE && known.last_key_value().is_some_and(|(last, _)| *last < key)
                };
                let mut sites = Vec::new();
                let recovery = run.recovery_if(start, oracle, |trace| {
                    let effective = trace.effective_reclaims();
                    let found = found.lock().expect("no worker panics with it");
                    let is_wanted = |site: &CallSite| !found.get(&(*site, fence)).is_some_and(is_full);
                    sites.extend(effective.into_iter().filter(is_wanted));
                    !sites.is_empty()
                });
                let Ok(Some(recovery)) = recovery.map(|recovery| recovery.map(Arc::new)) else { return };
                for site in sites {
                    let mut found = found.lock().expect("no worker panics with it");
                    let recoveries = found.entry((site, fence)).or_default();
                    recoveries.insert(key, recovery.clone());
                    if recoveries.len() > KILLS_PER_FENCE {
                        recoveries.pop_last();
                    }
                }
            });
        }
    });
    // One of each fence in turn: what does not show after one kill there rarely does after another.
    let mut turns = BTreeMap::<CallSite, BTreeMap<(usize, Place), Arc<Run<S>>>>::new();
    for ((site, fence), recoveries) in found.into_inner().expect("no worker panics with it") {
        let in_turn = recoveries.into_values().enumerate().map(|(turn, recovery)| ((turn, fence), recovery));
        turns.entry(site).or_default().extend(in_turn);
    }
    turns.into_iter().map(|(site, recoveries)| (site, recoveries.into_values().collect())).collect()
}

/// File and line.
type Place = (&'static str, u32);

/// Visits what a process leaves that is killed before some fences of each call site, with the
/// oracle as it stands there.
fn killed_before_fences<S: Subject>(run: &Run<S>, mut visit: impl FnMut(Place, Start, &S::Oracle)) {
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
    let mut random = Random::new(run.seed);
    follow(run, |point, oracle| {
        if let Some(fence) = fence_at(point)
            && random.below(fences[&fence]) < KILLS_PER_FENCE
        {
            visit(fence, Start::Killed(point.kill()), oracle);
        }
        ControlFlow::Continue(())
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The search for a missing fence looks where others relied on it, and nowhere else.
    #[test]
    fn a_fence_is_overtaken_by_what_others_are_acknowledged() {
        use Passing::{Ack, Fence, Muted, Other};
        let bounds = |stretch: Range<usize>| (stretch.start, stretch.end);
        let of = |events: &[(u16, Passing)]| -> Vec<(usize, usize)> {
            stretches(events.iter().copied()).into_iter().map(bounds).collect()
        };
        assert_eq!(of(&[(1, Muted), (1, Ack), (1, Fence), (2, Ack)]), [], "its own, and too late");
        assert_eq!(of(&[(1, Muted), (2, Ack), (2, Fence), (1, Other), (1, Fence)]), [(1, 5)]);
        assert_eq!(of(&[(2, Ack), (1, Muted), (2, Ack), (1, Other)]), [(2, 5)], "until the end");
        let both = [(1, Muted), (3, Ack), (2, Muted), (3, Ack), (1, Fence), (3, Other), (2, Muted), (3, Ack)];
        assert_eq!(of(&both), [(3, 5), (3, 7), (7, 9)], "the longest first");
    }
}
