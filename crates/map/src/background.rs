//! The background thread of a map: it persists idle batches, sweeps the index, and collects garbage
//! when there is enough of it.
//!
//! While there is work it wakes once per interval. After a few rounds without any it sleeps until a
//! change wakes it.

use crate::collector::{Aim, is_tight, space_of};
use crate::error::{ErrorKind, Result};
use crate::state::{Core, State};
use crate::structure::Structure;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// Lower bound of [`crate::Config::interval`].
const INTERVAL_MIN: Duration = Duration::from_micros(50);
/// Forgotten deletions in the index beyond which they are swept at once, and not only when the map
/// is idle: so many, and this share of the versions, so that one sweep of a leaf finds several.
const SWEEPS_MAX: u64 = 1 << 16;
const VERSIONS_PER_SWEEP: u64 = 4;
/// A map that has lost more than this share of its live bytes since the look before, or so many
/// pages of them, is shrinking.
const SHRINKING_SHARE: u64 = 64;
const SHRINKING_PAGES: u64 = 16;
/// Rounds without work before the thread sleeps.
const IDLE_LOOKS: u32 = 3;

/// The running thread. Dropping it stops and joins the thread.
pub(crate) struct Background {
    stop: Box<dyn Fn() + Send + Sync>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Error: `Medium` when the system refuses to start a thread.
    pub(crate) fn start<I: Structure>(core: Arc<Core<I>>) -> Result<Background> {
        let spawned = std::thread::Builder::new().name("perdura-map".into()).spawn({
            let core = core.clone();
            move || run(&core)
        });
        match spawned {
            Ok(thread) => Ok(Background { stop: Box::new(move || core.wake.stop()), thread: Some(thread) }),
            Err(error) => {
                let what = format!("no thread for the background work: {error}; raise the limit, or do without");
                Err(core.error(ErrorKind::Medium, what).caused_by(error))
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        (self.stop)();
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a thread that panicked.
            let _ = thread.join();
        }
    }
}

/// Findings of a look at the map.
#[derive(Default)]
struct Look {
    /// Number of the next persist. While it stays, and the map is clean, nothing has changed.
    number: u64,
    live: u64,
    /// Whether a change came since the look before, or something that waits has left.
    is_busy: bool,
    wants_forget: bool,
    wants_sweep: bool,
    wants_collection: bool,
}

impl<I: Structure> Core<I> {
    /// Asks for a round, without waiting. Returns whether there is a thread that runs it.
    pub(crate) fn ask_collection(&self) -> bool {
        if self.config.background {
            self.asked.store(true, Ordering::SeqCst);
            self.wake.notify();
        }
        self.config.background
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Persists, and looks what there is to do.
    fn look(&self, before: &Look) -> Look {
        let mut state = self.state.lock_behind();
        let is_busy = state.is_dirty || state.pages.number() != before.number;
        self.persist(&mut state);
        let has_more = self.free_what_left(&mut state);
        let live = state.pages.live_bytes();
        // While much is being deleted or forgotten, pages empty by themselves, and what a round
        // moved would soon die.
        let much = (before.live / SHRINKING_SHARE).min(SHRINKING_PAGES * state.pages.geometry.page_bytes);
        let is_shrinking = before.live.saturating_sub(live) > much;
        let to_sweep = state.to_sweep.len() as u64;
        let most = SWEEPS_MAX + state.versions / VERSIONS_PER_SWEEP;
        Look {
            number: state.pages.number(),
            live,
            is_busy: is_busy || state.is_dirty || has_more,
            wants_forget: self.wants_forget(&state),
            wants_sweep: to_sweep > most || !is_busy && to_sweep > 0,
            wants_collection: (!is_shrinking || is_tight(&space_of(&state))) && self.wants_collection(&state),
        }
    }

    /// Whether a change came since a look, or there is something to do.
    fn has_work(&self, look: &Look, refused: bool) -> bool {
        let state = self.state.lock_behind();
        let has_changed = state.is_dirty || state.pages.number() != look.number || self.is_asked();
        has_changed || self.wants_forget(&state) || !refused && self.wants_collection(&state)
    }

    /// Whether there is something to forget that views do not hold any more.
    fn wants_forget(&self, state: &State<I>) -> bool {
        let up_to = state.forget_to.min(self.views.oldest());
        up_to > state.times.forgotten && self.check_revisable(state).is_ok()
    }
}

fn run<I: Structure>(core: &Core<I>) {
    let interval = core.config.interval.max(INTERVAL_MIN);
    let mut idle = 0;
    // Reads report damage to their callers. The collector stays off the map.
    let mut refused = {
        let _collector = core.collector.lock();
        core.traverse().is_err()
    };
    let mut look = core.look(&Look::default());
    while core.wake.wait(Some(interval)) {
        look = core.look(&look);
        if look.wants_forget {
            // Only a load, or a map that cannot be changed, refuses it.
            _ = core.forget_rest();
        }
        let mut freed = 0;
        // A round that was asked for and is left out is put off, not given up.
        let (is_asked, is_put_off) = (core.is_asked(), core.leaves_rounds_out());
        if (look.wants_collection || is_asked) && !refused {
            match core.collect_to(if is_asked { Aim::Thorough } else { Aim::Sparing }) {
                Ok(bytes) => freed = bytes,
                Err(_) => refused = true,
            }
        } else if look.wants_sweep && !refused {
            refused = core.sweep().is_err();
        }
        if is_asked && !is_put_off {
            core.asked.store(false, Ordering::SeqCst);
        }
        idle = if look.is_busy || freed > 0 { 0 } else { idle + 1 };
        if idle >= IDLE_LOOKS {
            core.asleep.store(true, Ordering::SeqCst);
            // A change made before the flag was visible did not wake this thread: look once more.
            let goes_on = core.has_work(&look, refused) || core.wake.wait(None);
            core.asleep.store(false, Ordering::SeqCst);
            if !goes_on {
                return;
            }
            idle = 0;
        }
    }
}
