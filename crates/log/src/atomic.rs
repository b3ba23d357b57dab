//! The atomics and locks of what loom checks: the usual ones, or loom's under `--cfg loom`.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};
#[cfg(loom)]
pub(crate) use loom_locks::{Condvar, Mutex};
#[cfg(not(loom))]
pub(crate) use perdura_pmem::sync::{Condvar, Mutex};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};

/// Loom's locks, as those of `perdura_pmem::sync` are used.
#[cfg(loom)]
mod loom_locks {
    use loom::sync;

    #[derive(Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    pub(crate) struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().expect("no thread panics")))
        }
    }

    #[derive(Default)]
    pub(crate) struct Condvar(sync::Condvar);

    impl Condvar {
        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect("a guard holds its lock");
            guard.0 = Some(self.0.wait(held).expect("no thread panics"));
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
