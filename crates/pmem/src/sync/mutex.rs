//! Mutual exclusion.

use super::agent::{agent, step};
use std::fmt;
use std::ops::{Deref, DerefMut};

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
