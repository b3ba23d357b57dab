//! Walks the crash points of recorded runs and checks their images. Tests (I7).

use crate::run::Run;
use crate::subject::{Hazard, Subject};
use crate::verdict::{self, Start};
use perdura_pmem::sim::image::Seen;
use perdura_pmem::sim::point::Point;
use perdura_pmem::sim::replay::ReplayOptions;
use perdura_pmem::sim::{CallSite, EventKind, Trace};
use perdura_pmem::sim::{Image, Random};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The findings of one or many explored runs.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Distinct images checked.
    pub images: u64,
    /// Of these, by hazard.
    pub hazards: BTreeMap<Hazard, u64>,
    /// One message for each violation.
    pub violations: Vec<String>,
}

impl Tally {
    /// Adds the findings of `other`.
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
    /// Call site whose flush, fence or sync is left out.
    pub muted: Option<CallSite>,
    /// The recovery of one image in this many is cut off at each of its own crash points; 0: of
    /// none.
    pub recovery_one_in: u64,
    /// At one crash point in this many the process is killed, and the recovery of its successor is
    /// cut off at each crash point; 0: at none.
    pub kill_one_in: u64,
    /// Times the image's number, this chooses how much is done with the image after the first
    /// comparison.
    pub check_step: u64,
    /// Index of the first event whose crash point is examined.
    pub from: usize,
    /// Index of the event at whose crash point the run is left.
    pub until: usize,
}

/// Crash points after the end of a labelled stretch that still belong to it: there others use what
/// the stretch did.
const AFTERMATH_POINTS: usize = 12;

/// Labels of the stretches that are open at the current crash point or were open a few crash points
/// ago.
#[derive(Default)]
struct Aftermath {
    points: usize,
    /// Index of the first event whose labels have not been read yet.
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
    let (mut marks, mut points) = (0, 0u64);
    let options = ReplayOptions { muted: depth.muted, salt: run.seed };
    run.trace.replay(&options, |point| {
        for mark in &point.marks()[marks..] {
            run.follow(&mut oracle, mark);
        }
        marks = point.marks().len();
        aftermath.follow(&run.trace, point);
        if point.index >= depth.until {
            return ControlFlow::Break(());
        }
        if point.index < depth.from || !aftermath.is_in_focus(run.scenario.focus()) {
            return ControlFlow::Continue(());
        }
        point.for_each_image(&mut random, &mut seen, depth.choices, |image| {
            if tally.images < depth.images_max && tally.violations.len() < depth.violations_max {
                let here = Here { run, point, aftermath: &aftermath, oracle: &oracle };
                check_one(image, &here, depth, &mut tally);
            }
        });
        points += 1;
        if depth.kill_one_in > 0 && (points + run.seed).is_multiple_of(depth.kill_one_in) {
            check_recovery(Start::Killed(point.kill()), Stage::Killed, run, &oracle, &mut tally);
        }
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
    if depth.recovery_one_in > 0 && tally.images.is_multiple_of(depth.recovery_one_in) {
        check_recovery(Start::Image(image.clone()), Stage::Recovery, run, oracle, tally);
    }
    if let Err(what) = verdict::check(image, run.scenario, oracle, &run.history, tally.images * depth.check_step) {
        let site = point.site.map_or("the end".to_owned(), |site| format!("{}:{}", site.file(), site.line()));
        let (name, seed, index) = (run.scenario.name(), run.seed, point.index);
        tally.violations.push(format!("scenario {name:?} seed {seed} event {index} before {site}: {what}"));
    }
}

/// The run before the power failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A recovery from an earlier one.
    Recovery,
    /// A recovery after one that was itself cut off.
    SecondRecovery,
    /// A recovery in a new process after the first one was killed.
    Killed,
}

impl Stage {
    fn label(self) -> &'static str {
        match self {
            Stage::Recovery => "recovery",
            Stage::SecondRecovery => "second_recovery",
            Stage::Killed => "killed",
        }
    }

    /// Seeded choices at each of the recovery's crash points.
    fn choices(self) -> usize {
        match self {
            Stage::Recovery => 4,
            Stage::SecondRecovery => 1,
            Stage::Killed => 6,
        }
    }
}

/// Of the images that an interrupted recovery leaves, the recovery of one in this many is
/// interrupted too.
const SECOND_ONE_IN: u64 = 400;

/// Cuts a recovery off at each of its own crash points.
fn check_recovery<S: Subject>(start: Start, stage: Stage, run: &Run<S>, oracle: &S::Oracle, tally: &mut Tally) {
    let scenario = run.scenario;
    // The check of the image itself reports a recovery that fails.
    let Ok(recovery) = run.recovery(start, oracle) else { return };
    let (mut seen, mut marks, mut second) = (Seen::default(), 0, None);
    let mut random = Random::new(run.seed ^ tally.images);
    let mut oracle = recovery.prior.clone();
    recovery.trace.replay(&ReplayOptions { muted: None, salt: 0 }, |point| {
        point.marks()[marks..].iter().for_each(|mark| recovery.follow(&mut oracle, mark));
        marks = point.marks().len();
        point.for_each_image(&mut random, &mut seen, stage.choices(), |image| {
            tally.images += 1;
            *tally.hazards.entry((scenario.group(), stage.label())).or_default() += 1;
            if stage != Stage::SecondRecovery && tally.images.is_multiple_of(SECOND_ONE_IN) {
                second = Some((image.clone(), oracle.clone()));
            }
            if let Err(what) = verdict::check(image, scenario, &oracle, &run.history, tally.images) {
                let (name, seed, stage) = (scenario.name(), run.seed, stage.label());
                let at = point.index;
                tally
                    .violations
                    .push(format!("scenario {name:?} seed {seed}, {stage} cut off at its event {at}: {what}"));
            }
        });
        if tally.violations.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    if let Some((image, oracle)) = second {
        check_recovery(Start::Image(image), Stage::SecondRecovery, run, &oracle, tally);
    }
}
