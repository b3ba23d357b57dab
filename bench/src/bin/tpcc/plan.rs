//! The options.

use perdura_bench::scratch::Scratch;
use std::path::PathBuf;

/// How the program is to run.
pub struct Plan {
    pub directory: PathBuf,
    pub quick: bool,
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

    /// Creates an empty directory.
    pub fn scratch(&self) -> Scratch {
        Scratch::new(&self.directory)
    }
}
