//! The options of every series.

use perdura_bench::scratch::Scratch;
use perdura_bench::system::System;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Seed of the orders of keys, fixed so that runs compare.
pub const SEED: u64 = 20_200_601;

/// After this much of a quick run no series begins a second round.
const QUICK_TIME: Duration = Duration::from_secs(25);

/// How the benchmark is to run.
pub struct Plan {
    pub begun: Instant,
    pub directory: PathBuf,
    pub quick: bool,
    pub own: bool,
    pub only: Option<String>,
}

impl Plan {
    /// `full`, or `quick` in a quick run.
    pub fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// The rounds to run: `full`, or `quick` in a quick run, or fewer if that is late.
    pub fn rounds(&self, full: usize, quick: usize) -> impl Iterator<Item = usize> {
        let count = self.pick(full, quick);
        (0..count).take_while(|round| *round == 0 || !self.quick || self.begun.elapsed() < QUICK_TIME)
    }

    /// The `systems` that take part.
    pub fn systems(&self, systems: &[System]) -> Vec<System> {
        systems.iter().copied().filter(|system| self.own || system.kind().is_none()).collect()
    }

    /// Creates an empty directory.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(&self.directory)
    }
}
