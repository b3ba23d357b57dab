//! Waiting for another thread's notification.
//!
//! Simulated waiters stand in a queue of their own, in order of arrival; a notification takes them
//! out of it, so that a lost wake-up is as lost in a simulation as elsewhere.

use super::agent::{Agent, agent};
use super::mutex::MutexGuard;
use std::collections::VecDeque;
use std::time::Duration;

/// A condition that threads wait for, with a [`super::Mutex`].
#[derive(Default)]
pub struct Condvar {
    inner: parking_lot::Condvar,
    simulated: parking_lot::Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<u64>,
    next: u64,
}

impl Condvar {
    /// A condition nobody waits for.
    pub const fn new() -> Condvar {
        Condvar {
            inner: parking_lot::Condvar::new(),
            simulated: parking_lot::Mutex::new(Queue { waiting: VecDeque::new(), next: 0 }),
        }
    }

    /// Releases the lock, waits for a notification and takes the lock again. May wake without one.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        match agent() {
            None => self.inner.wait(&mut guard.inner),
            Some(agent) => {
                self.wait_simulated(&*agent, guard, None);
            }
        }
    }

    /// As [`Condvar::wait`], for at most `timeout` (in a simulation: of simulated time). Whether it
    /// was woken.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        match agent() {
            None => !self.inner.wait_for(&mut guard.inner, timeout).timed_out(),
            Some(agent) => self.wait_simulated(&*agent, guard, Some(timeout)),
        }
    }

    #[cold]
    fn wait_simulated<T: ?Sized>(
        &self,
        agent: &dyn Agent,
        guard: &mut MutexGuard<'_, T>,
        timeout: Option<Duration>,
    ) -> bool {
        let ticket = {
            let mut queue = self.simulated.lock();
            queue.next += 1;
            let ticket = queue.next;
            queue.waiting.push_back(ticket);
            ticket
        };
        let lock = parking_lot::MutexGuard::mutex(&guard.inner);
        let woken = parking_lot::MutexGuard::unlocked(&mut guard.inner, || {
            let woken = agent.wait(timeout, &mut || !self.simulated.lock().waiting.contains(&ticket));
            // The lock is free when taken again below: only the thread with the token takes locks.
            agent.wait(None, &mut || !lock.is_locked());
            woken
        });
        self.simulated.lock().waiting.retain(|waiting| *waiting != ticket);
        woken
    }

    /// Wakes one waiter, if there is any.
    pub fn notify_one(&self) {
        if self.notify_simulated(1) == 0 {
            self.inner.notify_one();
        }
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.notify_simulated(usize::MAX);
        self.inner.notify_all();
    }

    fn notify_simulated(&self, most: usize) -> usize {
        if agent().is_none() {
            return 0;
        }
        let mut queue = self.simulated.lock();
        let count = most.min(queue.waiting.len());
        queue.waiting.drain(..count);
        count
    }
}
