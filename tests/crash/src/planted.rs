//! Tests the explorer itself: each error of reasoning that is compiled in
//! ([`mod@perdura_pmem::planted`]) must be noticed.

use crate::explore::{Depth, explore};
use crate::mutation::{Cost, Verdict};
use crate::run::Run;
use crate::sources;
use crate::subject::{Drill, Planted, Stall, Subject};
use crate::verdict::guarded;
use crate::workers::on_all_workers;
use perdura_pmem::planted::Planting;
use perdura_pmem::sim::Random;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// Runs of the scenario or drill that is known to notice the error, before all others.
const HINTED: u64 = 250;
/// Runs of every other scenario and drill after that.
const ROUNDS: u64 = 8;
/// Images checked in one run.
const IMAGES_EACH: u64 = 2500;

/// One run in which an error may show.
enum Attempt<S: 'static> {
    Crash(&'static S, u64),
    Drill(&'static Drill, u64),
}

impl<S: Subject> Attempt<S> {
    fn name(&self) -> &'static str {
        match self {
            Attempt::Crash(scenario, _) => scenario.name(),
            Attempt::Drill(drill, _) => drill.name,
        }
    }

    /// Runs the attempt and returns its fault, if any shows. `place` is that of the planted line.
    /// By their seeds the runs take turns: recoveries cut off, many images, the same with threads
    /// stalled at the planted line, and killed processes.
    fn look(&self, place: Stall) -> Option<String> {
        let (scenario, seed) = match *self {
            Attempt::Drill(drill, seed) => return run_drill(drill, seed, place.filter(|_| seed % 2 == 0)).err(),
            Attempt::Crash(scenario, seed) => (scenario, seed),
        };
        let turn = seed % 4;
        let record = || match place.filter(|_| turn == 2) {
            // By turns at once, and only before the next fence: by then the thread has done what
            // the error does.
            Some((file, line)) => Run::record_stalled(scenario, seed, file, line, seed / 4 % 2 == 1),
            None => Run::record(scenario, seed),
        };
        let run = match guarded(|| Ok(record())) {
            Ok(run) => run,
            Err(what) => return Some(format!("scenario {:?} seed {seed}: {what}", self.name())),
        };
        let (choices, recovery_one_in, kill_one_in) = [(4, 60, 0), (12, 0, 0), (12, 0, 0), (0, 0, 12)][turn as usize];
        let check_step = if turn == 0 { 16 } else { 1 };
        // Half of the runs start later: the limit on images ends the others early.
        let from = Random::new(seed)
            .below(2 * run.trace.events().len() as u64)
            .saturating_sub(run.trace.events().len() as u64);
        let depth = Depth {
            choices,
            images_max: IMAGES_EACH,
            violations_max: 1,
            muted: None,
            recovery_one_in,
            kill_one_in,
            check_step,
            from: from as usize,
            until: usize::MAX,
        };
        explore(&run, &depth).violations.pop()
    }
}

/// Runs a drill. An error names its seed.
pub fn run_drill(drill: &Drill, seed: u64, stall: Stall) -> Result<(), String> {
    guarded(|| (drill.run)(seed, stall)).map_err(|what| format!("drill {:?} seed {seed}: {what}", drill.name))
}

/// The scenario or drill that showed an error, and the fault that it found.
struct Shown {
    name: &'static str,
    what: String,
}

/// The search for one error, which several workers may join.
///
/// A worker plants an error in its own threads and looks for it, in crash images and in runs
/// without a crash, while another worker looks for another one. An error whose line no run reaches
/// counts as not noticed. So does a number that is in the sources but not in the list, or in the
/// list but not exactly once in the sources.
struct Search<S: Subject> {
    planted: &'static Planted,
    place: Stall,
    attempts: Vec<Attempt<S>>,
    planting: Arc<Planting>,
    begun: AtomicBool,
    next: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    found: Option<Shown>,
    cost: Cost,
}

