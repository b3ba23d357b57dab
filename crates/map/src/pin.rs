//! Epochs: what readers may still see is not used again.
//!
//! A reader pins the present epoch in a slot before it loads a root. A writer, once it has published a new root, closes
//! the epoch ([`Pins::advance`]) and may use what the old root alone reached when the closed epoch is older than every
//! pin. Correct because of the order: slot stored, then root loaded (reader); root stored, then slots loaded (writer),
//! all sequentially consistent: a reader whose slot the writer does not see loads the new root.
//!
//! Thread-safety: all of it; pins are many, and neither side ever waits. Slots come in blocks; a block is added when all
//! are taken, and stays.

use crate::atomic::{AtomicPtr, AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use std::ptr;

/// Slots in a block.
const SLOTS: usize = if cfg!(loom) { 2 } else { 32 };
/// A slot nobody holds. Epochs count from 1.
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

/// The epoch and its pins.
pub(crate) struct Pins {
    epoch: CachePadded<AtomicU64>,
    first: Box<Block>,
}

impl Pins {
    pub(crate) fn new() -> Pins {
        Pins { epoch: CachePadded::new(AtomicU64::new(1)), first: Box::new(Block::new()) }
    }

    /// Pins the present epoch until dropped.
    pub(crate) fn pin(&self) -> Pin<'_> {
        let hint = hint();
        let mut block: &Block = &self.first;
        loop {
            for turn in 0..SLOTS {
                let slot = &*block.slots[(hint + turn) % SLOTS];
                let epoch = self.epoch.load(Ordering::SeqCst);
                // An epoch that is no longer the present one holds off more than it must, never less.
                if slot.load(Ordering::Relaxed) == FREE
                    && slot.compare_exchange(FREE, epoch, Ordering::SeqCst, Ordering::Relaxed).is_ok()
                {
                    return Pin { slot };
                }
            }
            block = next_of(block);
        }
    }

    /// Closes the present epoch and names it. To be called after the root that pins of later epochs will see is stored.
    pub(crate) fn advance(&self) -> u64 {
        self.epoch.fetch_add(1, Ordering::SeqCst)
    }

    /// The oldest pinned epoch; the largest number if there is no pin. What was retired in an older epoch is free.
    pub(crate) fn oldest(&self) -> u64 {
        let mut oldest = u64::MAX;
        let mut block: Option<&Block> = Some(&self.first);
        while let Some(present) = block {
            for slot in &present.slots {
                let epoch = slot.load(Ordering::SeqCst);
                if epoch != FREE {
                    oldest = oldest.min(epoch);
                }
            }
            // SAFETY: a block once linked stays until the pins are dropped.
            block = unsafe { present.next.load(Ordering::SeqCst).as_ref() };
        }
        oldest
    }
}

/// The block after `block`, added if there is none.
fn next_of(block: &Block) -> &Block {
    let mut next = block.next.load(Ordering::SeqCst);
    if next.is_null() {
        let new = Box::into_raw(Box::new(Block::new()));
        match block.next.compare_exchange(ptr::null_mut(), new, Ordering::SeqCst, Ordering::SeqCst) {
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
        let mut next = self.first.next.load(Ordering::SeqCst);
        while !next.is_null() {
            // SAFETY: linked blocks are owned by the list, and nobody else is left.
            let block = unsafe { Box::from_raw(next) };
            next = block.next.load(Ordering::SeqCst);
        }
    }
}

/// A pinned epoch.
pub(crate) struct Pin<'p> {
    slot: &'p AtomicU64,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.slot.store(FREE, Ordering::Release);
    }
}

/// Where this thread begins to look for a slot, so that threads seldom meet.
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
