//! What is run: modes, rounds, and the size of the tables.

/// Rows that all clients update.
pub const ROWS: u32 = 40;

/// How the replica runs transactions side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Those that the primary committed in one group.
    Conservative,
    /// Any; what conflicts is rolled back and done again.
    Optimistic,
}

impl Mode {
    /// The server's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Conservative => "conservative",
            Mode::Optimistic => "optimistic",
        }
    }
}

/// What is run.
#[derive(Clone)]
pub struct Plan {
    /// Engine of the tables.
    pub engine: String,
    /// First seed.
    pub seed: u64,
    /// Rounds of each mode.
    pub rounds: u32,
}
