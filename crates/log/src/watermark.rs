//! A mark that advances in order over marked CSNs: durable_csn, visible_csn and stored_csn.
//!
//! Each CSN has a slot in a ring; the thread that closes a gap advances the mark over all marked
//! CSNs behind it.

use crate::Csn;
use crossbeam_utils::CachePadded;
use perdura_pmem::Mutant;
use perdura_pmem::sync::{Condvar, Mutex};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// CSNs that can be durable or visible ahead of the first that is not, at most.
pub(crate) const SLOTS: u64 = 1 << 16;
/// CSNs that can be stored ahead of the first that is not, at most: more, as a large commit takes
/// long.
pub(crate) const SLOTS_STORED: u64 = 1 << 18;
/// Slots of a ring beside a log of so many granules, up to `most`. The log keeps the record of each
/// commit until the commit is stored, so no more of them can be ahead than it has granules.
pub(crate) fn slots_for(granules: u64, most: u64) -> u64 {
    granules.clamp(1, most).next_power_of_two()
}

/// Conditions the waiters are spread over.
const SHARDS: usize = 64;
/// Checks before a waiter sleeps.
const SPINS: u32 = 64;
/// Rounds for which waiters wait on after the pool has stopped.
const GRACE_ROUNDS: u32 = 50;
/// Length of such a round.
const GRACE_ROUND: Duration = Duration::from_millis(4);

#[derive(Default)]
struct Shard {
    waiters: AtomicU32,
    lock: Mutex<()>,
    moved: Condvar,
}

/// Ring of marked CSNs, and the mark that follows them in order.
///
/// Invariants: a slot holds the CSN marked there last, so a stale slot never looks like a later
/// mark; a CSN is stored into its slot only when the mark is less than a ring's length behind, so
/// no slot is overwritten before it was counted. A thread stores its slot (or moves the mark), then
/// looks at the next slot, both with sequential consistency: of two threads that mark neighbours at
/// once, at least one sees the other's slot. Wake-ups are issued only where somebody waits. Keeps
/// (I1).
pub(crate) struct Watermark {
    value: CachePadded<AtomicU64>,
    slots: Box<[AtomicU64]>,
    shards: [CachePadded<Shard>; SHARDS],
    stopped: AtomicBool,
    /// The lowest CSN that will never be marked.
    refused: AtomicU64,
}

impl Watermark {
    /// A mark at `start`; so many CSNs can be marked ahead of the first unmarked one.
    pub(crate) fn new(start: Csn, slots: u64) -> Watermark {
        let zeroes = Box::into_raw(vec![0u64; slots as usize].into_boxed_slice());
        // SAFETY: an AtomicU64 has size, alignment and validity of a u64 here (64-bit targets), and
        // the box is ours. Made this way the pages of a ring stay untouched until they are used.
        let slots = unsafe { Box::from_raw(zeroes as *mut [AtomicU64]) };
        Watermark {
            value: CachePadded::new(AtomicU64::new(start)),
            slots,
            shards: std::array::from_fn(|_| CachePadded::default()),
            stopped: AtomicBool::new(false),
            refused: AtomicU64::new(Csn::MAX),
        }
    }

    /// Every CSN up to the result is marked.
    #[inline]
    pub(crate) fn load(&self) -> Csn {
        self.value.load(SeqCst)
    }

    fn slot(&self, csn: Csn) -> &AtomicU64 {
        &self.slots[(csn % self.slots.len() as u64) as usize]
    }

    /// Marks `csn`; done once for each CSN. Waits while it is more than a ring's length ahead.
    #[inline]
    pub(crate) fn mark(&self, csn: Csn) {
        self.mark_by(csn, |moved| self.wake(moved));
    }

    /// The same; `wake` is called with each CSN that the mark has moved to.
    #[inline]
    pub(crate) fn mark_by(&self, csn: Csn, mut wake: impl FnMut(Csn)) {
        if self.value.compare_exchange(csn - 1, csn, SeqCst, SeqCst).is_ok() {
            wake(csn);
            // Planted: marks beyond the gap that this one closed are forgotten.
            if !perdura_pmem::planted(Mutant::ClosedGapForgetsMarks) {
                self.follow(csn, wake);
            }
        } else {
            self.mark_ahead(csn, wake);
        }
    }

    fn mark_ahead(&self, csn: Csn, mut wake: impl FnMut(Csn)) {
        let slots = self.slots.len() as u64;
        if csn > self.load() + slots && !self.wait(csn - slots) {
            return;
        }
        self.slot(csn).store(csn, SeqCst);
        // Planted: the mark leaps over a gap.
        if perdura_pmem::planted(Mutant::HorizonsLeapOverGap) && self.value.fetch_max(csn, SeqCst) < csn {
            wake(csn);
        }
        self.follow(self.load(), wake);
    }

    /// Moves the mark on from `seen` while the next CSN is marked.
    fn follow(&self, mut seen: Csn, mut wake: impl FnMut(Csn)) {
        while self.slot(seen + 1).load(SeqCst) == seen + 1 {
            match self.value.compare_exchange(seen, seen + 1, SeqCst, SeqCst) {
                Ok(_) => {
                    seen += 1;
                    wake(seen);
                }
                Err(moved) => seen = moved,
            }
        }
    }

