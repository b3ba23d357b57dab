//! The place of a shadow: of a directory page, or of an index' leaf.

use perdura_log::Csn;
use perdura_pmem::ahead::prefetch;
use perdura_pmem::sync::{Mutex, MutexGuard};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// State in DRAM of a page or a leaf that transactions write, or have written lately.
pub(crate) trait Shadow: Default {
    /// Whether it says nothing that is not on the medium.
    fn is_empty(&self) -> bool;

    /// The CSN from which on snapshots see what is on the medium, 0 for all of them; `None` while
    /// anything is to be stored or undone.
    fn settled_at(&self) -> Option<Csn>;
}

/// The place of a shadow.
///
/// A reader looks at the *mark* of the place before and after it loads words: an even mark that did
/// not move says that nobody was changing anything all the while. Then what is on the medium is
/// what every snapshot sees, or, if there is a shadow, every snapshot from the newest commit in it
/// on. So a shadow that is there for an older snapshot alone costs only who reads at that one.
/// Everything else happens under the lock.
pub(crate) struct Slot<T> {
    /// Odd while there is a shadow that is not settled, or may come to be so under the lock; it
    /// grows whenever that changes.
    mark: AtomicU64,
    /// While the mark is even: where the shadow is settled; 0 without one.
    settled: AtomicU64,
    shadow: Mutex<Option<Box<T>>>,
    /// Address of the newest shadow, to ask for it ahead of the lock.
    address: AtomicUsize,
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        let (mark, settled, address) = (AtomicU64::new(0), AtomicU64::new(0), AtomicUsize::new(0));
        Slot { mark, settled, shadow: Mutex::new(None), address }
    }
}

impl<T: Shadow> Slot<T> {
    /// The mark of a place where `snapshot` sees what is on the medium, to be checked by
    /// [`Slot::is_still`] after words are loaded; `None` if the shadow has to be asked.
    #[inline]
    pub(crate) fn quiet(&self, snapshot: Csn) -> Option<u64> {
        let mark = self.mark.load(Ordering::Acquire);
        // Purge alone lowers it, and only below all snapshots.
        let is_settled = self.settled.load(Ordering::Relaxed) <= snapshot;
        (mark.is_multiple_of(2) && is_settled).then_some(mark)
    }

    /// Whether nobody has changed anything since [`Slot::quiet`] returned `mark`.
    #[inline]
    pub(crate) fn is_still(&self, mark: u64) -> bool {
        fence(Ordering::Acquire);
        self.mark.load(Ordering::Relaxed) == mark
    }

    /// Locks the shadow, made now if there is none.
    pub(crate) fn lock(&self) -> Locked<'_, T> {
        let mut guard = self.shadow.lock();
        if guard.is_none() {
            let shadow = guard.insert(Box::default());
            self.address.store(std::ptr::from_ref(&**shadow).addr(), Ordering::Relaxed);
        }
        if self.is_even() {
            // Whoever stores a word does so later, under the lock.
            self.mark.fetch_add(1, Ordering::AcqRel);
        }
        Locked { slot: self, guard }
    }

    /// Whether the mark is even. It moves under the lock only.
    fn is_even(&self) -> bool {
        self.mark.load(Ordering::Relaxed).is_multiple_of(2)
    }

    /// Calls `body` while there is no shadow and gets none. Returns whether it did. Readers that
    /// looked at the mark before look again.
    pub(crate) fn while_empty(&self, body: impl FnOnce()) -> bool {
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
    pub(crate) fn prefetch(&self) {
        prefetch(std::ptr::from_ref(self).addr());
    }

    /// Asks for the shadow, once the place itself has come.
    #[inline]
    pub(crate) fn prefetch_shadow(&self) {
        let address = self.address.load(Ordering::Relaxed);
        prefetch(address);
        prefetch(address.wrapping_add(perdura_pmem::LINE_BYTES as usize));
    }

    /// Locks the shadow, if there is one. A caller that is about to store words has entered what it
    /// stores before, so the mark is odd.
    pub(crate) fn lock_existing(&self) -> Option<Locked<'_, T>> {
        let guard = self.shadow.lock();
        guard.is_some().then(|| Locked { slot: self, guard })
    }
}

/// A shadow, locked. It goes away with the lock once it is empty.
pub(crate) struct Locked<'a, T: Shadow> {
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
        let Some(shadow) = self.guard.as_ref() else { return };
        let (is_even, settled) = (self.slot.is_even(), shadow.settled_at());
        if shadow.is_empty() {
            *self.guard = None;
        }
        if let Some(csn) = settled {
            self.slot.settled.store(csn, Ordering::Relaxed);
        }
        if is_even != settled.is_some() {
            self.slot.mark.fetch_add(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes under way, and the newest stored commit.
    #[derive(Default)]
    struct Known(u32, Csn);

    impl Shadow for Known {
        fn is_empty(&self) -> bool {
            self.0 == 0 && self.1 == 0
        }

        fn settled_at(&self) -> Option<Csn> {
            (self.0 == 0).then_some(self.1)
        }
    }

    #[test]
    fn a_settled_shadow_is_asked_by_older_snapshots_only() {
        let slot = Slot::<Known>::default();
        let before = slot.quiet(1).expect("no shadow");
        slot.lock().0 = 1;
        assert!(slot.quiet(Csn::MAX).is_none() && !slot.is_still(before), "a change is under way");
        *slot.lock_existing().expect("a change") = Known(0, 7);
        assert!(slot.quiet(6).is_none());
        let beside = slot.quiet(7).expect("it sees all that is stored");
        let locked = slot.lock();
        assert!(slot.quiet(7).is_none() && !slot.is_still(beside), "the holder of the lock may change it");
        drop(locked);
        let again = slot.quiet(7).expect("nothing has changed");
        slot.lock_existing().expect("an undo record").1 = 0;
        assert!(slot.lock_existing().is_none() && slot.is_still(again), "purge disturbs nobody");
        assert_eq!(slot.quiet(0), Some(again));
    }
}
