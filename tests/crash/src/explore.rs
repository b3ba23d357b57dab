//! Walks the crash points of recorded runs and checks their images.

use crate::subject::{Hazard, Oracle, Run, Subject};
use crate::verdict;
use perdura_pmem::sim::image::Seen;
use perdura_pmem::sim::point::Point;
use perdura_pmem::sim::recorder::{CallSite, EventKind, Trace};
use perdura_pmem::sim::replay::ReplayOptions;
use perdura_pmem::sim::{Image, Random};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Distinct images checked.
    pub images: u64,
    /// Of these, by hazard.
    pub hazards: BTreeMap<Hazard, u64>,
    /// What is wrong.
    pub violations: Vec<String>,
}

impl Tally {
    /// Adds another's findings.
    pub fn add(&mut self, other: Tally) {
        self.images += other.images;
        for (hazard, count) in other.hazards {
            *self.hazards.entry(hazard).or_default() += count;
        }
        self.violations.extend(other.violations);
    }
}

/// How a run is explored.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// Seeded choices at a crash point with many open lines.
    pub choices: usize,
    /// Images after which to stop.
    pub images_max: u64,
    /// Violations after which to stop.
    pub violations_max: usize,
    /// A flush or fence that does not happen.
    pub muted: Option<CallSite>,
    /// Whether recoveries are cut off too.
    pub nested: bool,
    /// Place in the trace before which nothing is looked at.
    pub from: usize,
}

/// Crash points after the end of a labelled stretch that still belong to it: what it did is put to use there.
const AFTERMATH_POINTS: usize = 12;

/// Labels of stretches that were open at the present crash point or a few before it, or since that one.
#[derive(Default)]
struct Aftermath {
    points: usize,
    /// Place in the trace up to which stretches were followed.
    index: usize,
    last_seen: BTreeMap<&'static str, usize>,
}

impl Aftermath {
    fn follow(&mut self, trace: &Trace, point: &Point<'_>) {
        self.points += 1;
        let begun = trace.events()[self.index..point.index].iter().filter_map(|event| match event.kind {
            EventKind::Enter(label) => Some(trace.labels()[label as usize]),
            _ => None,
        });
        for label in point.labels().chain(begun) {
            self.last_seen.insert(label, self.points);
        }
        self.index = point.index;
    }

    fn labels(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.last_seen.iter().filter(|(_, at)| **at + AFTERMATH_POINTS > self.points).map(|(label, _)| *label)
    }

    fn is_in_focus(&self, focus: &[&str]) -> bool {
        focus.is_empty() || self.labels().any(|label| focus.contains(&label))
    }
}

/// Checks the crash images of a run.
pub fn explore<S: Subject>(run: &Run<S>, depth: &Depth) -> Tally {
    let mut tally = Tally::default();
    let mut seen = Seen::default();
    let mut random = Random::new(run.seed ^ 0x0c7a_5e0f);
    let mut oracle = run.prior.clone();
    let mut aftermath = Aftermath::default();
    let mut marks = 0;
    let options = ReplayOptions { muted: depth.muted, salt: run.seed };
    run.trace.replay(&options, |point| {
        for mark in &point.marks()[marks..] {
            oracle.mark(mark.payload, &run.history);
        }
        marks = point.marks().len();
        aftermath.follow(&run.trace, point);
        if point.index < depth.from || !aftermath.is_in_focus(run.scenario.focus()) {
            return ControlFlow::Continue(());
        }
        point.for_each_image(&mut random, &mut seen, depth.choices, |image| {
            if tally.images < depth.images_max && tally.violations.len() < depth.violations_max {
                let here = Here { run, point, aftermath: &aftermath, oracle: &oracle };
                check_one(image, &here, depth, &mut tally);
            }
        });
        let full = tally.images >= depth.images_max || tally.violations.len() >= depth.violations_max;
        if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    tally
}

/// A crash point of a run.
struct Here<'a, S: Subject> {
    run: &'a Run<S>,
    point: &'a Point<'a>,
    aftermath: &'a Aftermath,
    oracle: &'a S::Oracle,
}

fn check_one<S: Subject>(image: Image, here: &Here<'_, S>, depth: &Depth, tally: &mut Tally) {
    let Here { run, point, aftermath, oracle } = here;
    tally.images += 1;
    for label in aftermath.labels() {
        *tally.hazards.entry((run.scenario.group(), label)).or_default() += 1;
    }
    let nested = depth.nested && tally.images.is_multiple_of(S::PRODUCT.recovery_one_in);
    if nested {
        check_recovery(image.clone(), run, oracle, tally);
    }
    if let Err(what) = verdict::check(image, run.scenario, oracle, &run.history, tally.images) {
        let site = point.site.map_or("the end".to_owned(), |site| format!("{}:{}", site.file(), site.line()));
        let (name, seed, index) = (run.scenario.name(), run.seed, point.index);
        tally.violations.push(format!("scenario {name:?} seed {seed} event {index} before {site}: {what}"));
    }
}

/// Cuts the recovery of an image off at each of its own crash points.
fn check_recovery<S: Subject>(image: Image, run: &Run<S>, oracle: &S::Oracle, tally: &mut Tally) {
    let scenario = run.scenario;
    // A recovery that fails is reported by the check of the image itself.
    let Ok(trace) = verdict::record_recovery(image, scenario) else { return };
    let mut seen = Seen::default();
    let mut random = Random::new(run.seed ^ tally.images);
    trace.replay(&ReplayOptions { muted: None, salt: 0 }, |point| {
        point.for_each_image(&mut random, &mut seen, 4, |image| {
            tally.images += 1;
            *tally.hazards.entry((scenario.group(), "recovery")).or_default() += 1;
            if let Err(what) = verdict::check(image, scenario, oracle, &run.history, tally.images) {
                let (name, seed) = (scenario.name(), run.seed);
                tally.violations.push(format!(
                    "scenario {name:?} seed {seed}, recovery cut off at its event {}: {what}",
                    point.index
                ));
            }
        });
        ControlFlow::Continue(())
    });
}
