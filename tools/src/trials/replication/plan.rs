//! The plan of a run: modes, rounds, and the size of the tables.

/// Number of rows that all clients update.
pub const ROWS: u32 = 40;
/// The tables without keys. Each has a twin `keyed_...` with keys.
pub const TABLES: [&str; 3] = ["few", "queue", "doubles"];
/// Tables with foreign keys: each refers to the one before.
pub const FAMILY: [&str; 3] = ["parents", "children", "leaves"];

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

/// A replica's use of a binary log of its own, and the engine that has its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// It has none. Its position is InnoDB's, and tc.log commits both engines.
    None,
    /// It writes what it applies, and the log commits both engines.
    Updates,
    /// It has one and does not write to it, so nothing commits the two engines as one: after a
    /// crash the position may have what the tables lack. Nobody kills it.
    Unused,
    /// The same with the position in a table of the engine: it survives every crash.
    UnusedOwnPosition,
}

impl Log {
    /// All, the plain ones first.
    pub const ALL: [Log; 4] = [Log::None, Log::Updates, Log::Unused, Log::UnusedOwnPosition];

    /// Text for the progress line.
    pub fn name(self) -> &'static str {
        match self {
            Log::None => "without a binary log",
            Log::Updates => "with a binary log of its updates",
            Log::Unused => "with a binary log that it does not use",
            Log::UnusedOwnPosition => "with a binary log that it does not use and its own position",
        }
    }

    /// The replica's options.
    pub fn options(self, engine: &str) -> Vec<String> {
        let mut options = match self {
            Log::None => vec![],
            Log::Updates => vec!["--log-bin".to_owned(), "--log-slave-updates".to_owned()],
            Log::Unused | Log::UnusedOwnPosition => vec!["--log-bin".to_owned()],
        };
        if self == Log::UnusedOwnPosition {
            options.push(format!("--gtid-pos-auto-engines={engine}"));
        }
        options
    }

    /// Whether position and rows are committed in both engines or in none.
    pub fn survives_crash(self) -> bool {
        self != Log::Unused
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
