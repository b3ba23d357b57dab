//! The background thread of a map: it confirms idle batches, sweeps the index, and collects garbage when there is enough of it.
//!
//! While there is work it wakes once per interval. After a few rounds without any it sleeps until a change wakes it.

use crate::error::{ErrorKind, Result};
use crate::state::Core;
use crate::structure::Structure;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// Lower bound of [`crate::Config::interval`].
const INTERVAL_MIN: Duration = Duration::from_micros(50);
/// Forgotten deletions in the index beyond which they are swept at once, and not only when the map is idle.
const SWEEPS_MAX: usize = 1 << 16;
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

fn run<I: Structure>(core: &Core<I>) {
    let interval = core.config.interval.max(INTERVAL_MIN);
    let mut idle = 0;
    let mut refused = false;
    let mut number = 0;
    let traversed = {
        let _collector = core.collector.lock();
        core.traverse()
    };
    if traversed.is_err() {
        // Reads report the damage to their callers. The collector stays off the map.
        refused = true;
    }
    loop {
        if !core.wake.wait(Some(interval)) {
            return;
        }
        let (was_dirty, wants_sweep, wants_collection) = {
            let mut state = core.state.lock_behind();
            let was_dirty = state.is_dirty;
            let is_idle = !was_dirty && state.pages.number() == number;
            core.confirm(&mut state);
            number = state.pages.number();
            let wants_sweep = state.to_sweep.len() > SWEEPS_MAX || is_idle && !state.to_sweep.is_empty();
            (was_dirty, wants_sweep && !refused, !refused && core.wants_collection(&state))
        };
        if wants_sweep && !wants_collection {
            refused = core.sweep().is_err();
        }
        let mut freed = 0;
        if wants_collection {
            match core.collect() {
                Ok(bytes) => freed = bytes,
                Err(_) => refused = true,
            }
        }
        idle = if was_dirty || freed > 0 { 0 } else { idle + 1 };
        if idle >= IDLE_LOOKS {
            core.asleep.store(true, Ordering::SeqCst);
            // A change made before the flag was visible did not wake this thread: look once more.
            let is_dirty = core.state.lock_behind().is_dirty;
            let goes_on = is_dirty || core.wake.wait(None);
            core.asleep.store(false, Ordering::SeqCst);
            if !goes_on {
                return;
            }
            idle = 0;
        }
    }
}
