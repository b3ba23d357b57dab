//! The place of a shadow: of a directory page, or of an index' leaf.
//!
//! A reader looks at the *mark* of the place before and after it loads words: an even mark that did not move says that there
//! was no shadow all the while, so what is on the medium is what every snapshot sees. Everything else happens under the
//! lock.

use perdura_pmem::ahead::prefetch;
use perdura_pmem::sync::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// What DRAM knows of a page or a leaf that transactions write, or have written lately.
pub trait Shadow: Default {
    /// Whether it says nothing that is not on the medium.
    fn is_empty(&self) -> bool;
}

/// The place of a shadow.
pub struct Slot<T> {
    /// Odd while there is a shadow; it grows whenever one comes or goes.
    mark: AtomicU64,
    shadow: Mutex<Option<Box<T>>>,
    /// Address of the newest shadow, to ask for it ahead of the lock.
    address: AtomicUsize,
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot { mark: AtomicU64::new(0), shadow: Mutex::new(None), address: AtomicUsize::new(0) }
    }
}

impl<T: Shadow> Slot<T> {
    /// The mark of a place without a shadow, to be checked by [`Slot::is_still`] after words are loaded; `None` if there
    /// is a shadow.
    #[inline]
    pub fn quiet(&self) -> Option<u64> {
        let mark = self.mark.load(Ordering::Acquire);
        mark.is_multiple_of(2).then_some(mark)
    }

    /// Whether no shadow has come since [`Slot::quiet`] returned `mark`.
    #[inline]
    pub fn is_still(&self, mark: u64) -> bool {
        fence(Ordering::Acquire);
        self.mark.load(Ordering::Relaxed) == mark
    }

    /// Locks the shadow, made now if there is none.
    pub fn lock(&self) -> Locked<'_, T> {
        let mut guard = self.shadow.lock();
        if guard.is_none() {
            let shadow = guard.insert(Box::default());
            self.address.store(std::ptr::from_ref(&**shadow).addr(), Ordering::Relaxed);
            // Whoever stores a word does so later, under the lock.
            self.mark.fetch_add(1, Ordering::AcqRel);
        }
        Locked { slot: self, guard }
    }

    /// Calls `body` while there is no shadow and gets none. Returns whether it did. Readers that looked at the mark
    /// before look again.
    pub fn while_empty(&self, body: impl FnOnce()) -> bool {
        let guard = self.shadow.lock();
        if guard.is_some() {
            return false;
        }
        self.mark.fetch_add(2, Ordering::AcqRel);
        body();
        true
    }

    /// Asks for the place, which is to be locked soon.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(std::ptr::from_ref(self).addr());
    }

    /// Asks for the shadow, once the place itself has come.
    #[inline]
    pub fn prefetch_shadow(&self) {
        let address = self.address.load(Ordering::Relaxed);
        prefetch(address);
        prefetch(address.wrapping_add(perdura_pmem::LINE_BYTES as usize));
    }

    /// Locks the shadow, if there is one.
    pub fn lock_existing(&self) -> Option<Locked<'_, T>> {
        let guard = self.shadow.lock();
        guard.is_some().then(|| Locked { slot: self, guard })
    }
}

/// A shadow, locked. It goes away with the lock once it is empty.
pub struct Locked<'a, T: Shadow> {
    slot: &'a Slot<T>,
    guard: MutexGuard<'a, Option<Box<T>>>,
}

impl<T: Shadow> Deref for Locked<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.guard.as_ref().expect("what is locked has a shadow")
    }
}

impl<T: Shadow> DerefMut for Locked<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("what is locked has a shadow")
    }
}

impl<T: Shadow> Drop for Locked<'_, T> {
    fn drop(&mut self) {
        if self.guard.as_ref().is_some_and(|shadow| shadow.is_empty()) {
            *self.guard = None;
            self.slot.mark.fetch_add(1, Ordering::AcqRel);
        }
    }
}