impl<S: Subject> Search<S> {
    fn new(planted: &'static Planted, seed: u64, places: &[Place]) -> Search<S> {
        let name = planted.name();
        let place = places.iter().find(|(mutant, ..)| *mutant == name);
        Search {
            planted,
            place: place.map(|(_, file, line)| (*file, *line)),
            attempts: attempts(planted.shown_by, seed),
            planting: Planting::new(planted.mutant),
            begun: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            state: Mutex::new(State::default()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no worker panics with it")
    }

    /// Plants the error in this worker and goes through the attempts that no other has taken, until
    /// it is found.
    fn run(&self) {
        let _in_force = self.planting.plant();
        while self.state().found.is_none() {
            let Some(attempt) = self.attempts.get(self.next.fetch_add(1, Ordering::Relaxed)) else { return };
            let begin = Instant::now();
            let found = attempt.look(self.place);
            let mut state = self.state();
            state.cost.add_attempt(begin);
            state.found = state.found.take().or(found.map(|what| Shown { name: attempt.name(), what }));
        }
    }

    /// The proof of the error, or why it counts as not noticed.
    fn result(&self) -> Result<Shown, &'static str> {
        let found = self.state().found.take();
        found.ok_or(if self.planting.was_reached() { "not noticed" } else { "never reached" })
    }

    fn verdict(&self) -> Verdict {
        let Planted { mutant, rule, error, shown_by } = self.planted;
        let cost = self.state().cost;
        let (caught, note, shown) = match self.result() {
            Ok(shown) if shown.name == *shown_by => (true, String::new(), format!(" (in {:?})", shown.name)),
            Ok(shown) => (true, String::new(), format!(" (in {:?}, not in {shown_by:?})", shown.name)),
            Err(why) => (false, format!(" ({why})"), String::new()),
        };
        Verdict { site: format!("{mutant:?}, {rule}: {error}{note}"), caught, cost, shown }
    }
}

/// Looks for each error, several at once; a worker without a new one joins the search for another.
fn look_for_all<S: Subject>(searches: &[Search<S>]) {
    on_all_workers(|| {
        searches.iter().filter(|search| !search.begun.swap(true, Ordering::Relaxed)).for_each(Search::run);
        searches.iter().for_each(Search::run);
    });
}

/// Looks for one error. Returns what shows it at which cost, or why it counts as not noticed.
pub fn look_for<S: Subject>(planted: &'static Planted, seed: u64, root: &Path) -> Result<String, &'static str> {
    let search = Search::<S>::new(planted, seed, &places::<S>(root));
    look_for_all(std::slice::from_ref(&search));
    let Cost { time, attempts } = search.state().cost;
    let Shown { name, what } = search.result()?;
    let hint = if name == planted.shown_by { "" } else { ", which is not the hint" };
    Ok(format!("in {attempts} runs, {:.1} s, by {name:?}{hint}: {what}", time.as_secs_f64()))
}

/// The name of a planted error, and its file and line.
type Place = (String, &'static str, u32);

/// The lines of the planted errors.
fn places<S: Subject>(root: &Path) -> Vec<Place> {
    let places = sources::planted(&S::PRODUCT, root).unwrap_or_default();
    places.into_iter().map(|(mutant, file, line)| (mutant, &*file.leak(), line)).collect()
}

/// The runs to try, those of `shown_by` first.
fn attempts<S: Subject>(shown_by: &str, seed: u64) -> Vec<Attempt<S>> {
    let all = |seed: u64| {
        let crashes = S::scenarios().iter().map(move |scenario| Attempt::Crash(scenario, seed));
        crashes.chain(S::drills().iter().map(move |drill| Attempt::Drill(drill, seed)))
    };
    let hinted = (0..HINTED).flat_map(|turn| all(seed + turn).filter(|attempt| attempt.name() == shown_by));
    let others = (0..ROUNDS).flat_map(|turn| all(seed + turn).filter(|attempt| attempt.name() != shown_by));
    hinted.chain(others).collect()
}

/// Looks for each error of the product and compares the list with the sources.
pub fn test<S: Subject>(seed: u64, root: &Path) -> Vec<Verdict> {
    let places = places::<S>(root);
    let searches: Vec<_> = S::planted().iter().map(|planted| Search::<S>::new(planted, seed, &places)).collect();
    look_for_all(&searches);
    let mut verdicts: Vec<Verdict> = searches.iter().map(Search::verdict).collect();
    let wrong = match sources::planted(&S::PRODUCT, root) {
        Ok(places) => mismatches(S::planted(), &places),
        Err(error) => vec![format!("sources: {error}")],
    };
    verdicts.extend(wrong.into_iter().map(Verdict::missed));
    verdicts
}

/// Names on which the list and the sources disagree.
fn mismatches(list: &[Planted], places: &[(String, String, u32)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (mutant, file, line) in
        places.iter().filter(|(mutant, ..)| list.iter().all(|planted| planted.name() != *mutant))
    {
        wrong.push(format!("planted error {mutant} at {file}:{line} is not in the list"));
    }
    for (index, planted) in list.iter().enumerate() {
        let name = planted.name();
        let count = places.iter().filter(|(mutant, ..)| *mutant == name).count();
        if count != 1 {
            wrong.push(format!("planted error {name} stands in {count} places, must stand in one"));
        }
        if list[..index].iter().any(|before| before.mutant == planted.mutant) {
            wrong.push(format!("planted error {name} is twice in the list"));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use perdura_pmem::Mutant;

    const FIRST: Mutant = Mutant::AckBeforeVisible;
    const SECOND: Mutant = Mutant::LostUpdate;

    const fn planted(mutant: Mutant) -> Planted {
        Planted { mutant, rule: "(I1)", error: "", shown_by: "" }
    }

    /// A search has a verdict with what showed the error, and without.
    #[test]
    fn a_search_has_a_verdict() {
        static NOWHERE: Planted = planted(FIRST);
        let search = Search::<crate::map::Scenario>::new(&NOWHERE, 1, &[]);
        let verdict = search.verdict();
        assert!(!verdict.caught && verdict.site.ends_with("(never reached)"), "{}", verdict.site);
        search.state().found = Some(Shown { name: "list mixed", what: String::new() });
        let verdict = search.verdict();
        assert!(verdict.caught && verdict.shown.starts_with(" (in \"list mixed\""), "{}", verdict.shown);
    }

    /// An error that is listed but not in the sources would never act; one that is in the sources
    /// but not listed would never be planted.
    #[test]
    fn list_and_sources_must_agree() {
        let at = |mutant: Mutant| (format!("{mutant:?}"), "a.rs".to_owned(), 1);
        assert!(mismatches(&[planted(FIRST), planted(SECOND)], &[at(SECOND), at(FIRST)]).is_empty());
        assert_eq!(mismatches(&[planted(FIRST)], &[at(FIRST), at(SECOND)]).len(), 1, "not listed");
        assert_eq!(mismatches(&[planted(FIRST), planted(SECOND)], &[at(FIRST)]).len(), 1, "nowhere");
        assert_eq!(mismatches(&[planted(FIRST)], &[at(FIRST), at(FIRST)]).len(), 1, "in two places");
        assert_eq!(mismatches(&[planted(FIRST), planted(FIRST)], &[at(FIRST)]).len(), 1, "listed twice");
    }
}
