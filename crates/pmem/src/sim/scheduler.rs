//! Runs several threads one at a time, in an interleaving that a seed decides.

use crate::split_mix::SplitMix64 as Random;
use crate::sync::{Agent, register};
use crate::trace;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Simulated time of a step.
const STEP: Duration = Duration::from_micros(10);
/// Steps for which a stalled thread stands still, unless all others wait.
const STALL_STEPS: u64 = 600;
/// Steps after which a run counts as hung.
const STEPS_MAX: u64 = 1 << 30;

/// Work of a simulated thread.
pub type Body<'env> = Box<dyn FnOnce() + Send + 'env>;

/// Runs threads as a seed decides.
///
/// Each closure has an OS thread, but only the one that holds the token runs. At every recorded
/// event, lock and wait ([`crate::sync`]) the token may pass on. A waiting thread looks again only
/// after another one has run. Time is simulated: a step is 10 us, and when all threads wait, it
/// leaps to the first timeout; without any, the threads are deadlocked and the run fails.
///
/// Invariant: `running` names the only thread outside this module's waits, until the run fails;
/// then all threads are unwound, at once and no longer one at a time.
#[derive(Clone, Copy, Debug)]
pub struct Scheduler {
    seed: u64,
    switch_one_in: u64,
    pause_one_in: u64,
    stall_after: Option<(&'static str, u32)>,
    /// The stall begins before the thread's next fence elsewhere, not at once.
    until_fence: bool,
}

/// Cost of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Events, locks and waits passed.
    pub steps: u64,
    /// Times the token passed to another thread.
    pub switches: u64,
}

/// Why a run failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Seed of the scheduler.
    pub seed: u64,
    /// Thread that panicked, by its place in the list given; `None` if all were deadlocked.
    pub thread: Option<usize>,
    /// Message of the panic, or what all threads waited for.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.thread {
            Some(thread) => write!(f, "simulated thread {thread} panicked: {}", self.message)?,
            None => f.write_str(&self.message)?,
        }
        write!(f, " (scheduler seed {})", self.seed)
    }
}

impl std::error::Error for Failure {}

#[derive(Clone, Copy, Debug)]
enum Status {
    Ready,
    /// Looked in vain when `progress` was `seen`; gives up at step `deadline`.
    Waiting {
        seen: u64,
        deadline: Option<u64>,
    },
    /// Stalled until step `until`.
    Stalled {
        until: u64,
    },
    Done,
}

struct State {
    random: Random,
    running: Option<usize>,
    threads: Vec<Status>,
    now: u64,
    /// Counts spans in which a thread did more than look.
    progress: u64,
    switches: u64,
    failure: Option<Failure>,
}

struct Shared {
    seed: u64,
    switch_one_in: u64,
    pause_one_in: u64,
    stall_after: Option<(&'static str, u32)>,
    until_fence: bool,
    state: Mutex<State>,
    seats: Vec<Condvar>,
}

/// Payload with which the threads of a failed run are unwound.
struct TornDown;

impl Scheduler {
    /// A scheduler that passes the token at one event in eight.
    pub fn new(seed: u64) -> Scheduler {
        Scheduler { seed, switch_one_in: 8, pause_one_in: 0, stall_after: None, until_fence: false }
    }

    /// The same scheduler, passing the token at one event in `n` (at least 1).
    pub fn switch_one_in(self, n: u64) -> Scheduler {
        Scheduler { switch_one_in: n.max(1), ..self }
    }

    /// The same scheduler, which at one event in `n` stalls the thread for a long time while the
    /// others go on.
    pub fn pause_one_in(self, n: u64) -> Scheduler {
        Scheduler { pause_one_in: n, ..self }
    }

    /// The same scheduler, which stalls the thread for a long time after each event from this line
    /// of a source file, so that others get to rely on whatever they wrongly may before the
    /// thread's next fence.
    pub fn stall_after(self, file: &'static str, line: u32) -> Scheduler {
        Scheduler { stall_after: Some((file, line)), ..self }
    }

    /// The same scheduler, which stalls the thread only before its next fence elsewhere: by then it
    /// has let go of locks that it held at that line.
    pub fn until_fence(self) -> Scheduler {
        Scheduler { until_fence: true, ..self }
    }

