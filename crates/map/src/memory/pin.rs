//! Epochs: what a reader may still see is not reused.
//!
//! A reader counts itself into the present epoch, fences, and loads a root. A writer publishes a
//! new root, closes the epoch ([`Pins::advance`]), fences, and reads the counts. What only older
//! roots reached is reused when no counted reader is in that epoch or an older one. One of the two
//! fences comes first: either the writer sees the count, or the reader sees the new root. The loom
//! test below tries the orders.
//!
//! There are counts for four epochs at a time. An epoch begins only when the readers of the one
//! whose counts it takes over have gone; until then the present one goes on, and holds off more
//! than necessary. So both sides take the same time however many pins are held. A reader that took
//! too long between loading the epoch and counting itself counts in a later epoch. That is sound:
//! the writer has read its count as zero after it unpublished what earlier epochs held.
//!
//! Thread-safety: all of it is shared; [`Pins::advance`] and [`Pins::oldest`] are for one thread at
//! a time. Neither side waits. Keeps (I8).

use crate::memory::atomic::{AtomicU64, Ordering, fence};
use crossbeam_utils::CachePadded;
use perdura_pmem::{Mutant, planted};

/// Sets of counts, so that threads seldom share one.
const SHARDS: usize = if cfg!(loom) { 1 } else { 8 };
/// Epochs with counts.
const EPOCHS: usize = if cfg!(loom) { 2 } else { 4 };

/// The present epoch and the readers counted in it and in those before.
pub(crate) struct Pins {
    epoch: CachePadded<AtomicU64>,
    shards: [CachePadded<[AtomicU64; EPOCHS]>; SHARDS],
}

impl Pins {
    pub(crate) fn new() -> Pins {
        let counts = || CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0)));
        Pins { epoch: CachePadded::new(AtomicU64::new(EPOCHS as u64)), shards: std::array::from_fn(|_| counts()) }
    }

    /// Pins the present epoch until the pin is dropped.
    #[inline]
    pub(crate) fn pin(&self) -> Pin<'_> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let count = &self.shards[hint() % SHARDS][epoch as usize % EPOCHS];
        count.fetch_add(1, Ordering::SeqCst);
        // On x86 a locked instruction orders later loads by itself, and a fence would cost as much
        // again.
        if cfg!(any(loom, not(target_arch = "x86_64"))) {
            fence(Ordering::SeqCst);
        }
        Pin { count }
    }

    fn readers(&self, epoch: u64) -> u64 {
        self.shards.iter().map(|counts| counts[epoch as usize % EPOCHS].load(Ordering::Acquire)).sum()
    }

    /// Closes the present epoch, if it can, and returns it. The caller has stored the root that
    /// later pins will see.
    pub(crate) fn advance(&self) -> u64 {
        fence(Ordering::SeqCst);
        let epoch = self.epoch.load(Ordering::Relaxed);
        // Planted: an epoch takes over counts in which there still are readers.
        if self.readers(epoch + 1) == 0 || planted(Mutant::EpochTakesOverReaders) {
            self.epoch.store(epoch + 1, Ordering::Release);
        }
        // Planted: what is retired counts as retired in the epoch before.
        epoch - u64::from(planted(Mutant::RetiredOneEpochEarly))
    }

    /// The oldest epoch with a reader, or `u64::MAX` without one. What was retired in an older
    /// epoch is free.
    pub(crate) fn oldest(&self) -> u64 {
        // Lets an epoch end that could not before.
        self.advance();
        let present = self.epoch.load(Ordering::Relaxed);
        (present - EPOCHS as u64 + 1..=present).find(|epoch| self.readers(*epoch) > 0).unwrap_or(u64::MAX)
    }
}

pub(crate) struct Pin<'p> {
    count: &'p AtomicU64,
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Release);
    }
}

/// The shard that this thread uses.
#[cfg(not(loom))]
#[inline]
fn hint() -> usize {
    use std::sync::atomic::AtomicUsize;
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static HINT: usize = THREADS.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    HINT.with(|hint| *hint)
}

#[cfg(loom)]
fn hint() -> usize {
    0
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::Pins;
    use crate::memory::atomic::{AtomicU64, Ordering};
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct World {
        pins: Pins,
        root: AtomicU64,
        nodes: [UnsafeCell<u64>; 3],
    }

    // SAFETY: loom checks it: it reports a node that is read and written at the same time.
    unsafe impl Sync for World {}

    fn world() -> Arc<World> {
        let nodes = [UnsafeCell::new(10), UnsafeCell::new(0), UnsafeCell::new(0)];
        Arc::new(World { pins: Pins::new(), root: AtomicU64::new(0), nodes })
    }

    fn read(world: &World) {
        let _pin = world.pins.pin();
        let root = world.root.load(Ordering::Acquire);
        // SAFETY: loom checks it.
        let found = world.nodes[root as usize].with(|node| unsafe { *node });
        assert_eq!(found, 10 + root);
    }

    /// Publishes node `new` in place of `old`, and reuses the place of `old` if no pin forbids it.
    fn replace(world: &World, old: usize, new: usize) {
        // SAFETY: loom checks it.
        world.nodes[new].with_mut(|node| unsafe { *node = 10 + new as u64 });
        world.root.store(new as u64, Ordering::Release);
        let closed = world.pins.advance();
        if closed < world.pins.oldest() {
            // SAFETY: loom checks it.
            world.nodes[old].with_mut(|node| unsafe { *node = 99 });
        }
    }

    /// Tries every order with at most three preemptions.
    fn model(run: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(run);
    }

    #[test]
    fn nothing_a_reader_sees_is_used_again() {
        model(|| {
            let world = world();
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    let world = world.clone();
                    thread::spawn(move || read(&world))
                })
                .collect();
            replace(&world, 0, 1);
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }

    #[test]
    fn a_slot_pinned_again_holds_off_the_next_root() {
        model(|| {
            let world = world();
            let other = world.clone();
            let reader = thread::spawn(move || {
                read(&other);
                read(&other);
            });
            replace(&world, 0, 1);
            replace(&world, 1, 2);
            reader.join().unwrap();
        });
    }
}