    fn shard(&self, csn: Csn) -> &Shard {
        &self.shards[(csn % SHARDS as u64) as usize]
    }

    /// Wakes who waits for `csn`.
    #[inline]
    pub(crate) fn wake(&self, csn: Csn) {
        if self.shard(csn).waiters.load(SeqCst) > 0 {
            self.wake_slow(csn);
        }
    }

    #[cold]
    fn wake_slow(&self, csn: Csn) {
        let shard = self.shard(csn);
        // A waiter that has looked but not yet slept holds the lock.
        drop(shard.lock.lock());
        shard.moved.notify_all();
    }

    /// Waits until the mark is at `csn` or beyond. False if [`Watermark::stop`] ended the wait.
    #[inline]
    pub(crate) fn wait(&self, csn: Csn) -> bool {
        self.load() >= csn || self.wait_slow(csn)
    }

    #[cold]
    fn wait_slow(&self, csn: Csn) -> bool {
        for _ in 0..SPINS {
            if self.load() >= csn {
                return true;
            }
            spin_loop();
        }
        let shard = self.shard(csn);
        shard.waiters.fetch_add(1, SeqCst);
        let mut guard = shard.lock.lock();
        let mut grace = GRACE_ROUNDS;
        while self.load() < csn && grace > 0 && csn < self.refused.load(SeqCst) {
            if self.stopped.load(SeqCst) {
                shard.moved.wait_for(&mut guard, GRACE_ROUND);
                grace -= 1;
            } else {
                shard.moved.wait(&mut guard);
            }
        }
        drop(guard);
        shard.waiters.fetch_sub(1, SeqCst);
        self.load() >= csn
    }

    /// Notes that `csn` will never be marked: whoever comes to wait for it, or for a later one,
    /// does not. Those who wait already are ended by [`Watermark::stop`].
    #[cold]
    pub(crate) fn refuse(&self, csn: Csn) {
        self.refused.fetch_min(csn, SeqCst);
    }

    /// Ends all waits soon. CSNs under way will still be marked; others may never be.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, SeqCst);
        for csn in 0..SHARDS as u64 {
            self.wake_slow(csn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// A pool with a small log, of which a test opens thousands, must not pay for a ring of
    /// megabytes, nor wait for a slot.
    #[test]
    fn a_ring_has_a_slot_for_each_commit_that_the_log_can_hold() {
        assert_eq!([0, 1, 100, 256].map(|granules| slots_for(granules, SLOTS)), [1, 1, 128, 256]);
        assert_eq!([SLOTS - 1, SLOTS, u64::MAX].map(|granules| slots_for(granules, SLOTS)), [SLOTS; 3]);
    }

    #[test]
    fn gaps_hold_the_mark_back() {
        let mark = Watermark::new(10, 8);
        mark.mark(12);
        mark.mark(13);
        assert_eq!(mark.load(), 10);
        mark.mark(11);
        assert_eq!(mark.load(), 13);
        assert!(mark.wait(13));
    }

    #[test]
    fn a_full_ring_makes_the_fastest_wait() {
        let mark = Watermark::new(0, 4);
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for csn in 2..=9 {
                let (mark, done) = (&mark, &done);
                scope.spawn(move || {
                    mark.mark(csn);
                    done.fetch_add(1, SeqCst);
                });
            }
            while done.load(SeqCst) < 3 {
                std::thread::yield_now();
            }
            assert_eq!(mark.load(), 0);
            mark.mark(1);
        });
        assert_eq!(mark.load(), 9);
    }

    #[test]
    fn concurrent_marks_lose_none_and_wake_all_waiters() {
        const COUNT: u64 = 40_000;
        let mark = Watermark::new(0, 64);
        let next = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let csn = next.fetch_add(1, SeqCst) + 1;
                        if csn > COUNT {
                            return;
                        }
                        mark.mark(csn);
                        if csn.is_multiple_of(7) {
                            assert!(mark.wait(csn));
                        }
                    }
                });
            }
        });
        assert_eq!(mark.load(), COUNT);
    }

    /// Hazard: the session whose commit failed waits for the grace of those that may yet succeed.
    #[test]
    fn nobody_waits_for_a_mark_that_is_refused() {
        let mark = Watermark::new(0, 4);
        mark.refuse(3);
        mark.refuse(2);
        assert!(!mark.wait(2) && !mark.wait(3), "without a stop, and at once");
        mark.mark(1);
        assert!(mark.wait(1));
    }

    #[test]
    fn stopping_ends_waits() {
        let mark = Watermark::new(0, 4);
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (1..20)
                .map(|csn| {
                    scope.spawn({
                        let mark = &mark;
                        move || mark.wait(csn)
                    })
                })
                .collect();
            mark.stop();
            assert!(waiters.into_iter().all(|waiter| !waiter.join().expect("no panic")));
        });
        mark.mark(1);
        assert!(mark.wait(1), "what was reached before or after stays reached");
    }
}
