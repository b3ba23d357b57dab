//! The gate that holds a pool still while its files are copied.
//!
//! A *change* is a time in which a thread may store to the medium: from a statement's first write to its end, a commit,
//! a prepare, a rollback, DDL, a round of the background thread. While the pool is held no change runs. Its files are
//! then those of one moment, one of the images that a crash may leave (I2), in whatever order a backup copies them. A
//! transaction between two statements is in no change, so an open transaction does not keep the pool from being held;
//! its next write waits.
//!
//! A thread that begins a change counts it, then looks whether the pool is held. The holder sets its mark, then looks
//! at the counts. Both sides are sequentially consistent, so one of them sees the other. The counts are spread by
//! session, so changes of different sessions share no cache line.

use crate::error::{Error, ErrorKind, Result};
use perdura_pmem::sync::{Condvar, Mutex, yield_now};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SHARDS: usize = 64;
/// Stands for changes without a session, such as the background thread's; sessions are numbered from 1.
const NO_SESSION: u64 = 0;
/// How often the holder looks at the counts, and a waiting session looks whether it was killed.
const POLL: Duration = Duration::from_millis(1);

#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

impl Count {
    fn is_zero(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }
}

/// The gate that every change passes.
pub(crate) struct Hold {
    held: AtomicBool,
    changes: [Count; SHARDS],
    /// Number of the last hold, whether it came about or not.
    turns: Mutex<u64>,
    released: Condvar,
}

/// A change without a session; dropping it ends the change.
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
            turns: Mutex::new(0),
            released: Condvar::new(),
        }
    }
}

impl Hold {
    fn count(&self, session: u64) -> &AtomicU64 {
        &self.changes[session as usize % SHARDS].0
    }

    /// Begins a change of `session`, waiting while the pool is held. Returns false, without a change, once `given_up`
    /// returns true during the wait.
    #[inline]
    pub(crate) fn enter(&self, session: u64, given_up: impl Fn() -> bool) -> bool {
        loop {
            self.count(session).fetch_add(1, Ordering::SeqCst);
            // Planted: a change does not look whether the pool is held.
            if !self.held.load(Ordering::SeqCst) || perdura_pmem::planted(270) {
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

    /// Begins a change without a session; nothing interrupts its wait.
    pub(crate) fn change(&self) -> Change<'_> {
        self.enter(NO_SESSION, || false);
        Change(self)
    }

    /// Holds the pool: new changes wait from now on, and the call returns when all running ones have ended. Gives up
    /// after about `timeout`.
    pub(crate) fn hold(&self, timeout: Duration) -> Result<()> {
        let mut turn = self.turns.lock();
        if self.held.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Exists, "the pool is held already; one backup at a time"));
        }
        *turn += 1;
        let own = *turn;
        // Planted: the counts are looked at before the mark is set.
        let early = perdura_pmem::planted(272).then(|| (self.under_way(), yield_now()).0);
        self.held.store(true, Ordering::SeqCst);
        let mut waited_for = early.unwrap_or_else(|| self.under_way());
        // Planted: the changes under way go on while the pool is held.
        if perdura_pmem::planted(271) {
            waited_for.clear();
        }
        let mut polls = timeout.as_millis();
        while !waited_for.is_empty() {
            if polls == 0 {
                self.held.store(false, Ordering::SeqCst);
                self.released.notify_all();
                let what = "statements that write are still running; the pool is not held: let them end and try again";
                return Err(Error::new(ErrorKind::LockWaitTimeout, what));
            }
            polls -= 1;
            self.released.wait_for(&mut turn, POLL);
            // A release meanwhile ends this wait as well, even if somebody else waits to hold the pool since.
            // Planted: the mark of another is taken for the own one.
            let is_own = *turn == own || perdura_pmem::planted(273);
            if !is_own || !self.held.load(Ordering::SeqCst) {
                return Err(Error::new(
                    ErrorKind::Killed,
                    "the pool was released while the hold waited for running statements",
                ));
            }
            waited_for.retain(|count| !count.is_zero());
        }
        Ok(())
    }

    /// The counts of changes under way. A count seen at zero has no change left from before the mark was set.
    fn under_way(&self) -> Vec<&Count> {
        self.changes.iter().filter(|count| !count.is_zero()).collect()
    }

    /// Releases the pool, so that changes go on. Returns whether it was held.
    pub(crate) fn release(&self) -> bool {
        let _turn = self.turns.lock();
        let was_held = self.held.swap(false, Ordering::SeqCst);
        self.released.notify_all();
        was_held
    }

    /// Whether the pool is held, or somebody waits to hold it.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst)
    }
}
