//! Tests the explorer itself: each error of reasoning that is compiled in ([`mod@perdura_pmem::planted`]) must be noticed.
//!
//! An error is planted in the whole process. All workers look for it, in crash images and in runs without a crash; then the next one
//! is planted. An error whose line no run reaches counts as not noticed. So does a number that is in the sources but not in the
//! list, or in the list but not exactly once in the sources.

use crate::explore::{Depth, explore};
use crate::mutation::Verdict;
use crate::run::Run;
use crate::sources;
use crate::subject::{Drill, Planted, Stall, Subject};
use crate::verdict::guarded;
use crate::workers::on_all_workers;
use perdura_pmem::planted::{plant, reached};
use perdura_pmem::sim::Random;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

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

    /// What is wrong, if anything shows. `place` is that of the planted line. By their seeds the runs take turns: recoveries cut off,
    /// many images, the same with threads stalled at the planted line, and killed processes.
    fn look(&self, place: Stall) -> Option<String> {
        let (scenario, seed) = match *self {
            Attempt::Drill(drill, seed) => return run_drill(drill, seed, place.filter(|_| seed % 2 == 0)).err(),
            Attempt::Crash(scenario, seed) => (scenario, seed),
        };
        let turn = seed % 4;
        let record = || match place.filter(|_| turn == 2) {
            Some((file, line)) => Run::record_stalled(scenario, seed, file, line),
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
        };
        explore(&run, &depth).violations.pop()
    }
}

/// Runs a drill. An error names its seed.
pub fn run_drill(drill: &Drill, seed: u64, stall: Stall) -> Result<(), String> {
    guarded(|| (drill.run)(seed, stall)).map_err(|what| format!("drill {:?} seed {seed}: {what}", drill.name))
}

/// Plants an error and looks for it with all workers. Returns what shows it, or why it counts as not noticed.
pub fn look_for<S: Subject>(planted: &Planted, seed: u64, root: &Path) -> Result<String, &'static str> {
    let places = sources::planted(&S::PRODUCT, root).unwrap_or_default();
    let here = places.into_iter().find(|(number, ..)| *number == planted.number);
    let place = here.map(|(_, file, line)| (&*file.leak(), line));
    let attempts = attempts::<S>(planted.shown_by, seed);
    let (next, found) = (AtomicU64::new(0), Mutex::new(None::<String>));
    plant(planted.number);
    on_all_workers(|| {
        while found.lock().expect("no worker panics with it").is_none() {
            let Some(attempt) = attempts.get(next.fetch_add(1, Ordering::Relaxed) as usize) else { return };
            if let Some(what) = attempt.look(place) {
                *found.lock().expect("no worker panics with it") = Some(what);
            }
        }
    });
    let was_reached = reached();
    plant(0);
    let found = found.into_inner().expect("no worker panics with it");
    found.ok_or(if was_reached { "not noticed" } else { "never reached" })
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

/// Plants each error of the product in turn and compares the list with the sources.
pub fn test<S: Subject>(seed: u64, root: &Path) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = S::planted()
        .iter()
        .map(|planted| {
            let Planted { number, rule, error, .. } = planted;
            let found = look_for::<S>(planted, seed, root);
            let why = found.as_ref().err().map_or(String::new(), |why| format!(" ({why})"));
            Verdict { site: format!("planted error {number}, {rule}: {error}{why}"), caught: found.is_ok() }
        })
        .collect();
    let wrong = match sources::planted(&S::PRODUCT, root) {
        Ok(places) => mismatches(S::planted(), &places),
        Err(error) => vec![format!("sources: {error}")],
    };
    verdicts.extend(wrong.into_iter().map(|site| Verdict { site, caught: false }));
    verdicts
}

/// Numbers on which the list and the sources disagree.
fn mismatches(list: &[Planted], places: &[(u32, String, u32)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, file, line) in
        places.iter().filter(|(number, ..)| list.iter().all(|planted| planted.number != *number))
    {
        wrong.push(format!("planted error {number} at {file}:{line} is not in the list"));
    }
    for (index, planted) in list.iter().enumerate() {
        let count = places.iter().filter(|(number, ..)| *number == planted.number).count();
        if count != 1 {
            wrong.push(format!("planted error {} stands in {count} places, must stand in one", planted.number));
        }
        if list[..index].iter().any(|before| before.number == planted.number) {
            wrong.push(format!("planted error {} is twice in the list", planted.number));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planted(number: u32) -> Planted {
        Planted { number, rule: "(I1)", error: "", shown_by: "" }
    }

    /// An error that is listed but not in the sources would never act; one that is in the sources but not listed would never be planted.
    #[test]
    fn list_and_sources_must_agree() {
        let at = |number: u32| (number, "a.rs".to_owned(), 1);
        assert!(mismatches(&[planted(1), planted(2)], &[at(2), at(1)]).is_empty());
        assert_eq!(mismatches(&[planted(1)], &[at(1), at(2)]).len(), 1, "not listed");
        assert_eq!(mismatches(&[planted(1), planted(2)], &[at(1)]).len(), 1, "nowhere");
        assert_eq!(mismatches(&[planted(1)], &[at(1), at(1)]).len(), 1, "in two places");
        assert_eq!(mismatches(&[planted(1), planted(1)], &[at(1)]).len(), 1, "listed twice");
    }
}
