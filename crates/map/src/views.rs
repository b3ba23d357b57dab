//! Which timestamps reads may use: the mark below which versions are forgotten, and the views that hold it.
//!
//! A reader of one moment compares its timestamp with the mark after it has pinned, and is safe: what is forgotten later is
//! not reused while it is pinned. A view stays readable for longer, so it holds the mark.
//!
//! The mark rises under the writer's lock, to at most the oldest view. A view enters itself, fences, and looks at the mark;
//! the writer stores the mark, fences, and looks at the views. If both come at once, the writer sees the view; it then waits
//! for the view to have looked, and lowers the mark again if the view was let in.
//!
//! Thread-safety: all of it is shared; marks are raised and set under the writer's lock. Keeps (I8).

use crate::timestamps::Ts;
use perdura_pmem::planted;
use perdura_pmem::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The mark and the views.
#[derive(Default)]
pub(crate) struct Views {
    forgotten: AtomicU64,
    /// The oldest view's timestamp with all bits turned; 0, which stands for `Ts::MAX`, if there is none.
    oldest: AtomicU64,
    held: Mutex<BTreeMap<Ts, u64>>,
    /// Counts the contents that loads have replaced.
    loads: AtomicU64,
}

impl Views {
    #[inline]
    pub(crate) fn forgotten(&self) -> Ts {
        self.forgotten.load(Ordering::Acquire)
    }

    pub(crate) fn loads(&self) -> u64 {
        self.loads.load(Ordering::Acquire)
    }

    fn oldest(&self) -> Ts {
        // Planted: a view does not hold the mark.
        if planted(116) { Ts::MAX } else { !self.oldest.load(Ordering::Acquire) }
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

    /// Ends a view. Returns whether it was the oldest.
    pub(crate) fn leave(&self, at: Ts) -> bool {
        let mut held = self.held.lock();
        self.remove(&mut held, at);
        !held.contains_key(&at) && held.keys().next().is_none_or(|oldest| *oldest > at)
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

    /// Sets the mark for another content, which `replace` puts in force, and ends what views of the old one may expect.
    pub(crate) fn replaced(&self, forgotten: Ts, replace: impl FnOnce()) {
        // A mark that rises is stored before the content that needs it, one that falls after. Readers load it before and
        // after.
        self.forgotten.store(self.forgotten().max(forgotten), Ordering::Release);
        self.loads.fetch_add(1, Ordering::AcqRel);
        replace();
        self.forgotten.store(forgotten, Ordering::Release);
    }

    /// Sets the mark of a map that was just opened.
    pub(crate) fn open(forgotten: Ts) -> Views {
        Views { forgotten: AtomicU64::new(forgotten), ..Views::default() }
    }
}
