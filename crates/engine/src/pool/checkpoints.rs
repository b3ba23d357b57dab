//! When the next checkpoint of a pool is due whose checkpoints take long: those of a medium that
//! settles.
//!
//! On persistent memory a checkpoint flushes some lines, and whoever needs one makes it. On a disk
//! it syncs files; so a thread of its own makes it, and nobody else waits: by log volume, which
//! bounds the next redo; by time; when the medium's journal is half full; and when garbage that
//! waits for it makes statements take fresh room. Between two, the thread has the medium write back
//! ahead, so that there is never much to sync.

use crate::config::Config;
use perdura_pmem::sync::{Condvar, Mutex};
use perdura_pmem::{Medium, Mutant};
use std::time::Duration;

/// How often the thread looks whether a checkpoint is due.
const PERIOD: Duration = Duration::from_millis(50);
/// Periods between two checkpoints that statements ask for: 0.5 s.
const PERIODS_ASKED: u32 = 10;

/// The need of checkpoints.
pub(crate) struct Checkpoints {
    is_apart: bool,
    log_bytes: u64,
    periods: u32,
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Default)]
struct State {
    is_asked: bool,
    stops: bool,
}

/// Time and volume since the last checkpoint.
#[derive(Clone, Copy, Default)]
pub(crate) struct Since {
    /// Volume of the log then.
    pub volume: u64,
    periods: u32,
}

impl Checkpoints {
    /// Those of a pool on `medium`, whose log takes up to `log_bytes`.
    pub(crate) fn new(medium: &dyn Medium, config: &Config, log_bytes: u64) -> Checkpoints {
        let periods = config.checkpoint_interval.as_millis() / PERIOD.as_millis();
        Checkpoints {
            is_apart: medium.settles() && config.background,
            // Sessions that find the log full would wait.
            log_bytes: config.checkpoint_log_bytes.min(log_bytes / 2),
            periods: u32::try_from(periods).unwrap_or(u32::MAX),
            state: Mutex::default(),
            woken: Condvar::new(),
        }
    }

    /// Whether a thread of its own makes them.
    pub(crate) fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// Asks for one soon: garbage waits for it.
    pub(crate) fn ask(&self) {
        self.state.lock().is_asked = true;
    }

    /// Waits until one is due; `volume` is the log's present one. False if the thread is to stop.
    /// Meanwhile it has the medium write back ahead what the checkpoint would find.
    pub(crate) fn wait(&self, since: &mut Since, medium: &dyn Medium, volume: impl Fn() -> u64) -> bool {
        while let Some(is_due) = self.round(since, medium, &volume) {
            if is_due {
                *since = Since { volume: volume(), periods: 0 };
                return true;
            }
            // With nothing locked: it may take as long as the device is busy.
            medium.write_ahead();
        }
        false
    }

    /// Waits for a round. Returns whether a checkpoint is due then; `None` if the thread is to
    /// stop.
    fn round(&self, since: &mut Since, medium: &dyn Medium, volume: impl Fn() -> u64) -> Option<bool> {
        let mut state = self.state.lock();
        if !state.stops {
            self.woken.wait_for(&mut state, PERIOD);
        }
        since.periods += 1;
        let is_due = since.periods >= self.periods
            || state.is_asked && since.periods >= PERIODS_ASKED
            || self.is_long(volume().saturating_sub(since.volume))
            || is_half_full(medium);
        state.is_asked &= !is_due;
        (!state.stops).then_some(is_due)
    }

    /// Whether so many bytes of log make one due.
    fn is_long(&self, bytes: u64) -> bool {
        // Planted: however long the next redo would be.
        bytes >= self.log_bytes && !perdura_pmem::planted(Mutant::LogVolumeUnheeded)
    }

    /// Ends the wait for good.
    pub(crate) fn stop(&self) {
        self.state.lock().stops = true;
        self.woken.notify_all();
    }
}

/// Whether the medium's journal makes one due.
fn is_half_full(medium: &dyn Medium) -> bool {
    // Planted: it is left to the fence that finds the journal full.
    medium.settle_is_due() && !perdura_pmem::planted(Mutant::JournalHalfFullUnheeded)
}
