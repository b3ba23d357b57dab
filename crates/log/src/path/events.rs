//! Waits of the threads of a path: for an event of one thread, and for an LSN that many wait for,
//! each at a slot.

use super::lsn::Lsn;
use crate::atomic::{AtomicBool, AtomicU32, AtomicU64, Condvar, Mutex, fence};
use crossbeam_utils::CachePadded;
use perdura_pmem::Mutant;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

/// Checks before a thread sleeps.
const SPINS: u32 = if cfg!(loom) { 0 } else { 64 };
/// Slots of an LSN, and bytes of LSN that share one.
const SLOTS: u64 = if cfg!(loom) { 2 } else { 256 };
const SLOT_BYTES: u64 = 512;

/// An event that one thread waits for.
///
/// Of the thread that is about to sleep and the one that wakes it, each stores (that it sleeps;
/// what has happened), and then looks for what the other has stored, with a fence in between: so at
/// least one of them sees it. The lock covers the time from the sleeper's look to its sleep.
#[derive(Default)]
pub(super) struct Event {
    is_waited_for: AtomicBool,
    lock: Mutex<()>,
    happened: Condvar,
}

impl Event {
    /// Wakes the thread that waits, to look at what was stored before.
    #[inline]
    pub(super) fn wake(&self) {
        fence(SeqCst);
        if self.is_waited_for.load(Relaxed) {
            drop(self.lock.lock());
            self.happened.notify_all();
        }
    }

    /// Waits until `ready`. One thread at a time.
    pub(super) fn wait(&self, mut ready: impl FnMut() -> bool) {
        for _ in 0..SPINS {
            if ready() {
                return;
            }
            std::hint::spin_loop();
        }
        self.is_waited_for.store(true, Relaxed);
        fence(SeqCst);
        let mut guard = self.lock.lock();
        while !ready() {
            self.happened.wait(&mut guard);
        }
        drop(guard);
        self.is_waited_for.store(false, Relaxed);
    }
}

#[derive(Default)]
struct Slot {
    waiters: AtomicU32,
    lock: Mutex<()>,
    moved: Condvar,
}

/// An LSN that one thread moves on, and others wait for.
///
/// A thread waits for an LSN at the slot of its block of 512. Whoever has moved the LSN wakes the
/// slots of all blocks that it has passed. Moving and waking may be different threads', as long as
/// each move is followed by a wake of what it has passed.
pub(super) struct Progress {
    reached: CachePadded<AtomicU64>,
    is_stopped: AtomicBool,
    waiters: CachePadded<AtomicU32>,
    slots: Box<[CachePadded<Slot>]>,
}

impl Progress {
    pub(super) fn new() -> Progress {
        let slots = (0..SLOTS).map(|_| CachePadded::default()).collect();
        let (reached, waiters) = (CachePadded::new(AtomicU64::new(0)), CachePadded::new(AtomicU32::new(0)));
        Progress { reached, is_stopped: AtomicBool::new(false), waiters, slots }
    }

    #[inline]
    pub(super) fn load(&self) -> Lsn {
        self.reached.load(Acquire)
    }

    /// Moves to `lsn`. One thread at a time.
    pub(super) fn advance(&self, lsn: Lsn) {
        self.reached.store(lsn, Release);
    }

    /// Whether somebody waits who may not have seen the last move.
    pub(super) fn is_awaited(&self) -> bool {
        fence(SeqCst);
        self.waiters.load(Relaxed) > 0
    }

    /// Number of the block of an LSN that is reached with it.
    fn block(lsn: Lsn) -> u64 {
        lsn.saturating_sub(1) / SLOT_BYTES
    }

    /// Whether all that wait for what lies behind `from`, up to `to`, are at one slot.
    pub(super) fn is_one_slot(from: Lsn, to: Lsn) -> bool {
        from / SLOT_BYTES == Progress::block(to)
    }

    /// Wakes those who wait for what lies behind `from`, up to `to`.
    pub(super) fn wake(&self, from: Lsn, to: Lsn) {
        fence(SeqCst);
        let last = Progress::block(to);
        let mut first = (from / SLOT_BYTES).max((last + 1).saturating_sub(SLOTS));
        // Planted: a slot stands for all that was passed.
        if perdura_pmem::planted(Mutant::NotifierWakesOneSlot) {
            first = last;
        }
        (first..=last).for_each(|block| self.wake_slot(block));
    }

