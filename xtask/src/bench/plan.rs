//! How a benchmark is to run.

/// The options of all benchmarks.
pub struct Plan {
    /// Smaller sizes and fewer rounds, the same cases.
    pub quick: bool,
    /// Whether Perdura takes part; if not, only the peers run.
    pub perdura: bool,
}

impl Plan {
    /// Rounds of every case.
    pub fn rounds(&self) -> usize {
        if self.quick { 3 } else { 5 }
    }

    /// `full`, or `quick` in a quick run.
    pub fn size(&self, full: u64, quick: u64) -> u64 {
        if self.quick { quick } else { full }
    }
}
