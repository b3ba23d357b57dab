//! The options of every series.

use perdura_bench::scratch::Scratch;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// After this much of a quick run no further round begins.
const QUICK_TIME: Duration = Duration::from_secs(30);

/// How the program is to run.
pub struct Plan {
    pub begun: Instant,
    pub directory: PathBuf,
    pub quick: bool,
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

    /// Creates an empty directory.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(&self.directory)
    }
}
