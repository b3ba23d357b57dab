//! Parts of a map that readers use without the writer's lock.

use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::pin::Pins;
use crate::memory::record::Records;
use crate::state::views::Views;
use crate::state::wake::Wake;
use crate::timestamps::Ts;
use std::sync::atomic::{AtomicBool, Ordering};

/// The parts that readers share with the writer.
pub(crate) struct Shared<I> {
    pub(crate) config: Config,
    pub(crate) records: Records,
    pub(crate) index: I,
    pub(crate) pins: Pins,
    pub(crate) views: Views,
    pub(crate) wake: Wake,
    /// Whether the content is not that of any moment, since a load that had emptied the map did not
    /// end.
    is_partial: AtomicBool,
}

impl<I> Shared<I> {
    pub(crate) fn new(config: Config, records: Records, index: I, forgotten: Ts, is_partial: bool) -> Shared<I> {
        Shared {
            config,
            records,
            index,
            pins: Pins::new(),
            views: Views::open(forgotten),
            wake: Wake::default(),
            is_partial: AtomicBool::new(is_partial),
        }
    }

    /// Checks that `at` may be read. Error: `Forgotten`, `Partial`.
    #[inline]
    pub(crate) fn check_readable(&self, at: Ts) -> Result<()> {
        let forgotten = self.views.forgotten();
        // With the content that a read has seen, it sees whether that is one (Acquire).
        if at >= forgotten && !self.is_partial.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(self.unreadable(at, forgotten))
    }

    #[cold]
    pub(crate) fn unreadable(&self, at: Ts, forgotten: Ts) -> Error {
        if self.is_partial() {
            return self.partial();
        }
        self.records.error(ErrorKind::Forgotten, format!("versions below {forgotten} are forgotten, read at {at}"))
    }

    #[cold]
    pub(crate) fn partial(&self) -> Error {
        let what = "a load that had emptied the map did not end; load a snapshot";
        self.records.error(ErrorKind::Partial, what.into())
    }

    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial.load(Ordering::Relaxed)
    }

    /// Fails if a load has replaced the content since the count of loads was this.
    pub(crate) fn check_loads(&self, at: Ts, loads: u64) -> Result<()> {
        if self.views.is_still(loads) {
            return Ok(());
        }
        Err(self.unreadable(at, self.views.forgotten()))
    }

    /// Replaces the content by one that `install` makes current. With `is_partial` the map can only
    /// be loaded from then on.
    pub(crate) fn replace(&self, forgotten: Ts, is_partial: bool, install: impl FnOnce()) {
        // A reader that sees an empty map in the place of another sees that it is partial, and one
        // that sees it whole sees the content.
        self.is_partial.fetch_or(is_partial, Ordering::Release);
        self.views.replaced(forgotten, install);
        self.is_partial.store(is_partial, Ordering::Release);
    }
}
