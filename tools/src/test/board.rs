//! Which steps wait, and which have ended. Lanes take from it what they run; a step begins once
//! those before it have passed.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// A step as the board sees it.
pub trait Ordered {
    /// Its name, which no other step has.
    fn name(&self) -> &'static str;

    /// Names of the steps that must have passed before, as far as they are on the board at all.
    fn after(&self) -> &'static [&'static str];
}

/// Outcome of a step.
pub struct Done {
    /// Its name.
    pub name: &'static str,
    /// How long it ran.
    pub took: Duration,
    /// Whether all went well.
    pub passed: bool,
    /// Why it failed, in its own words.
    pub complaints: Vec<String>,
}

struct State<'s, S> {
    waiting: Vec<&'s S>,
    /// Names of those that were taken and have not ended.
    running: Vec<&'static str>,
    done: Vec<Done>,
}

impl<S: Ordered> State<'_, S> {
    /// Whether all steps before this one have passed; an error names one that has failed.
    fn is_due(&self, step: &S) -> Result<bool, &'static str> {
        let before = step.after();
        let passed = |name: &str| self.done.iter().find(|done| done.name == name).map(|done| done.passed);
        if let Some(failed) = before.iter().copied().find(|name| passed(name) == Some(false)) {
            return Err(failed);
        }
        let is_open =
            |name: &&'static str| self.running.contains(name) || self.waiting.iter().any(|step| step.name() == *name);
        Ok(!before.iter().any(is_open))
    }
}

/// The steps of a test.
pub struct Board<'s, S> {
    state: Mutex<State<'s, S>>,
    changed: Condvar,
}

impl<'s, S: Ordered> Board<'s, S> {
    /// All steps wait, and are taken in this order as far as those before them allow.
    pub fn new(steps: Vec<&'s S>) -> Self {
        Self {
            state: Mutex::new(State { waiting: steps, running: Vec::new(), done: Vec::new() }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<'s, S>> {
        self.state.lock().expect("no lane panics with it")
    }

    /// Takes the first of the steps that suit a lane and are due, and waits until there is one;
    /// `None` once there will be none. A step has failed if one before it has.
    pub fn take(&self, suits: impl Fn(&S) -> bool) -> Option<&'s S> {
        let mut state = self.state();
        loop {
            state.waiting.iter().find(|step| suits(step))?;
            let due = |step: &&S| suits(step) && state.is_due(step) != Ok(false);
            let Some(next) = state.waiting.iter().position(due) else {
                state = self.changed.wait(state).expect("no lane panics with it");
                continue;
            };
            let step = state.waiting.remove(next);
            match state.is_due(step) {
                Ok(_) => {
                    state.running.push(step.name());
                    return Some(step);
                }
                Err(failed) => {
                    let complaints = vec![format!("not run, since {failed} has failed")];
                    state.done.push(Done { name: step.name(), took: Duration::ZERO, passed: false, complaints });
                    self.changed.notify_all();
                }
            }
        }
    }

    /// Notes that a step has ended.
    pub fn end(&self, done: Done) {
        let mut state = self.state();
        state.running.retain(|name| *name != done.name);
        state.done.push(done);
        self.changed.notify_all();
    }

    /// The outcomes, in the order in which the steps ended.
    pub fn into_done(self) -> Vec<Done> {
        self.state.into_inner().expect("no lane panics with it").done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Step(&'static str, &'static [&'static str]);

    impl Ordered for Step {
        fn name(&self) -> &'static str {
            self.0
        }

        fn after(&self) -> &'static [&'static str] {
            self.1
        }
    }

    fn end(board: &Board<'_, Step>, name: &'static str, passed: bool) {
        board.end(Done { name, took: Duration::ZERO, passed, complaints: Vec::new() });
    }

    const STEPS: [Step; 4] =
        [Step("late", &["one", "two", "not here"]), Step("one", &[]), Step("two", &[]), Step("last", &["late"])];

    /// A step that began before its build was ready would test the program of yesterday.
    #[test]
    fn a_step_begins_once_those_before_it_have_passed() {
        let board = Board::new(STEPS.iter().collect());
        let take = || board.take(|_| true).map(|step| step.0);
        assert_eq!((take(), take()), (Some("one"), Some("two")));
        end(&board, "two", true);
        std::thread::scope(|scope| {
            let waits = scope.spawn(take);
            std::thread::sleep(Duration::from_millis(10));
            assert!(!waits.is_finished());
            end(&board, "one", true);
            assert_eq!(waits.join().expect("it takes one"), Some("late"));
        });
        end(&board, "late", true);
        assert_eq!((take(), take()), (Some("last"), None));
    }

    /// A test whose build failed must not count as passed, and the others go on.
    #[test]
    fn what_comes_after_a_step_that_failed_has_failed() {
        let board = Board::new(STEPS.iter().collect());
        let take = || board.take(|_| true).map(|step| step.0);
        assert_eq!(take(), Some("one"));
        end(&board, "one", false);
        assert_eq!(take(), Some("two"));
        assert_eq!(take(), None);
        end(&board, "two", true);
        let failed: Vec<_> = board.into_done().into_iter().filter(|done| !done.passed).map(|done| done.name).collect();
        assert_eq!(failed, ["one", "late", "last"]);
    }

    /// A lane for other steps takes nothing, and does not wait for it either.
    #[test]
    fn a_lane_takes_only_what_suits_it() {
        let board = Board::new(STEPS.iter().collect());
        assert_eq!(board.take(|step| step.0 == "two").map(|step| step.0), Some("two"));
        assert!(board.take(|step| step.0 == "two").is_none());
    }
}
