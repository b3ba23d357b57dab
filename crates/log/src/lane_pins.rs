//! The pins of a lane, and the highest CSN of the transactions that have released theirs.

use crate::Csn;
use crate::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

/// Count of a lane's pins, and the highest CSN released by one.
///
/// A *pin* says that an unfinished transaction has a record in the lane, or is about to write one.
/// A thread pins the lane, then checks again that the generation is still active; a switch
/// deactivates the generation, then looks for pins. So either the switch sees the pin, or the
/// thread sees that it came too late and withdraws it. A transaction raises `csn_max` before it
/// unpins, so once a lane of an inactive generation has no pins, its `csn_max` is final (I9), and
/// nobody uses its mapping any more.
///
/// Why the orderings suffice:
///
/// - `pin`, `count` and the word that names the active generation are SeqCst. Each side stores one
///   word and then loads the other's; nothing weaker keeps both from missing each other. If a
///   switch loads the count before a pin is added to it, the pinning thread's load of the active
///   generation comes after the switch's store.
/// - `unpin` lowers the count with Release. Every change of the count is a read-modify-write, so it
///   continues the release sequence of each unpin before it: whoever loads 0 synchronizes with all
///   of them, not just with the last, and sees what they raised and stored. It takes no part in the
///   SeqCst order, since a switch that misses an unpin sees a pin too many and keeps the generation
///   for longer.
/// - `csn_max` is Relaxed, as the count orders it: raised before the unpin, loaded after the count.
pub(crate) struct LanePins {
    count: AtomicU64,
    csn_max: AtomicU64,
}

impl LanePins {
    pub(crate) fn new() -> LanePins {
        LanePins { count: AtomicU64::new(0), csn_max: AtomicU64::new(0) }
    }

    #[inline]
    pub(crate) fn pin(&self) {
        self.count.fetch_add(1, SeqCst);
    }

    /// Releases a pin. `csn` is the transaction's, or 0 if it has none.
    #[inline]
    pub(crate) fn unpin(&self, csn: Csn) {
        if csn != 0 {
            self.csn_max.fetch_max(csn, Relaxed);
        }
        self.count.fetch_sub(1, Release);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(SeqCst)
    }

    /// Highest CSN recorded in the lane, final if its generation is inactive; `None` while it is
    /// pinned.
    ///
    /// Loads the count first: the other way round, a transaction that raises `csn_max` and unpins
    /// in between would be missed.
    pub(crate) fn csn_max_if_unpinned(&self) -> Option<Csn> {
        (self.count() == 0).then(|| self.csn_max.load(Relaxed))
    }

    /// Raises the highest CSN to what recovery found.
    pub(crate) fn restore(&self, csn_max: Csn) {
        self.csn_max.fetch_max(csn_max, Relaxed);
    }

    /// Forgets the CSNs of the former activation. The caller has found the lane unpinned, and the
    /// generation becomes active only after this.
    pub(crate) fn reset(&self) {
        self.csn_max.store(0, Relaxed);
    }
}

/// Loom weakens SeqCst loads and stores to acquire and release. So these tests start with an
/// inactive generation and hold what the count orders. That a late pin and a switch see each other
/// is argued above, not tested.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// A lane with room for two records.
    struct Lane {
        pins: LanePins,
        records: [UnsafeCell<Csn>; 2],
    }

    // SAFETY: what loom is to find out: it tells if a record is stored by two threads at once.
    unsafe impl Sync for Lane {}

    impl Lane {
        /// Pinned `pins` times.
        fn pinned(pins: u32) -> Arc<Lane> {
            let lane = Lane { pins: LanePins::new(), records: [UnsafeCell::new(0), UnsafeCell::new(0)] };
            (0..pins).for_each(|_| lane.pins.pin());
            Arc::new(lane)
        }

        fn store(&self, record: usize, csn: Csn) {
            // SAFETY: loom checks it.
            self.records[record].with_mut(|record| unsafe { *record = csn });
        }

        /// A transaction that has reserved the place of `record` commits.
        fn commit(&self, record: usize, csn: Csn) {
            self.store(record, csn);
            self.pins.unpin(csn);
        }

        /// Arms the lane anew if every record in it has a CSN up to `checkpoint`, and stores over
        /// its records.
        fn reuse(&self, checkpoint: Csn) -> bool {
            let reusable = self.pins.csn_max_if_unpinned().is_some_and(|csn_max| csn_max <= checkpoint);
            if reusable {
                self.pins.reset();
                (0..2).for_each(|record| self.store(record, 99));
            }
            reusable
        }
    }

    /// A switch that read `csn_max` before the pins took the lane for stored, and its re-arming
    /// voided a commit record that recovery still needed.
    #[test]
    fn a_commit_that_is_unpinned_meanwhile_is_not_voided() {
        loom::model(|| {
            let lane = Lane::pinned(1);
            let other = lane.clone();
            let commit = thread::spawn(move || other.commit(0, 7));
            assert!(!lane.reuse(6), "CSN 7 is not stored");
            commit.join().unwrap();
            assert!(!lane.reuse(6), "CSN 7 is not stored");
            assert!(lane.reuse(7));
        });
    }

    /// The last unpin may be that of a transaction with a lower CSN, or with none.
    #[test]
    fn every_unpin_counts_and_not_just_the_last() {
        loom::model(|| {
            let lane = Lane::pinned(2);
            let (one, two) = (lane.clone(), lane.clone());
            let commits = [thread::spawn(move || one.commit(0, 7)), thread::spawn(move || two.commit(1, 8))];
            assert!(!lane.reuse(7), "CSN 8 is not stored");
            commits.into_iter().for_each(|commit| commit.join().unwrap());
        });
    }

    /// Records are stored before their pin is released, so what is stored over them comes later.
    #[test]
    fn a_lane_is_reused_only_behind_the_last_store_to_it() {
        loom::model(|| {
            let lane = Lane::pinned(2);
            let (commit, late) = (lane.clone(), lane.clone());
            let rollback = lane.clone();
            let threads = [
                thread::spawn(move || commit.commit(0, 7)),
                thread::spawn(move || {
                    rollback.store(1, 0);
                    rollback.pins.unpin(0);
                    // Comes too late, as the generation is inactive.
                    late.pins.pin();
                    late.pins.unpin(0);
                }),
            ];
            lane.reuse(7);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
