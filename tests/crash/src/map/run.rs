//! Runs a scenario: its writer and bystanders, or its rivals.

use super::bystander;
use super::model::Stamps;
use super::oracle::{History, Past};
use super::rivals;
use super::scenario::Scenario;
use super::workload::Writer;
use perdura_map::OrderedMap;
use perdura_pmem::Medium;
use perdura_pmem::sim::{Body, Scheduler};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A run with at most this many keys ends by deleting all of them.
const KEYS_EMPTIED_MAX: u64 = 24;

impl Scenario {
    /// Runs the scenario on an empty medium, its threads interleaved as the scheduler decides.
    pub fn run(&self, medium: &Arc<dyn Medium>, seed: u64, scheduler: Scheduler) -> Past {
        let history = History::new();
        let made = history.begin(history.state(0));
        let mut map = self.create(medium).expect("an empty medium takes a map");
        history.reach(made, Stamps::from(map.timestamps()));
        history.acknowledge(made);
        if self.mix.is_empty() {
            return rivals::run(&*map, self, history, seed, scheduler);
        }
        for round in 0..self.rounds {
            if round > 0 {
                drop(map);
                map = self.open(medium).expect("a map that was left opens");
                self.note_opened(&*map, &history);
            }
            self.run_round(&*map, &history, seed.wrapping_add(round << 32), scheduler);
        }
        let empties = seed.is_multiple_of(2) && self.keys <= KEYS_EMPTIED_MAX;
        Writer::new(&*map, &history, self, seed).finish(empties);
        history.into_past()
    }

    fn run_round(&self, map: &dyn OrderedMap, history: &History, seed: u64, scheduler: Scheduler) {
        let is_over = &AtomicBool::new(false);
        let write = move || {
            let mut writer = Writer::new(map, history, self, seed);
            (0..self.calls).for_each(|_| writer.act());
            is_over.store(true, Ordering::Relaxed);
        };
        let mut bodies: Vec<Body<'_>> = vec![Box::new(write)];
        let goes_on = move || !is_over.load(Ordering::Relaxed);
        for (place, bystander) in self.bystanders.iter().enumerate() {
            let seed = seed ^ (place as u64 + 1) << 16;
            bodies.push(Box::new(move || bystander::run(*bystander, map, history, &goes_on, seed)));
        }
        scheduler.run(bodies);
    }

    /// Checks that a map reopened without a last persist is in one of its possible states, and
    /// fixes that state.
    fn note_opened(&self, map: &dyn OrderedMap, history: &History) {
        let found = history.oracle().find(&history.states(), |state| state.compare(map, 2));
        let state = history.state(found.expect("an opened map is in a state it was in"));
        let stamps = state.stamps;
        let number = history.begin(state);
        history.reach(number, stamps);
        history.note_durable(number);
    }
}
