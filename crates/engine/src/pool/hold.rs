//! The gate that holds a pool still while its files are copied.

use crate::error::{Error, ErrorKind, Result};
use perdura_pmem::Mutant;
use perdura_pmem::sync::{Condvar, Mutex, MutexGuard, yield_now};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SHARDS: usize = 64;
/// Stands for changes without a session, such as the background thread's; sessions are numbered
/// from 1.
const NO_SESSION: u64 = 0;
/// How often the holder looks at the counts, and a waiting session looks whether it was killed.
const POLL: Duration = Duration::from_millis(1);

/// Number of a hold, from the moment it is asked for. Numbers of one opening of a pool begin at 1
/// and do not come twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldNumber(u64);

impl HoldNumber {
    /// The number as an integer.
    pub fn to_u64(self) -> u64 {
        self.0
    }

    /// The number from an integer. One that no hold has had releases nothing.
    pub fn from_u64(number: u64) -> HoldNumber {
        HoldNumber(number)
    }
}

#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

impl Count {
    fn is_zero(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }
}

/// The gate that every change passes.
///
/// A *change* is a time in which a thread may store to the medium: from a statement's first write
/// to its end, a commit, a prepare, a rollback, DDL, a round of the background thread. While the
/// pool is held no change runs. Its files are then those of one moment, one of the images that a
/// crash may leave (I2), in whatever order a backup copies them. A transaction between two
/// statements is in no change, so an open transaction does not keep the pool from being held; its
/// next write waits.
///
/// A hold has a number from the moment it is asked for, and is *waiting* until the changes that ran
/// then have ended. Its number releases it, waiting or not, and no other hold: numbers do not come
/// twice. At most one hold is there at a time.
///
/// A thread that begins a change counts it, then looks whether the pool is held. The holder sets
/// its mark, then looks at the counts. Both sides are sequentially consistent, so one of them sees
/// the other. The counts are spread by session, so changes of different sessions share no cache
/// line.
pub(crate) struct Hold {
    /// There is a hold. Written with `holds` locked.
    held: AtomicBool,
    changes: [Count; SHARDS],
    holds: Mutex<Holds>,
    released: Condvar,
}

struct Holds {
    /// The last number given out.
    last: u64,
    /// The hold that is there, waiting or not.
    present: Option<Present>,
}

struct Present {
    number: HoldNumber,
    /// The counts that it waits for. One that was seen at zero has no change left from before the
    /// mark was set.
    waited_for: Vec<usize>,
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
            holds: Mutex::new(Holds { last: 0, present: None }),
            released: Condvar::new(),
        }
    }
}

/// The failure of a hold beside another.
pub(crate) fn held_already() -> Error {
    Error::new(ErrorKind::Exists, "the pool is held already; one backup at a time")
}

impl Hold {
    fn count(&self, session: u64) -> &AtomicU64 {
        &self.changes[session as usize % SHARDS].0
    }

    /// Begins a change of `session`, waiting while the pool is held. Returns false, without a
    /// change, once `given_up` returns true during the wait.
    #[inline]
    pub(crate) fn enter(&self, session: u64, given_up: impl Fn() -> bool) -> bool {
        loop {
            self.count(session).fetch_add(1, Ordering::SeqCst);
            // Planted: a change does not look whether the pool is held.
            if !self.held.load(Ordering::SeqCst) || perdura_pmem::planted(Mutant::ChangeSkipsHold) {
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
        let mut holds = self.holds.lock();
        while self.held.load(Ordering::SeqCst) {
            if given_up() {
                return false;
            }
            self.released.wait_for(&mut holds, POLL);
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

    /// Begins a change without a session; `None` if the pool is held.
    pub(crate) fn try_change(&self) -> Option<Change<'_>> {
        self.enter(NO_SESSION, || true).then(|| Change(self))
    }

    /// Asks for a hold of the pool: new changes wait from now on. [`Hold::settle`] waits for the
    /// others.
    pub(crate) fn begin(&self) -> Result<HoldNumber> {
        let mut holds = self.holds.lock();
        if holds.present.is_some() {
            return Err(held_already());
        }
        holds.last += 1;
        let number = HoldNumber(holds.last);
        // Planted: the counts are looked at before the mark is set.
        let early = perdura_pmem::planted(Mutant::HoldLooksBeforeMark).then(|| (self.under_way(), yield_now()).0);
        self.held.store(true, Ordering::SeqCst);
        let mut waited_for = early.unwrap_or_else(|| self.under_way());
        // Planted: the changes under way go on while the pool is held.
        if perdura_pmem::planted(Mutant::HoldIgnoresChangesUnderWay) {
            waited_for.clear();
        }
        holds.present = Some(Present { number, waited_for });
        Ok(number)
    }

    /// Waits until no change runs. Gives up after about `timeout`; the hold is there until its
    /// release all the same.
    pub(crate) fn settle(&self, number: HoldNumber, timeout: Duration) -> Result<()> {
        let mut holds = self.holds.lock();
        let mut polls = timeout.as_millis();
        loop {
            // A release meanwhile ends this wait as well, even if somebody else waits to hold the
            // pool since. Planted: the hold of another is taken for the own one.
            let is_own = |present: &&mut Present| {
                present.number == number || perdura_pmem::planted(Mutant::ReleasedHoldTakesNext)
            };
            let Some(present) = holds.present.as_mut().filter(is_own) else {
                let what = "the hold was released while it waited for running statements; the pool is not held";
                return Err(Error::new(ErrorKind::Killed, what));
            };
            present.waited_for.retain(|count| !self.changes[*count].is_zero());
            if present.waited_for.is_empty() {
                return Ok(());
            }
            if polls == 0 {
                let what = "statements that write are still running; the pool is not held: let them end and try again";
                return Err(Error::new(ErrorKind::LockWaitTimeout, what));
            }
            polls -= 1;
            self.released.wait_for(&mut holds, POLL);
        }
    }

    /// The counts of changes under way.
    fn under_way(&self) -> Vec<usize> {
        (0..SHARDS).filter(|count| !self.changes[*count].is_zero()).collect()
    }

    /// Releases the hold of this number, so that changes go on. Returns whether it was there,
    /// waiting or not.
    pub(crate) fn release(&self, number: HoldNumber) -> bool {
        let holds = self.holds.lock();
        // Planted: a release ends whatever hold there is.
        let is_present =
            |present: &Present| present.number == number || perdura_pmem::planted(Mutant::ReleaseEndsAnyHold);
        holds.present.as_ref().is_some_and(is_present) && self.end(holds)
    }

    /// Releases whatever hold there is. Returns whether there was one.
    pub(crate) fn release_any(&self) -> bool {
        self.end(self.holds.lock())
    }

    fn end(&self, mut holds: MutexGuard<'_, Holds>) -> bool {
        let was_held = holds.present.take().is_some();
        self.held.store(false, Ordering::SeqCst);
        self.released.notify_all();
        was_held
    }

    /// The hold that is there, waiting or not.
    pub(crate) fn present(&self) -> Option<HoldNumber> {
        self.holds.lock().present.as_ref().map(|present| present.number)
    }

    /// Whether there is a hold, waiting or not.
    pub(crate) fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst)
    }
}
