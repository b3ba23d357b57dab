//! What a map must hold after a crash: one of the states from the newest durable one to the newest begun one.
//!
//! The writer writes down the state each call leads to and marks in the trace where the call begins. Whoever knows that a
//! confirmation has covered a state marks that too.

use super::model::{Difference, Stamps, State};
use crate::subject;
use perdura_pmem::sync::Mutex;
use perdura_pmem::trace;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What happens to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The call that leads to it begins.
    Begun,
    /// It, or a newer one, survives any crash from now on.
    Durable,
}

impl Step {
    fn mark(self, number: usize) -> u64 {
        (number as u64) << 1 | u64::from(self == Step::Durable)
    }

    fn of_mark(payload: u64) -> (usize, Step) {
        ((payload >> 1) as usize, if payload & 1 == 1 { Step::Durable } else { Step::Begun })
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
        trace::mark(Step::Begun.mark(number));
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

    /// Acknowledges a state: it is durable, and this thread has nothing unfenced.
    pub fn acknowledge(&self, number: usize) {
        self.durable.fetch_max(number, Ordering::Relaxed);
        trace::ack(Step::Durable.mark(number));
    }

    /// A state is durable, by the promise of how many changes a batch has. This thread may have begun the next batch.
    pub fn note_durable(&self, number: usize) {
        self.durable.fetch_max(number, Ordering::Relaxed);
        trace::mark(Step::Durable.mark(number));
    }

    /// The model as it is now.
    pub fn oracle(&self) -> Oracle {
        Oracle { durable: self.durable.load(Ordering::Relaxed), begun: self.states.lock().len() - 1 }
    }

    /// The states.
    pub fn into_inner(self) -> Vec<State> {
        self.states.into_inner()
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

impl subject::Oracle<Vec<State>> for Oracle {
    fn mark(&mut self, payload: u64, _: &Vec<State>) {
        match Step::of_mark(payload) {
            (number, Step::Begun) => self.begun = self.begun.max(number),
            (number, Step::Durable) => self.durable = self.durable.max(number),
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
