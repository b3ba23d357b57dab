//! Stores of a recorded region: each takes effect and reports to the tap, in one order for all
//! threads.
//!
//! On a page medium that has failed a store takes effect and reports nothing: it reaches no file.
//! Every event may first pass the scheduler's token on, so that a seed decides the interleaving.

use super::syncs::Syncs;
use crate::sync::{fencing, reached, step};
use crate::trace::{Access, Site, Tap};
use crate::units::WORD_BYTES;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The tap of a medium, and the lock that orders its events.
#[derive(Clone)]
pub(crate) struct Wire {
    tap: Arc<dyn Tap>,
    order: Arc<Mutex<()>>,
    /// Those of a page medium.
    syncs: Option<Arc<Syncs>>,
}

impl Wire {
    pub(crate) fn new(tap: Arc<dyn Tap>, syncs: Option<Arc<Syncs>>) -> Wire {
        Wire { tap, order: Arc::default(), syncs }
    }

    /// May switch threads, then keeps all other events of the medium out until dropped.
    pub(crate) fn begin(&self) -> Event<'_> {
        step();
        self.hold()
    }

    /// Keeps all events of the medium out until dropped.
    pub(crate) fn hold(&self) -> Event<'_> {
        let order = self.order.lock();
        let has_failed = self.syncs.as_ref().is_some_and(|syncs| syncs.has_failed());
        Event { tap: (!has_failed).then_some(&*self.tap), _order: order }
    }
}

/// An event about to happen.
pub(crate) struct Event<'a> {
    /// None once the medium has failed.
    tap: Option<&'a dyn Tap>,
    _order: MutexGuard<'a, ()>,
}

impl Event<'_> {
    pub(crate) fn record(&self, access: Access<'_>, site: Site) {
        self.tap.inspect(|tap| tap.record(access, site));
        reached(site);
    }
}

/// A region's place on the wire.
pub(crate) struct Hook {
    pub(crate) region: u32,
    pub(crate) wire: Wire,
}

impl Hook {
    pub(crate) fn store(&self, offset: u64, word: &AtomicU64, value: u64, site: Site) {
        let event = self.wire.begin();
        word.store(value, Ordering::Release);
        event.record(Access::Store { region: self.region, offset, words: &[value], nt: false }, site);
    }

    pub(crate) fn compare_exchange(
        &self,
        offset: u64,
        word: &AtomicU64,
        current: u64,
        new: u64,
        site: Site,
    ) -> Result<u64, u64> {
        let event = self.wire.begin();
        let result = word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
        if result.is_ok() {
            event.record(Access::Store { region: self.region, offset, words: &[new], nt: false }, site);
        }
        result
    }

    /// Copies `source` to `target`, which lies at `offset` of the region.
    ///
    /// # Safety
    /// `target` is valid for writes of `source.len()` bytes, the words it touches are within one
    /// allocation, and all other stores to the region go through a hook of the same wire.
    pub(crate) unsafe fn write(&self, target: *mut u8, offset: u64, source: &[u8], nt: bool, site: Site) {
        if source.is_empty() {
            return;
        }
        let event = self.wire.begin();
        // SAFETY: valid for writes by the caller's promise; a shared slice is not part of what is
        // written.
        unsafe { target.copy_from_nonoverlapping(source.as_ptr(), source.len()) };
        // SAFETY: as the caller promises; the wire is held.
        unsafe { self.record_words(&event, target, offset, source.len() as u64, nt, site) };
    }

    /// Zeroes `len` bytes at `target`, which lies at `offset` of the region.
    ///
    /// # Safety
    /// As for [`Hook::write`].
    pub(crate) unsafe fn zero(&self, target: *mut u8, offset: u64, len: u64, site: Site) {
        if len == 0 {
            return;
        }
        let event = self.wire.begin();
        // SAFETY: valid for writes by the caller's promise.
        unsafe { target.write_bytes(0, len as usize) };
        // SAFETY: as the caller promises; the wire is held.
        unsafe { self.record_words(&event, target, offset, len, true, site) };
    }

    /// # Safety
    /// As for [`Hook::write`], with `event` holding the wire.
    unsafe fn record_words(&self, event: &Event<'_>, target: *mut u8, offset: u64, len: u64, nt: bool, site: Site) {
        let begin = offset - offset % WORD_BYTES;
        let count = (offset + len).div_ceil(WORD_BYTES) - begin / WORD_BYTES;
        // SAFETY: the words touched are within the allocation, aligned because the region is, and
        // not stored to while the wire is held.
        let words = unsafe {
            std::slice::from_raw_parts(target.sub((offset - begin) as usize).cast::<u64>().cast_const(), count as usize)
        };
        event.record(Access::Store { region: self.region, offset: begin, words, nt }, site);
    }

    pub(crate) fn flush(&self, offset: u64, len: u64, site: Site) {
        if len > 0 {
            self.wire.begin().record(Access::Flush { region: self.region, offset, len }, site);
        }
    }

    pub(crate) fn reclaim(&self, offset: u64, len: u64, site: Site) {
        if len > 0 {
            self.wire.begin().record(Access::Reclaim { region: self.region, offset, len }, site);
        }
    }

    pub(crate) fn fence(&self, site: Site) {
        fencing(site);
        let event = self.wire.begin();
        let synced = self.wire.syncs.as_ref().is_none_or(|syncs| syncs.sync("a file flushed before", "sync").is_ok());
        if synced {
            event.record(Access::Fence, site);
        }
    }

    pub(crate) fn sync(&self, site: Site) {
        self.wire.begin().record(Access::Sync { region: self.region }, site);
    }
}
