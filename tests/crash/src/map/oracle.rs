//! Content that a map must have after a crash: one of the states from the newest durable one to the
//! newest begun one.

use super::model::{Difference, Stamps, State};
use crate::subject;
use perdura_map::Ts;
use perdura_pmem::sync::Mutex;
use perdura_pmem::trace;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Meaning of a mark for a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The call of this number, which leads to the state, begins.
    Begun(usize),
    /// The state after the call of this number, or a newer one, survives any crash from now on.
    Durable(usize),
    /// The map has called everything up to this timestamp persisted.
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

/// Marks that the map has called everything up to a timestamp persisted. For runs in which each
/// change has its own timestamp and none is rolled back.
pub fn note_observed(persisted: Ts) {
    trace::mark(Step::Observed(persisted).mark());
}

/// Record of a run.
///
/// The writer records the state that each call leads to and marks in the trace where the call
/// begins. Whoever knows that a persist covers a state marks that too. Whose call came first
/// among several writers is known only after the run: their marks number the calls, and [`Past`]
/// says which state each led to.
#[derive(Default)]
pub struct Past {
    /// The states in order. State 0, before the map exists, has no content.
    pub states: Vec<State>,
    /// The state that each call of several writers led to; `None` if calls and states have the same
    /// numbers.
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

/// The states of a run, by number. State 0, before the map exists, has no content.
#[derive(Default)]
pub struct History {
    states: Mutex<Vec<State>>,
    reached: AtomicUsize,
    durable: AtomicUsize,
}

impl History {
    /// A history that begins before the map exists.
    pub fn new() -> History {
        let history = History::default();
        history.states.lock().push(State::default());
        history
    }

    /// Records the state that a call will lead to, if it is known, and marks the start of the call.
    /// Returns the state's number.
    pub fn begin(&self, state: State) -> usize {
        let number = {
            let mut states = self.states.lock();
            states.push(state);
            states.len() - 1
        };
        note_begun(number);
        number
    }

    /// The call has returned and the map has these timestamps. Returns the state.
    pub fn reach(&self, number: usize, stamps: Stamps) -> State {
        let mut states = self.states.lock();
        states[number].stamps = stamps;
        self.reached.store(number, Ordering::Relaxed);
        // A timestamp forgotten by now may have been so only after this state was persisted.
        State { held: stamps.forgotten, ..states[number].clone() }
    }

    /// The call has failed without a change.
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

    /// The states that a map may have had between two moments, given by state numbers.
    pub fn between(&self, reached: usize, begun: usize) -> Vec<State> {
        self.states.lock()[reached..=begun].to_vec()
    }

    /// Acknowledges a durable state. This thread has nothing left to fence.
    pub fn acknowledge(&self, number: usize) {
        self.durable.fetch_max(number, Ordering::Relaxed);
        trace::ack(Step::Durable(number).mark());
    }

    /// Acknowledges a state that must be durable since its batch is full. This thread may have
    /// begun the next batch.
    pub fn note_durable(&self, number: usize) {
        self.durable.fetch_max(number, Ordering::Relaxed);
        trace::mark(Step::Durable(number).mark());
    }

    /// The states that a crash at this moment may leave.
    pub fn oracle(&self) -> Oracle {
        Oracle { durable: self.durable.load(Ordering::Relaxed), begun: self.states.lock().len() - 1 }
    }

    /// Ends the record.
    pub fn into_past(self) -> Past {
        Past { states: self.states.into_inner(), places: None }
    }

    /// The states so far.
    pub fn states(&self) -> Vec<State> {
        self.states.lock().clone()
    }
}

/// The range of states that may be found.
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
    /// Any state of a run but those before the map was made.
    pub fn of_all(past: &Past) -> Oracle {
        Oracle { durable: 1, begun: past.states.len() - 1 }
    }

    /// Whether the map may be missing.
    pub fn may_be_absent(&self) -> bool {
        self.durable == 0
    }

    /// The states that later recoveries may find once one has found what `compare` accepts: those
    /// like it. What it has shown, nobody may miss.
    pub fn settled(
        &self,
        history: &[State],
        compare: impl Fn(&State) -> Result<(), Difference>,
    ) -> Result<Oracle, String> {
        let begun = self.find(history, &compare)?;
        let alike = (self.durable.max(1)..=begun).find(|number| compare(&history[*number]).is_ok());
        Ok(Oracle { durable: alike.unwrap_or(begun), begun })
    }

    /// The number of the state that `compare` accepts. If it accepts none, how the most similar one
    /// differs.
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