    #[inline]
    fn wake_slot(&self, block: u64) {
        let slot = &self.slots[(block % SLOTS) as usize];
        if slot.waiters.load(Relaxed) > 0 {
            drop(slot.lock.lock());
            slot.moved.notify_all();
        }
    }

    /// Waits until `lsn` is reached. False if [`Progress::stop`] has ended the wait.
    pub(super) fn wait(&self, lsn: Lsn) -> bool {
        for _ in 0..SPINS {
            if self.load() >= lsn {
                return true;
            }
            std::hint::spin_loop();
        }
        let slot = &self.slots[(Progress::block(lsn) % SLOTS) as usize];
        slot.waiters.fetch_add(1, Relaxed);
        self.waiters.fetch_add(1, Relaxed);
        fence(SeqCst);
        let mut guard = slot.lock.lock();
        while self.load() < lsn && !self.is_stopped.load(Acquire) {
            slot.moved.wait(&mut guard);
        }
        drop(guard);
        slot.waiters.fetch_sub(1, Relaxed);
        self.waiters.fetch_sub(1, Relaxed);
        self.load() >= lsn
    }

    /// Ends all waits, and those to come.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Release);
        fence(SeqCst);
        (0..SLOTS).for_each(|block| self.wake_slot(block));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_slot_is_that_of_all_who_wait() {
        let cases = [(0, 512, true), (0, 513, false), (448, 512, true), (512, 576, true), (448, 576, false)];
        for (from, to, is_one) in cases {
            assert_eq!(Progress::is_one_slot(from, to), is_one, "{from}..{to}");
        }
    }

    /// Threads wait for every LSN of many rounds through the slots; another moves on in seeded
    /// steps and has a third wake them.
    #[test]
    fn nobody_is_left_at_a_slot() {
        const END: u64 = 64 * 4000;
        let (progress, event) = (Progress::new(), Event::default());
        std::thread::scope(|scope| {
            for thread in 1..4 {
                let progress = &progress;
                scope.spawn(move || {
                    for lsn in (64 * thread..=END).step_by(192) {
                        assert!(progress.wait(lsn));
                    }
                });
            }
            scope.spawn(|| {
                let mut seen = 0;
                while seen < END {
                    event.wait(|| progress.load() > seen);
                    let to = progress.load();
                    progress.wake(seen, to);
                    seen = to;
                }
            });
            let mut random = perdura_pmem::split_mix::SplitMix64::new(1);
            let mut at = 0;
            while at < END {
                at = END.min(at + 64 * (1 + random.below(40)));
                progress.advance(at);
                event.wake();
                if random.one_in(3) {
                    std::thread::yield_now();
                }
            }
        });
        progress.stop();
        assert!(!progress.wait(END + 1), "stopped");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// The session looks, the writer moves on and sees nobody wait, the session sleeps for ever.
    #[test]
    fn a_wake_is_not_lost_between_look_and_sleep() {
        loom::model(|| {
            let progress = Arc::new(Progress::new());
            let waiter = {
                let progress = progress.clone();
                thread::spawn(move || assert!(progress.wait(64)))
            };
            progress.advance(64);
            progress.wake(0, 64);
            waiter.join().unwrap();
        });
    }

    /// The same where nobody is woken unless somebody waits.
    #[test]
    fn who_waits_is_seen() {
        loom::model(|| {
            let progress = Arc::new(Progress::new());
            let waiter = {
                let progress = progress.clone();
                thread::spawn(move || assert!(progress.wait(64)))
            };
            progress.advance(64);
            if progress.is_awaited() {
                progress.wake(0, 64);
            }
            waiter.join().unwrap();
        });
    }

    #[test]
    fn an_event_is_not_lost_between_look_and_sleep() {
        loom::model(|| {
            let shared = Arc::new((Event::default(), Progress::new()));
            let waiter = {
                let shared = shared.clone();
                thread::spawn(move || shared.0.wait(|| shared.1.load() >= 64))
            };
            shared.1.advance(64);
            shared.0.wake();
            waiter.join().unwrap();
        });
    }

    #[test]
    fn a_stop_ends_a_wait() {
        loom::model(|| {
            let progress = Arc::new(Progress::new());
            let waiter = {
                let progress = progress.clone();
                thread::spawn(move || assert!(!progress.wait(64)))
            };
            progress.stop();
            waiter.join().unwrap();
        });
    }
}