    /// Runs all closures to their end. Panics with the seed if one panics or all are deadlocked.
    pub fn run(&self, bodies: Vec<Body<'_>>) -> Outcome {
        self.try_run(bodies).unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// As [`Scheduler::run`], with the failure as a value. The threads report to the caller's tap,
    /// if it has one.
    pub fn try_run(&self, bodies: Vec<Body<'_>>) -> Result<Outcome, Failure> {
        let count = bodies.len();
        let state = State {
            random: Random::new(self.seed),
            running: None,
            threads: vec![Status::Ready; count],
            now: 0,
            progress: 0,
            switches: 0,
            failure: None,
        };
        let shared = Arc::new(Shared {
            seed: self.seed,
            switch_one_in: self.switch_one_in,
            pause_one_in: self.pause_one_in,
            stall_after: self.stall_after,
            until_fence: self.until_fence,
            state: Mutex::new(state),
            seats: (0..count).map(|_| Condvar::new()).collect(),
        });
        let tap = trace::current();
        {
            let mut state = shared.state.lock();
            state.running = state.pick();
        }
        std::thread::scope(|scope| {
            for (index, body) in bodies.into_iter().enumerate() {
                let seat = Arc::new(Seat {
                    shared: shared.clone(),
                    index,
                    stalls: AtomicBool::new(false),
                    stalls_at_fence: AtomicBool::new(false),
                });
                let tap = tap.clone();
                let body = crate::planted::inherited(body);
                let builder = std::thread::Builder::new().name(format!("simulated-{index}"));
                let spawned = builder.spawn_scoped(scope, move || seat.occupy(tap, body));
                spawned.expect("the system starts a thread");
            }
        });
        let mut state = shared.state.lock();
        match state.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(Outcome { steps: state.now, switches: state.switches }),
        }
    }
}

impl State {
    /// A thread that can go on, leaping to the first timeout if none can now; `None` if no time
    /// will help.
    fn pick(&mut self) -> Option<usize> {
        let able = |status: &Status| match status {
            Status::Ready => true,
            Status::Waiting { seen, deadline } => *seen != self.progress || deadline.is_some_and(|at| at <= self.now),
            Status::Stalled { until } => *until <= self.now,
            Status::Done => false,
        };
        let count = self.threads.iter().filter(|status| able(status)).count() as u64;
        if count > 0 {
            let chosen = self.random.below(count) as usize;
            let place = self.threads.iter().enumerate().filter(|(_, status)| able(status)).nth(chosen);
            return place.map(|(index, _)| index);
        }
        let deadline = |(index, status): (usize, &Status)| match status {
            Status::Waiting { deadline: Some(at), .. } | Status::Stalled { until: at } => Some((*at, index)),
            _ => None,
        };
        let (at, index) = self.threads.iter().enumerate().filter_map(deadline).min()?;
        self.now = at;
        Some(index)
    }

    fn is_over(&self) -> bool {
        self.threads.iter().all(|status| matches!(status, Status::Done))
    }
}

impl Shared {
    fn fail(&self, state: &mut State, thread: Option<usize>, message: String) {
        state.failure.get_or_insert(Failure { seed: self.seed, thread, message });
        for seat in &self.seats {
            seat.notify_all();
        }
    }

    /// Hands the token to whoever can go on. `false` if nobody can and so the run has failed.
    fn pass(&self, state: &mut State) -> bool {
        match state.pick() {
            Some(next) => {
                if state.running != Some(next) {
                    state.switches += 1;
                    state.running = Some(next);
                    self.seats[next].notify_one();
                }
                true
            }
            None => {
                let message = format!("all threads wait for ever: {:?}", state.threads);
                self.fail(state, None, message);
                false
            }
        }
    }
}

/// One simulated thread.
struct Seat {
    shared: Arc<Shared>,
    index: usize,
    /// The thread stalls at its next step.
    stalls: AtomicBool,
    /// The thread stalls before its next fence.
    stalls_at_fence: AtomicBool,
}

impl Seat {
    fn occupy(self: Arc<Seat>, tap: Option<Arc<dyn trace::Tap>>, body: Body<'_>) {
        let result = catch_unwind(AssertUnwindSafe(|| {
            let _registered = register(self.clone());
            let _attached = tap.map(trace::attach);
            let state = self.shared.state.lock();
            self.await_token(state);
            body();
        }));
        let mut state = self.shared.state.lock();
        state.threads[self.index] = Status::Done;
        state.progress += 1;
        match result {
            Ok(()) if state.failure.is_none() && !state.is_over() => {
                self.shared.pass(&mut state);
            }
            Ok(()) => {}
            Err(payload) if payload.is::<TornDown>() => {}
            Err(payload) => self.shared.fail(&mut state, Some(self.index), message_of(&*payload)),
        }
    }

