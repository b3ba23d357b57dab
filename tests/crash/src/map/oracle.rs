//! What a map must hold after a crash: one of the states from the newest durable one to the newest begun one.
//!
//! The writer writes down the state each call leads to and marks in the trace where the call begins. Whoever knows that a
//! confirmation has covered a state marks that too. Of several writers it is known only afterwards whose call came first:
//! their marks number the calls, and [`Past`] says which state each has led to.

use super::model::{Difference, Stamps, State};
use crate::subject;
use perdura_map::Ts;
use perdura_pmem::sync::Mutex;
use perdura_pmem::trace;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is told of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The call of that number, which leads to it, begins.
    Begun(usize),
    /// The one that the call of that number has led to, or a newer one, survives any crash from now on.
    Durable(usize),
    /// Somebody was told that all up to this timestamp is confirmed.
    Observed(Ts),
}

impl Step {
    fn mark(self) -> u64 {
        match self {
            Step::Begun(number) => (number as u64) << 2,
            Step::Durable(number) => (number as u64) << 2 | 1,
            Step::Observed(ts) => ts << 2 | 2,
        }
    }

    fn of_mark(payload: u64) -> Step {
        match payload & 3 {
            0 => Step::Begun((payload >> 2) as usize),
            1 => Step::Durable((payload >> 2) as usize),
            _ => Step::Observed(payload >> 2),
        }
    }
}

/// Marks that a call begins.
pub fn note_begun(number: usize) {
    trace::mark(Step::Begun(number).mark());
}

/// Marks that the map has called everything up to a timestamp confirmed. For runs in which each change has a timestamp of its
/// own and none is taken back.
pub fn note_observed(confirmed: Ts) {
    trace::mark(Step::Observed(confirmed).mark());
}

/// What a run has written down.
#[derive(Default)]
pub struct Past {
    /// The states, in order; that before the map is made, 0, has no content.
    pub states: Vec<State>,
    /// Of the calls of several writers, the state each has led to; without it calls are numbered as their states are.
    pub places: Option<Vec<usize>>,
}

impl Past {
    fn place(&self, number: usize) -> usize {
        self.places.as_ref().map_or(number, |places| places[number])
    }

    /// The newest state without changes after `ts`.
    fn up_to(&self, ts: Ts) -> usize {
        self.states.partition_point(|state| state.stamps.last <= ts).saturating_sub(1)
    }
}

/// The states of a run, numbered; that before the map is made, 0, has no content.
#[derive(Default)]
pub struct History {
    states: Mutex<Vec<State>>,
    reached: AtomicUsize,
    durable: AtomicUsize,
}

impl History {
    /// A history in which there is no map yet.
    pub fn new() -> History {
        let history = History::default();
        history.states.lock().push(State::default());
        history
    }

    /// Writes down the state a call will lead to, as far as it is known, and marks the call's begin. Returns its number.
    pub fn begin(&self, state: State) -> usize {
        let number = {
            let mut states = self.states.lock();
            states.push(state);
            states.len() - 1
        };
        note_begun(number);
        number
    }

    /// The call has returned, and the map stands there now. Returns the state.
    pub fn reach(&self, number: usize, stamps: Stamps) -> State {
        let mut states = self.states.lock();
        states[number].stamps = stamps;
        self.reached.store(number, Ordering::Relaxed);
        states[number].clone()
    }

    /// The call has failed, and changed nothing.
    pub fn withdraw(&self, number: usize, before: &State) {
        self.states.lock()[number] = before.clone();
        self.reached.store(number, Ordering::Relaxed);
    }

    /// Number of the newest state reached.
    pub fn reached(&self) -> usize {
        self.reached.load(Ordering::Relaxed)
    }

    /// A state.
    pub fn state(&self, number: usize) -> State {
        self.states.lock()[number].clone()
    }

    /// Number of the newest state whose call has begun.
    pub fn begun(&self) -> usize {
        self.states.lock().len() - 1
    }

    /// The states that a map may have been in between two moments, told by their numbers.
    pub fn between(&self, reached: usize, begun: usize) -> Vec<State> {
        self.states.lock()[reached..=begun].to_vec()
    }

    /// Acknowledges a state: it is durable, and this thread has nothing unfenced.
    pub fn acknowledge(&self, number: usize) {
        self.durable.fetch_max(number, Ordering::Relaxed);
        trace::ack(Step::Durable(number).mark());
    }

    /// A state is durable, by the promise of how many changes a batch has. This thread may have begun the next batch.
    pub fn note_durable(&self, number: usize) {
        self.durable.fetch_max(number, Ordering::Relaxed);
        trace::mark(Step::Durable(number).mark());
    }

    /// The model as it is now.
    pub fn oracle(&self) -> Oracle {
        Oracle { durable: self.durable.load(Ordering::Relaxed), begun: self.states.lock().len() - 1 }
    }

    /// All that was written down.
    pub fn into_past(self) -> Past {
        Past { states: self.states.into_inner(), places: None }
    }

    /// The states so far.
    pub fn states(&self) -> Vec<State> {
        self.states.lock().clone()
    }
}

/// The numbers of the states that may be found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oracle {
    durable: usize,
    begun: usize,
}

impl subject::Oracle<Past> for Oracle {
    fn mark(&mut self, payload: u64, past: &Past) {
        match Step::of_mark(payload) {
            Step::Begun(number) => self.begun = self.begun.max(past.place(number)),
            Step::Durable(number) => self.durable = self.durable.max(past.place(number)),
            Step::Observed(ts) => self.durable = self.durable.max(past.up_to(ts)),
        }
    }
}

impl Oracle {
    /// Whether there may be no map yet.
    pub fn may_be_absent(&self) -> bool {
        self.durable == 0
    }

    /// The number of the state that `compare` agrees with; if none, what the most similar one differs in.
    pub fn find(&self, history: &[State], compare: impl Fn(&State) -> Result<(), Difference>) -> Result<usize, String> {
        let (mut similar, mut difference) = (0, Difference::Stamps("no map was made yet".into()));
        for number in (self.durable.max(1)..=self.begun).rev() {
            match compare(&history[number]) {
                Ok(()) => return Ok(number),
                Err(Difference::Stamps(_)) if matches!(difference, Difference::Content(_)) => {}
                Err(found) => (similar, difference) = (number, found),
            }
        }
        let Oracle { durable, begun } = self;
        Err(format!("none of the states {durable} (durable) to {begun} (begun); of {similar} it differs: {difference}"))
    }
}
