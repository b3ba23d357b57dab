//! Timestamps that reads may use: the mark below which versions are forgotten, and the views that
//! hold it.
//!
//! A reader of one moment compares its timestamp with the mark after it has pinned, and is safe:
//! what is forgotten later is not reused while it is pinned. A view stays readable for longer, so
//! it holds the mark.
//!
//! The mark rises under the writer's lock, to at most the oldest view. A view enters itself,
//! fences, and looks at the mark; the writer stores the mark, fences, and looks at the views. If
//! both come at once, the writer sees the view; it then waits for the view to have looked, and
//! lowers the mark again if the view was let in. Until then the mark stands above that view:
//! a reader under a view does not ask the mark.
//!
//! Thread-safety: all of it is shared; marks are raised and set under the writer's lock. Keeps
//! (I8).

use crate::timestamps::Ts;
use perdura_pmem::sync::{Mutex, yield_now};
use perdura_pmem::{Mutant, planted};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The mark and the views.
#[derive(Default)]
pub(crate) struct Views {
    forgotten: AtomicU64,
    /// The oldest view's timestamp with all bits turned; 0, which stands for `Ts::MAX`, if there is
    /// none.
    oldest: AtomicU64,
    held: Mutex<BTreeMap<Ts, u64>>,
    /// Timestamp below which callers have asked to forget while a view was in the way.
    wanted: AtomicU64,
    /// Counts the moments before and after a load's content replaces another: odd in between.
    loads: AtomicU64,
}

impl Views {
    #[inline]
    pub(crate) fn forgotten(&self) -> Ts {
        self.forgotten.load(Ordering::Acquire)
    }

    /// The count that a current content has, for [`Views::is_still`]. While one replaces another,
    /// which is a matter of some stores, it waits.
    pub(crate) fn loads(&self) -> u64 {
        loop {
            let loads = self.loads.load(Ordering::Acquire);
            if loads.is_multiple_of(2) {
                return loads;
            }
            yield_now();
        }
    }

    /// Whether all that was read since [`Views::loads`] is of one content.
    pub(crate) fn is_still(&self, loads: u64) -> bool {
        fence(Ordering::Acquire);
        self.loads.load(Ordering::Relaxed) == loads
    }

    /// The oldest timestamp that a view holds, or `Ts::MAX`.
    pub(crate) fn oldest(&self) -> Ts {
        // Planted: a view does not hold the mark.
        if planted(Mutant::ViewHoldsNoForgetting) { Ts::MAX } else { !self.oldest.load(Ordering::Acquire) }
    }

    /// Enters a view at `at`, unless that is below the mark, which is returned then.
    pub(crate) fn enter(&self, at: Ts) -> Result<(), Ts> {
        let mut held = self.held.lock();
        *held.entry(at).or_default() += 1;
        self.note(&held);
        fence(Ordering::SeqCst);
        let forgotten = self.forgotten();
        if at >= forgotten {
            return Ok(());
        }
        self.remove(&mut held, at);
        Err(forgotten)
    }

    /// Enters a view at `at`, where the caller holds one, whatever the mark says.
    pub(crate) fn enter_again(&self, at: Ts) {
        *self.held.lock().entry(at).or_default() += 1;
    }

    /// Ends a view.
    pub(crate) fn leave(&self, at: Ts) {
        self.remove(&mut self.held.lock(), at);
    }

    /// Says that a view is in the way of forgetting up to `wanted`. Returns whether it has left
    /// meanwhile; otherwise it finds that there is something to go on with.
    #[cold]
    pub(crate) fn is_out_of_the_way(&self, wanted: Ts) -> bool {
        self.wanted.store(wanted, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.oldest() > self.forgotten()
    }

    /// Whether there is something to forget that a view was in the way of which has left. Takes no
    /// lock.
    pub(crate) fn is_free_to_forget(&self) -> bool {
        fence(Ordering::SeqCst);
        self.wanted.load(Ordering::Relaxed).min(self.oldest()) > self.forgotten()
    }

    fn remove(&self, held: &mut BTreeMap<Ts, u64>, at: Ts) {
        if let Some(count) = held.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                held.remove(&at);
            }
        }
        self.note(held);
    }

    fn note(&self, held: &BTreeMap<Ts, u64>) {
        self.oldest.store(!held.keys().next().copied().unwrap_or(Ts::MAX), Ordering::Release);
    }

    /// Raises the mark to `up_to`, or as far as views allow. Returns the mark.
    #[inline]
    pub(crate) fn raise(&self, up_to: Ts) -> Ts {
        let before = self.forgotten();
        let target = up_to.min(self.oldest()).max(before);
        if target == before {
            return before;
        }
        self.forgotten.store(target, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.oldest() < target {
            return self.lower(before);
        }
        target
    }

    /// A view came while the mark rose.
    #[cold]
    fn lower(&self, before: Ts) -> Ts {
        let held = self.held.lock();
        let target = held.keys().next().map_or(self.forgotten(), |oldest| (*oldest).min(self.forgotten())).max(before);
        self.forgotten.store(target, Ordering::Release);
        target
    }

    /// Sets the mark for another content, which `replace` installs, and ends what views of the old
    /// one may expect.
    pub(crate) fn replaced(&self, forgotten: Ts, replace: impl FnOnce()) {
        // A mark that rises is stored before the content that needs it, one that falls after.
        // Readers load it before and after.
        self.forgotten.store(self.forgotten().max(forgotten), Ordering::Release);
        self.wanted.store(0, Ordering::Relaxed);
        self.loads.fetch_add(1, Ordering::AcqRel);
        replace();
        self.loads.fetch_add(1, Ordering::AcqRel);
        self.forgotten.store(forgotten, Ordering::Release);
    }

    /// Sets the mark of a map that was just opened.
    pub(crate) fn open(forgotten: Ts) -> Views {
        Views { forgotten: AtomicU64::new(forgotten), ..Views::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::Views;
    use std::sync::mpsc;
    use std::time::Duration;

    /// Found: a view that began while one content replaced another saw both.
    #[test]
    fn a_view_is_of_one_content() {
        let views = Views::open(0);
        let before = views.loads();
        let (entered, enters) = mpsc::channel();
        std::thread::scope(|scope| {
            views.replaced(7, || {
                assert!(!views.is_still(before), "what is read from now on may be the new content");
                scope.spawn(|| entered.send(views.loads()).expect("somebody waits"));
                let early = enters.recv_timeout(Duration::from_millis(20));
                assert!(early.is_err(), "what is read from now on may be either content");
            });
            let between = enters.recv_timeout(Duration::from_secs(20)).expect("it goes on");
            assert!(views.is_still(between) && !views.is_still(before));
        });
        assert_eq!(views.forgotten(), 7);
    }
}