    fn is_stall_site(&self, site: &Location<'_>) -> bool {
        self.shared.stall_after.is_some_and(|(file, line)| line == site.line() && file == site.file())
    }

    /// Sleeps until the token is this thread's.
    fn await_token(&self, mut state: MutexGuard<'_, State>) {
        while state.running != Some(self.index) && state.failure.is_none() {
            self.shared.seats[self.index].wait(&mut state);
        }
        drop(self.go_on(state));
    }

    /// Unwinds if the run has failed; what is being unwound already goes on unscheduled.
    fn go_on<'a>(&self, state: MutexGuard<'a, State>) -> Option<MutexGuard<'a, State>> {
        if state.failure.is_none() {
            return Some(state);
        }
        drop(state);
        if std::thread::panicking() {
            return None;
        }
        resume_unwind(Box::new(TornDown));
    }

    /// The state, one step later; `None` during the teardown of a failed run.
    fn count_step(&self) -> Option<MutexGuard<'_, State>> {
        let mut state = self.go_on(self.shared.state.lock())?;
        state.now += 1;
        if state.now > STEPS_MAX {
            self.shared.fail(&mut state, Some(self.index), "the run does not end".to_owned());
            return self.go_on(state);
        }
        Some(state)
    }
}

impl Agent for Seat {
    fn step(&self, yielding: bool) {
        let Some(mut state) = self.count_step() else { return };
        let pauses = self.shared.pause_one_in > 0 && state.random.one_in(self.shared.pause_one_in);
        if self.stalls.swap(false, Ordering::Relaxed) || pauses {
            state.threads[self.index] = Status::Stalled { until: state.now + STALL_STEPS };
            state.progress += 1;
            self.shared.pass(&mut state);
            self.await_token(state);
            self.shared.state.lock().threads[self.index] = Status::Ready;
            return;
        }
        if !yielding && !state.random.one_in(self.shared.switch_one_in) {
            return;
        }
        state.progress += 1;
        self.shared.pass(&mut state);
        self.await_token(state);
    }

    fn reached(&self, site: &'static Location<'static>) {
        if self.is_stall_site(site) {
            let stalls = if self.shared.until_fence { &self.stalls_at_fence } else { &self.stalls };
            stalls.store(true, Ordering::Relaxed);
        }
    }

    fn fencing(&self, site: &'static Location<'static>) {
        if !self.is_stall_site(site) && self.stalls_at_fence.swap(false, Ordering::Relaxed) {
            self.stalls.store(true, Ordering::Relaxed);
        }
    }

    fn wait(&self, timeout: Option<Duration>, ready: &mut dyn FnMut() -> bool) -> bool {
        let Some(mut state) = self.count_step() else { return ready() };
        let steps = |timeout: Duration| u64::try_from(timeout.as_nanos() / STEP.as_nanos()).unwrap_or(u64::MAX);
        let deadline = timeout.map(|timeout| state.now.saturating_add(steps(timeout).max(1)));
        state.progress += 1;
        loop {
            drop(state);
            let is_ready = ready();
            let Some(locked) = self.go_on(self.shared.state.lock()) else { return is_ready };
            state = locked;
            if is_ready || deadline.is_some_and(|at| at <= state.now) {
                state.threads[self.index] = Status::Ready;
                return is_ready;
            }
            state.threads[self.index] = Status::Waiting { seen: state.progress, deadline };
            if self.shared.pass(&mut state) {
                self.await_token(state);
                state = self.shared.state.lock();
            }
        }
    }
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
