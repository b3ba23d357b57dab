//! Holding a pool still while its files are copied.
//!
//! A *change* is a time in which a thread may store to the medium: from a statement's first write to its end, a commit,
//! a prepare, a rollback, DDL, a round of the background thread. While the pool is held there is none, so its files are
//! those of one moment, with everything stored in them: one of the images a crash may leave (I2), in whatever order a
//! backup copies them. A transaction between statements has no change, so an open transaction does not keep the pool
//! from being held; its next write waits.
//!
//! A thread that begins a change counts it, then looks whether the pool is held; the holder sets its mark, then looks
//! at the counts. Both sides are sequentially consistent, so one of them sees the other. Counts are spread by session:
//! a change costs no shared line.

use crate::error::{Error, ErrorKind, Result};
use perdura_pmem::sync::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SHARDS: usize = 64;
/// Counts the changes of no session; sessions are numbered from 1.
const NO_SESSION: u64 = 0;
/// How often the holder looks at the counts, and a waiting thread looks whether it was killed.
const POLL: Duration = Duration::from_millis(1);

#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// The gate that changes go through.
pub(crate) struct Hold {
    held: AtomicBool,
    changes: [Count; SHARDS],
    turns: Mutex<()>,
    released: Condvar,
}

/// A change, until it is dropped.
pub(crate) struct Change<'a>(&'a Hold);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0.leave(NO_SESSION);
    }
}

impl Default for Hold {
    fn default() -> Hold {
        Hold {
            held: AtomicBool::new(false),
            changes: std::array::from_fn(|_| Count::default()),
            turns: Mutex::new(()),
            released: Condvar::new(),
        }
    }
}

impl Hold {
    fn count(&self, session: u64) -> &AtomicU64 {
        &self.changes[session as usize % SHARDS].0
    }

    /// Begins a change of `session`, waiting while the pool is held; false if `given_up` said so before.
    #[inline]
    pub(crate) fn enter(&self, session: u64, given_up: impl Fn() -> bool) -> bool {
        loop {
            self.count(session).fetch_add(1, Ordering::SeqCst);
            if !self.held.load(Ordering::SeqCst) {
                return true;
            }
            self.leave(session);
            if !self.wait(&given_up) {
                return false;
            }
        }
    }

    #[cold]
    fn wait(&self, given_up: &dyn Fn() -> bool) -> bool {
        let mut turn = self.turns.lock();
        while self.held.load(Ordering::SeqCst) {
            if given_up() {
                return false;
            }
            self.released.wait_for(&mut turn, POLL);
        }
        true
    }

    /// Ends a change of `session`.
    #[inline]
    pub(crate) fn leave(&self, session: u64) {
        self.count(session).fetch_sub(1, Ordering::SeqCst);
    }

    /// A change that nobody can interrupt, of no session.
    pub(crate) fn change(&self) -> Change<'_> {
        self.enter(NO_SESSION, || false);
        Change(self)
    }

    /// Holds the pool, once all changes have ended; gives up after about `timeout`.
    pub(crate) fn hold(&self, timeout: Duration) -> Result<()> {
        let mut turn = self.turns.lock();
        if self.held.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Exists, "the pool is held already; one backup at a time"));
        }
        self.held.store(true, Ordering::SeqCst);
        let idle = |count: &Count| count.0.load(Ordering::SeqCst) == 0;
        // Seen at zero once, a count has no change from before.
        let mut waited_for = self.changes.iter().filter(|count| !idle(count)).collect::<Vec<_>>();
        let mut polls = timeout.as_millis();
        while !waited_for.is_empty() {
            if polls == 0 {
                self.held.store(false, Ordering::SeqCst);
                self.released.notify_all();
                let what = "statements that write are still running; the pool is not held: let them end and try again";
                return Err(Error::new(ErrorKind::LockWaitTimeout, what));
            }
            polls -= 1;
            // A release in between ends this wait as well.
            self.released.wait_for(&mut turn, POLL);
            if !self.held.load(Ordering::SeqCst) {
                return Err(Error::new(ErrorKind::Killed, "the pool was released while it was waited for"));
            }
            waited_for.retain(|count| !idle(count));
        }
        Ok(())
    }

    /// Lets changes go on; whether the pool was held.
    pub(crate) fn release(&self) -> bool {
        let _turn = self.turns.lock();
        let was_held = self.held.swap(false, Ordering::SeqCst);
        self.released.notify_all();
        was_held
    }

    /// Whether the pool is held.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst)
    }
}
