//! Mutual exclusion.

use super::agent::{agent, step};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Times that [`Mutex::lock_behind`] gives the processor away before it queues.
const BEHIND_ROUNDS: u32 = 64;
/// Looks at the lock between two of them.
const BEHIND_LOOKS: u32 = 64;

/// A lock that one thread at a time holds.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(parking_lot::Mutex<T>);

/// Holds a [`Mutex`] until dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    pub(super) inner: parking_lot::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// An unlocked lock around `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(parking_lot::Mutex::new(value))
    }

    /// Consumes the lock and returns the value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock. A simulated thread may be switched first.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        step();
        match self.0.try_lock() {
            Some(inner) => MutexGuard { inner },
            None => self.lock_slow(),
        }
    }

    /// Waits for the lock as one who is in no hurry. The thread looks for it again and again and queues only after many
    /// looks, so that those who unlock it need not wake it by a system call.
    pub fn lock_behind(&self) -> MutexGuard<'_, T> {
        step();
        for look in 0..BEHIND_ROUNDS * BEHIND_LOOKS {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            match agent() {
                Some(_) => break,
                None if look % BEHIND_LOOKS == BEHIND_LOOKS - 1 => std::thread::yield_now(),
                None => std::hint::spin_loop(),
            }
        }
        self.lock_slow()
    }

    #[cold]
    fn lock_slow(&self) -> MutexGuard<'_, T> {
        let Some(agent) = agent() else { return MutexGuard { inner: self.0.lock() } };
        let mut taken = None;
        agent.wait(None, &mut || {
            taken = self.0.try_lock();
            taken.is_some()
        });
        // When the simulation is being torn down, wait() returns early.
        MutexGuard { inner: taken.unwrap_or_else(|| self.0.lock()) }
    }

    /// The lock, if nobody holds it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().map(|inner| MutexGuard { inner })
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
