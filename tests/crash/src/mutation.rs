//! Tests the explorer itself: with any single flush, fence or sync outside `pmem` switched off it must find a violation.
//!
//! A call site no run reached counts as not caught; those are found by looking through the sources ([`crate::sources`]).

use crate::explore::{Depth, explore};
use crate::subject::{Run, Subject};
use crate::verdict::{self, Start};
use perdura_pmem::sim::Random;
use perdura_pmem::sim::image::Seen;
use perdura_pmem::sim::recorder::{CallSite, Event};
use perdura_pmem::sim::replay::ReplayOptions;
use std::ops::ControlFlow;

/// Outcome for one call site or planted error.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The call site, or the error.
    pub site: String,
    /// Whether switching it off was noticed.
    pub caught: bool,
}

/// Seeds of further runs, of which in one each a thread is kept from going on right after the site.
const STALLED_SEEDS: u64 = 12;

/// Switches one call site off: in the runs that reach it, then in runs in which other threads get far between the site and the
/// next fence of its thread.
pub fn test<S: Subject>(runs: &[Run<S>], site: CallSite) -> Verdict {
    match look_for(runs, site) {
        Ok(caught) => Verdict { site: site.to_string(), caught },
        Err(what) => Verdict { site: format!("{site}: {what}"), caught: false },
    }
}

/// Whether a violation is found. An error says which run failed by itself.
fn look_for<S: Subject>(runs: &[Run<S>], site: CallSite) -> Result<bool, String> {
    let images_each = S::PRODUCT.images_per_mutation;
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

fn is_caught<S: Subject>(run: &Run<S>, site: CallSite, images_each: u64) -> bool {
    let Some(from) = first_event(run, &site) else { return false };
    // A recovery is short, and what it leaves unfenced must survive just so for the loss to show.
    let choices = if run.trace.events().len() < 3000 { 40 } else { 4 };
    let depth = Depth {
        choices,
        images_max: images_each,
        violations_max: 1,
        muted: Some(site),
        recovery_one_in: 0,
        kill_one_in: 0,
        check_step: 1,
        from,
    };
    !explore(run, &depth).violations.is_empty()
}

/// Place in the trace of the first event of a call site.
fn first_event<S: Subject>(run: &Run<S>, site: &CallSite) -> Option<usize> {
    let is_here = |event: &Event| {
        let at = run.trace.site(event.site);
        at.file() == site.file && at.line() == site.line && at.column() == site.column
    };
    run.trace.events().iter().position(is_here)
}

/// Recoveries of crash images of the runs, and of what a killed process leaves, recorded, to be explored like runs.
pub fn recovery_runs<S: Subject>(runs: &[Run<S>]) -> Vec<Run<S>> {
    const IMAGES_ONE_IN: u64 = 150;
    const POINTS_ONE_IN: u64 = 40;
    const EACH: usize = 12;
    let mut recoveries = Vec::new();
    for run in runs {
        let (mut oracle, mut seen) = (run.prior.clone(), Seen::default());
        let (mut marks, mut points, mut count) = (0, 0, 0);
        let mut random = Random::new(run.seed);
        let wanted = recoveries.len() + EACH;
        run.trace.replay(&ReplayOptions { muted: None, salt: run.seed }, |point| {
            for mark in &point.marks()[marks..] {
                run.follow(&mut oracle, mark);
            }
            marks = point.marks().len();
            let mut record = |start: Start| recoveries.extend(run.recovery(start, &oracle));
            points += 1;
            if points % POINTS_ONE_IN == 0 {
                record(Start::Killed(point.kill()));
            }
            point.for_each_image(&mut random, &mut seen, 2, |image| {
                count += 1;
                if count % IMAGES_ONE_IN == 0 {
                    record(Start::Image(image));
                }
            });
            if recoveries.len() >= wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }
    recoveries
}
