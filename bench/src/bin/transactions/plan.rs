//! The options of every series.

use perdura_bench::scratch::Scratch;
use std::path::PathBuf;

/// How the program is to run.
pub struct Plan {
    pub directory: PathBuf,
    pub quick: bool,
    /// Whether the process samples itself.
    pub series: bool,
    /// The only case to run.
    pub case: Option<String>,
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
