//! Epochs: what a reader may still see is not reused.
//!
//! A reader pins the present epoch in a slot, fences, and loads a root. A writer publishes a new root, closes the epoch
//! ([`Pins::advance`]), fences, and reads the slots. What only older roots reached is reused when every pin is younger
//! than the closed epoch. One of the two fences comes first: either the writer sees the slot, or the reader sees the
//! new root. The loom test below tries the orders.
//!
//! Thread-safety: all of it is shared. Neither side waits. Slots come in blocks; when all are taken a block is added,
//! and it stays until the pins are dropped. Keeps (I8).

use crate::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use crossbeam_utils::CachePadded;
use perdura_pmem::planted;
use std::ptr;

/// Slots in a block.
const SLOTS: usize = if cfg!(loom) { 2 } else { 32 };
/// Marks a slot that nobody holds. Epochs count from 1.
const FREE: u64 = 0;

struct Block {
    slots: [CachePadded<AtomicU64>; SLOTS],
    next: AtomicPtr<Block>,
}

impl Block {
    fn new() -> Block {
        Block {
            slots: std::array::from_fn(|_| CachePadded::new(AtomicU64::new(FREE))),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// The present epoch and the pinned ones.
pub(crate) struct Pins {
    epoch: CachePadded<AtomicU64>,
    first: Box<Block>,
}

impl Pins {
    pub(crate) fn new() -> Pins {
        Pins { epoch: CachePadded::new(AtomicU64::new(1)), first: Box::new(Block::new()) }
    }

    /// Pins the present epoch until the pin is dropped.
    pub(crate) fn pin(&self) -> Pin<'_> {
        let hint = hint();
        let mut block: &Block = &self.first;
        loop {
            for turn in 0..SLOTS {
                let slot = &*block.slots[(hint + turn) % SLOTS];
                // Planted: a reader pins the epoch after the one it reads in.
                let epoch = self.epoch.load(Ordering::Acquire) + u64::from(planted(144));
                // An epoch that has been closed meanwhile holds off more than necessary, never less.
                if slot.load(Ordering::Relaxed) == FREE
                    && slot.compare_exchange(FREE, epoch, Ordering::Acquire, Ordering::Relaxed).is_ok()
                {
                    fence(Ordering::SeqCst);
                    return Pin { slot };
                }
            }
            block = next_of(block);
        }
    }

    /// Closes the present epoch and returns it. The caller has stored the root that later pins will see.
    pub(crate) fn advance(&self) -> u64 {
        // Planted: what is retired counts as retired in the epoch before.
        self.epoch.fetch_add(1, Ordering::AcqRel) - u64::from(planted(149))
    }

    /// The oldest pinned epoch, or `u64::MAX` without a pin. What was retired in an older epoch is free.
    pub(crate) fn oldest(&self) -> u64 {
        fence(Ordering::SeqCst);
        let mut oldest = u64::MAX;
        let mut block: Option<&Block> = Some(&self.first);
        while let Some(present) = block {
            for slot in &present.slots {
                let epoch = slot.load(Ordering::Acquire);
                if epoch != FREE {
                    oldest = oldest.min(epoch);
                }
            }
            // SAFETY: a block once linked stays until the pins are dropped.
            block = unsafe { present.next.load(Ordering::Acquire).as_ref() };
        }
        oldest
    }
}

/// The block after `block`, added if there is none.
fn next_of(block: &Block) -> &Block {
    let mut next = block.next.load(Ordering::Acquire);
    if next.is_null() {
        let new = Box::into_raw(Box::new(Block::new()));
        match block.next.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => next = new,
            Err(other) => {
                // SAFETY: nobody else has seen this block.
                drop(unsafe { Box::from_raw(new) });
                next = other;
            }
        }
    }
    // SAFETY: not null, and a block once linked stays until the pins are dropped.
    unsafe { &*next }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let mut next = self.first.next.load(Ordering::Acquire);
        while !next.is_null() {
            // SAFETY: the list owns its blocks, and no reader is left.
            let block = unsafe { Box::from_raw(next) };
            next = block.next.load(Ordering::Acquire);
        }
    }
}

pub(crate) struct Pin<'p> {
    slot: &'p AtomicU64,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.slot.store(FREE, Ordering::Release);
    }
}

/// The slot at which this thread begins its search, so that threads seldom collide.
#[cfg(not(loom))]
fn hint() -> usize {
    use std::sync::atomic::AtomicUsize;
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static HINT: usize = THREADS.fetch_add(7, std::sync::atomic::Ordering::Relaxed));
    HINT.with(|hint| *hint)
}

#[cfg(loom)]
fn hint() -> usize {
    0
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::Pins;
    use crate::atomic::{AtomicU64, Ordering};
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
