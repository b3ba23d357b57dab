//! Shared or exclusive access.

use super::agent::{agent, step};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A lock that many readers or one writer hold.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(parking_lot::RwLock<T>);

/// Holds an [`RwLock`] shared until dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized>(parking_lot::RwLockReadGuard<'a, T>);

/// Holds an [`RwLock`] exclusively until dropped.
#[must_use = "the lock is released when this is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized>(parking_lot::RwLockWriteGuard<'a, T>);

impl<T> RwLock<T> {
    /// An unlocked lock around `value`.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(parking_lot::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits for shared access. A simulated thread may be switched first.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        step();
        match self.0.try_read() {
            Some(guard) => RwLockReadGuard(guard),
            None => self.read_slow(),
        }
    }

    #[cold]
    fn read_slow(&self) -> RwLockReadGuard<'_, T> {
        let Some(agent) = agent() else { return RwLockReadGuard(self.0.read()) };
        let mut taken = None;
        agent.wait(None, &mut || {
            taken = self.0.try_read();
            taken.is_some()
        });
        RwLockReadGuard(taken.unwrap_or_else(|| self.0.read()))
    }

    /// Waits for exclusive access. A simulated thread may be switched first.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        step();
        match self.0.try_write() {
            Some(guard) => RwLockWriteGuard(guard),
            None => self.write_slow(),
        }
    }

    #[cold]
    fn write_slow(&self) -> RwLockWriteGuard<'_, T> {
        let Some(agent) = agent() else { return RwLockWriteGuard(self.0.write()) };
        let mut taken = None;
        agent.wait(None, &mut || {
            taken = self.0.try_write();
            taken.is_some()
        });
        RwLockWriteGuard(taken.unwrap_or_else(|| self.0.write()))
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
