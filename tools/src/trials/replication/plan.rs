//! The plan of a run: modes, rounds, and the size of the tables.

/// Number of rows that all clients update.
pub const ROWS: u32 = 40;
/// The tables without keys. Each has a twin `keyed_...` with keys.
pub const TABLES: [&str; 3] = ["few", "queue", "doubles"];

/// Which transactions the replica runs concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Those that the primary has committed in one group.
    Conservative,
    /// All; those that conflict are rolled back and retried.
    Optimistic,
}

impl Mode {
    /// Value of `slave_parallel_mode`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Conservative => "conservative",
            Mode::Optimistic => "optimistic",
        }
    }
}

/// A run.
#[derive(Clone)]
pub struct Plan {
    /// Engine of the tables.
    pub engine: String,
    /// First seed.
    pub seed: u64,
    /// Rounds of each mode.
    pub rounds: u32,
}
