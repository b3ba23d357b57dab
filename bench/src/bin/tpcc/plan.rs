//! The options.

use perdura_bench::own::{medium, modelled};
use perdura_bench::scratch::Scratch;
use perdura_pmem::{Medium, Model, Preset};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After this much of a quick run each case has one round.
const QUICK_TIME: Duration = Duration::from_secs(25);

/// How the program is to run.
pub struct Plan {
    pub begun: Instant,
    pub directory: PathBuf,
    pub quick: bool,
    /// Whether the process samples itself.
    pub series: bool,
    /// Whether the engine takes part; if not, only the peer runs.
    pub own: bool,
    /// Seed of rows and transactions.
    pub seed: u64,
}

impl Plan {
    /// `full`, or `quick` in a quick run.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Whether there is time for another round.
    pub fn goes_on(&self) -> bool {
        !self.quick || self.begun.elapsed() < QUICK_TIME
    }

    /// A directory as a medium, with a model of another if one is given.
    pub fn medium(&self, scratch: &Scratch, model: Option<Preset>) -> Arc<dyn Medium> {
        match model {
            Some(model) => Arc::new(modelled(scratch.path(), Some(Model::new(model)))),
            None => medium(scratch.path()),
        }
    }

    /// Whether the memory is emulated.
    pub fn is_emulated(&self) -> bool {
        self.medium(&self.scratch(), None).info().mode.is_emulated()
    }

    /// Creates an empty directory.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(&self.directory)
    }
}
