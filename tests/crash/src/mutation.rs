//! Tests the explorer itself: with any single flush, fence or sync outside `pmem` switched off it must find a violation.
//!
//! A call site that no run reached counts as not caught. [`crate::sources`] finds such sites in the source files.
//! Tests (I3).

use crate::explore::{Depth, explore};
use crate::run::Run;
use crate::subject::Subject;
use crate::verdict::{self, Start};
use perdura_pmem::sim::Random;
use perdura_pmem::sim::image::Seen;
use perdura_pmem::sim::replay::ReplayOptions;
use perdura_pmem::sim::{CallSite, Event, SiteKind};
use std::ops::ControlFlow;

/// Whether the explorer caught one mutation.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The call site, or the planted error.
    pub site: String,
    /// Whether a violation was found with it in force.
    pub caught: bool,
}

/// Seeds of further runs, in each of which one thread is stalled right after the site.
const STALLED_SEEDS: u64 = 12;

/// Switches one call site off: in the runs that reach it, then in runs in which other threads get far between the site and the
/// next fence of its thread.
pub fn test<S: Subject>(runs: &[Run<S>], site: CallSite) -> Verdict {
    match look_for(runs, site) {
        Ok(caught) => Verdict { site: site.to_string(), caught },
        Err(what) => Verdict { site: format!("{site}: {what}"), caught: false },
    }
}

/// Whether a violation is found. An error names the run that failed by itself.
fn look_for<S: Subject>(runs: &[Run<S>], site: CallSite) -> Result<bool, String> {
    let images_each = S::PRODUCT.images_per_mutation;
    if site.kind == SiteKind::Reclaim && look_for_reclaim::<S>(site)? {
        return Ok(true);
    }
    if runs.iter().any(|run| is_caught(run, site, images_each)) {
        return Ok(true);
    }
    for seed in 0..STALLED_SEEDS {
        let reaching = S::scenarios().iter().filter(|scenario| {
            runs.iter().any(|run| run.scenario.name() == scenario.name() && run.trace.sites().contains_key(&site))
        });
        for scenario in reaching {
            let failed = |what| format!("scenario {:?} seed {seed}, stalled there: {what}", scenario.name());
            let stalled =
                verdict::guarded(|| Ok(Run::record_stalled(scenario, seed, site.file, site.line))).map_err(failed)?;
            let plain = verdict::guarded(|| Ok(Run::record(scenario, 100 + seed))).map_err(failed)?;
            if is_caught(&stalled, site, images_each) || is_caught(&plain, site, images_each) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// What a reclaim makes durable matters only after a kill, so more processes are killed, and where it matters most.
fn look_for_reclaim<S: Subject>(site: CallSite) -> Result<bool, String> {
    const SEEDS: u64 = 3;
    for seed in 0..SEEDS {
        for scenario in S::scenarios() {
            let failed = |what| format!("scenario {:?} seed {seed}: {what}", scenario.name());
            let run = verdict::guarded(|| Ok(Run::record(scenario, 100 + seed))).map_err(failed)?;
            let killed = recoveries(&run, None, Kills::Within(S::PRODUCT.kill_within), 60);
            if killed.iter().any(|recovery| is_caught_in(recovery, site, 4, 200)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn is_caught<S: Subject>(run: &Run<S>, site: CallSite, images_each: u64) -> bool {
    // A recovery has few crash points, and few choices of surviving lines show the loss: more choices are tried.
    is_caught_in(run, site, if run.trace.events().len() < 3000 { 40 } else { 4 }, images_each)
}

fn is_caught_in<S: Subject>(run: &Run<S>, site: CallSite, choices: usize, images_max: u64) -> bool {
    let Some(from) = first_event(run, &site) else { return false };
    let muted = Some(site);
    let depth = Depth {
        choices,
        images_max,
        violations_max: 1,
        muted,
        recovery_one_in: 0,
        kill_one_in: 0,
        check_step: 1,
        from,
    };
    !explore(run, &depth).violations.is_empty()
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
    const EACH: usize = 12;
    runs.iter().flat_map(|run| recoveries(run, Some(150), Kills::OneIn(40), EACH)).collect()
}

/// Where processes are killed.
enum Kills {
    /// At one crash point in this many.
    OneIn(u64),
    /// Where a stretch with one of these labels is open; anywhere if the list is empty.
    Within(&'static [&'static str]),
}

/// Up to `most` recoveries: of one image in so many, and of what killed processes leave.
fn recoveries<S: Subject>(run: &Run<S>, images_one_in: Option<u64>, kills: Kills, most: usize) -> Vec<Run<S>> {
    let mut recoveries = Vec::new();
    let (mut oracle, mut seen) = (run.prior.clone(), Seen::default());
    let (mut marks, mut points, mut count) = (0, run.seed, 0u64);
    let mut random = Random::new(run.seed);
    run.trace.replay(&ReplayOptions { muted: None, salt: run.seed }, |point| {
        for mark in &point.marks()[marks..] {
            run.follow(&mut oracle, mark);
        }
        marks = point.marks().len();
        let mut record = |start: Start| recoveries.extend(run.recovery(start, &oracle));
        points += 1;
        let here = match kills {
            Kills::OneIn(count) => points.is_multiple_of(count),
            Kills::Within(labels) => labels.is_empty() || point.labels().any(|label| labels.contains(&label)),
        };
        if here {
            record(Start::Killed(point.kill()));
        }
        if let Some(one_in) = images_one_in {
            point.for_each_image(&mut random, &mut seen, 2, |image| {
                count += 1;
                if count.is_multiple_of(one_in) {
                    record(Start::Image(image));
                }
            });
        }
        if recoveries.len() >= most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    recoveries
}
