//! The background thread of a map: it persists idle batches, maps pages ahead of the writer, sweeps
//! the index, and collects garbage when there is enough of it.
//!
//! While there is work it wakes once per interval. After a few rounds without any it sleeps until a
//! change wakes it.

use crate::error::{ErrorKind, Result};
use crate::index::Index;
use crate::memory::prefault::Prefault;
use crate::state::State;
use crate::state::core::Core;
use crate::upkeep::collection;
use crate::upkeep::round::{Aim, Round, is_tight, pays, sweep};
use crate::upkeep::structure::Structure;
use std::sync::Arc;
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
            Ok(thread) => Ok(Background { stop: Box::new(move || core.shared.wake.stop()), thread: Some(thread) }),
            Err(error) => {
                let what = format!("no thread for the background work: {error}; raise the limit, or do without");
                Err(core.shared.records.error(ErrorKind::Medium, what).caused_by(error))
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
    /// Offset that the writer has reached, if it has written.
    writing_at: Option<u64>,
    /// Whether a change came since the look before, or something that waits has left.
    is_busy: bool,
    wants_forget: bool,
    wants_sweep: bool,
    wants_collection: bool,
}

impl Look {
    /// Persists, and looks what there is to do.
    fn take<I: Index>(core: &Core<I>, before: &Look) -> Look {
        let shared = &core.shared;
        let mut state = core.state.lock_behind();
        let is_busy = !state.is_unchanged(before.number);
        state.persist(shared);
        if !is_busy {
            // Else the last few nodes would stay retired until the next change retires more.
            let State { writer, pages, .. } = &mut *state;
            I::leave_retired(writer, pages, &shared.pins);
        }
        let has_more = state.free_ended(shared);
        let live = state.pages.live_bytes();
        // While much is being deleted or forgotten, pages empty by themselves, and what a round
        // moved would soon die.
        let much = (before.live / SHRINKING_SHARE).min(SHRINKING_PAGES * state.pages.geometry.page_bytes);
        let is_shrinking = before.live.saturating_sub(live) > much;
        let to_sweep = state.ended.to_sweep() as u64;
        let most = SWEEPS_MAX + state.history.versions() / VERSIONS_PER_SWEEP;
        Look {
            number: state.pages.number(),
            live,
            writing_at: state.pages.writing_at(),
            is_busy: is_busy || state.is_dirty() || has_more,
            wants_forget: state.wants_forget(shared),
            wants_sweep: to_sweep > most || !is_busy && to_sweep > 0,
            wants_collection: (!is_shrinking || is_tight(&state.space())) && pays(&state, &core.collector),
        }
    }

    /// Whether a change came since, or there is something to do.
    fn has_work<I: Index>(&self, core: &Core<I>, refused: bool) -> bool {
        let state = core.state.lock_behind();
        let has_changed = !state.is_unchanged(self.number) || core.is_asked();
        has_changed || state.wants_forget(&core.shared) || !refused && pays(&state, &core.collector)
    }
}

fn run<I: Structure>(core: &Core<I>) {
    let Core { shared, state, collector, .. } = core;
    let interval = shared.config.interval.max(INTERVAL_MIN);
    let mut idle = 0;
    // Reads report damage to their callers. The collector stays off the map.
    let mut refused = Round::begin(core).traverse().is_err();
    let mut look = Look::take(core, &Look::default());
    let mut prefault = Prefault::new(&shared.records.region, &shared.records.geometry);
    while shared.wake.wait(Some(interval)) {
        look = Look::take(core, &look);
        let is_behind = look.writing_at.is_some_and(|at| prefault.follow(at));
        if look.wants_forget {
            // Only a load, or a map that cannot be changed, refuses it.
            _ = core.forget_rest();
        }
        let mut freed = 0;
        // A round that was asked for and is left out is put off, not given up.
        let (is_asked, is_put_off) = (collector.is_asked(), collector.leaves_rounds_out());
        if (look.wants_collection || is_asked) && !refused {
            match collection::run(Round::begin(core), if is_asked { Aim::Thorough } else { Aim::Sparing }) {
                Ok(bytes) => freed = bytes,
                Err(_) => refused = true,
            }
        } else if look.wants_sweep && !refused {
            refused = sweep(shared, state, collector).is_err();
        }
        if is_asked && !is_put_off {
            collector.set_asked(false);
        }
        idle = if look.is_busy || is_behind || freed > 0 { 0 } else { idle + 1 };
        if idle >= IDLE_LOOKS {
            shared.wake.set_asleep(true);
            // A change made before the flag was visible did not wake this thread: look once more.
            let goes_on = look.has_work(core, refused) || shared.wake.wait(None);
            shared.wake.set_asleep(false);
            if !goes_on {
                return;
            }
            idle = 0;
        }
    }
}
