//! Atomics and waits: the standard library's, or loom's under `--cfg loom`.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

/// Waits until `ready` is true, which another thread is about to bring about.
#[inline]
pub(crate) fn wait_until(mut ready: impl FnMut() -> bool) {
    #[cfg(loom)]
    while !ready() {
        loom::thread::yield_now();
    }
    #[cfg(not(loom))]
    perdura_pmem::sync::spin_until(&mut ready);
}
