//! The scenarios: small pools shaped so that one hazard after another comes up.

use super::mix::Action::{
    Alter, Bulk, Checkpoint, Compact, Cram, Ddl, Delete, EditedBulk, GrowAhead, Hold, HoldLarge, Huge, Insert, Large,
    Lock, MoveKeys, Order, Prepare, Purge, Rollback, Savepoint, Sweep, Thin, Update, VainBulk, Walk, Watch, Wipe,
};
use super::mix::Mix;
use super::scripts::{self, Script};
use perdura_engine::{Config, LogConfig, LogPath, PathConfig};
use std::time::Duration;

/// A kind of run.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Name, as `--scenario` takes it.
    pub name: &'static str,
    /// Threads that write.
    pub threads: u64,
    /// Transactions of each.
    pub transactions: u32,
    /// How often each kind of transaction is chosen.
    pub mix: Mix,
    /// Work of each thread instead of transactions chosen at random.
    pub script: Option<Script>,
    /// Whether the pool is on a page medium.
    pub is_paged: bool,
    /// Whether the log carries what small transactions write.
    pub by_value: bool,
    /// Way of the log's records, and granularity of its write-ahead.
    pub path: (LogPath, u32),
    /// Whether the tables have indexes.
    pub keyed: bool,
    /// Times the pool is opened. The process is killed in between.
    pub rounds: u64,
    /// Scans of the reading thread at most; 0: there is no such thread.
    pub scans: u32,
    /// Labels of the stretches in and shortly after which crash points are examined; empty:
    /// everywhere.
    pub focus: &'static [&'static str],
    /// Lanes of the log.
    pub lanes: u32,
    /// Bytes of a log lane.
    pub lane_bytes: u64,
    /// Generations the log may grow to.
    pub generations_max: u32,
    /// Checkpoints after which the log gives back a generation it has not needed.
    pub shrink_after: u32,
    /// Bytes of a table's first file.
    pub first_file_bytes: u64,
    /// Words of a page of a row directory.
    pub page_words: u64,
    /// Rounds of purge after which an empty file at a table's end is given back.
    pub file_return_after: u32,
    /// Bytes of files of dropped tables that are kept for the next files.
    pub kept_file_bytes: u64,
    /// Room on the device; `None` for as much as it takes.
    pub device_bytes: Option<u64>,
}

/// Settings that most scenarios have in common.
const USUAL: Scenario = Scenario {
    name: "",
    threads: 2,
    transactions: 16,
    mix: &[],
    script: None,
    is_paged: false,
    by_value: false,
    path: (LogPath::Direct, 0),
    keyed: false,
    rounds: 1,
    scans: 0,
    focus: &[],
    lanes: 2,
    lane_bytes: 8 << 10,
    generations_max: 6,
    shrink_after: u32::MAX,
    first_file_bytes: 64 << 10,
    page_words: 32,
    file_return_after: u32::MAX,
    kept_file_bytes: 0,
    device_bytes: None,
};

/// A log writer and a log flusher, through a log buffer that is full at times.
const CLASSIC: Scenario = Scenario {
    name: "classic",
    threads: 3,
    transactions: 14,
    mix: &[
        (Insert, 4),
        (Bulk, 1),
        (Huge, 2),
        (Update, 5),
        (Delete, 1),
        (Rollback, 1),
        (Prepare, 3),
        (Hold, 3),
        (Checkpoint, 2),
    ],
    path: (LogPath::Classic, 2048),
    first_file_bytes: 128 << 10,
    ..USUAL
};

/// All scenarios.
pub const SCENARIOS: [Scenario; 45] = [
    Scenario {
        name: "mixed",
        mix: &[
            (Insert, 3),
            (Bulk, 1),
            (Update, 4),
            (Delete, 2),
            (Savepoint, 2),
            (Rollback, 2),
            (Checkpoint, 1),
            (Purge, 1),
        ],
        scans: 6,
        ..USUAL
    },
    // Sectors get there instead of lines; small, for the rules are those of lines.
    Scenario {
        name: "pages",
        transactions: 10,
        mix: &[
            (Insert, 3),
            (Bulk, 1),
            (Update, 4),
            (Delete, 2),
            (Rollback, 1),
            (Prepare, 1),
            (Checkpoint, 1),
            (Purge, 1),
        ],
        is_paged: true,
        keyed: true,
        ..USUAL
    },
    // Commits that wait for one another's writes, in one lane of a log on a disk.
    Scenario {
        name: "shared writes",
        threads: 4,
        transactions: 12,
        mix: &[(Insert, 3), (Update, 5), (Delete, 1), (Prepare, 1)],
        is_paged: true,
        lanes: 1,
        lane_bytes: 32 << 10,
        ..USUAL
    },
    CLASSIC,
    // A log writer that makes durable what it writes.
    Scenario { name: "nf", path: (LogPath::Nf, 1024), ..CLASSIC },
    // As "classic", where a sector that is being written may be lost with all that it holds.
    Scenario {
        name: "classic, pages",
        threads: 3,
        transactions: 12,
        mix: &[(Insert, 3), (Huge, 1), (Update, 5), (Delete, 1), (Prepare, 3), (Hold, 2), (Checkpoint, 1)],
        is_paged: true,
        path: (LogPath::Classic, 2048),
        lane_bytes: 16 << 10,
        first_file_bytes: 128 << 10,
        ..USUAL
    },
    // The log carries what small transactions write; large ones come between.
    Scenario {
        name: "by value",
        transactions: 14,
        mix: &[
            (Insert, 4),
            (Bulk, 1),
            (Huge, 1),
            (Update, 4),
            (MoveKeys, 2),
            (Delete, 3),
            (Savepoint, 2),
            (Rollback, 1),
            (Prepare, 3),
            (Hold, 1),
            (Alter, 2),
            (Checkpoint, 3),
            (Purge, 3),
        ],
        by_value: true,
        keyed: true,
        rounds: 2,
        scans: 3,
        lane_bytes: 16 << 10,
        first_file_bytes: 128 << 10,
        ..USUAL
    },
    // As that, but nothing of what the log carries is flushed before the next checkpoint.
    Scenario {
        name: "pages by value",
        transactions: 14,
        mix: &[
            (Insert, 5),
            (Bulk, 1),
            (Update, 4),
            (MoveKeys, 3),
            (Delete, 3),
            (Savepoint, 2),
            (Rollback, 1),
            (Prepare, 3),
            (Hold, 2),
            (Checkpoint, 3),
            (Purge, 3),
        ],
        is_paged: true,
        by_value: true,
        keyed: true,
        rounds: 2,
        lane_bytes: 16 << 10,
        ..USUAL
    },
    Scenario {
        name: "handed over by value",
        script: Some(scripts::handed_over),
        by_value: true,
        keyed: true,
        focus: &["handed_over"],
        ..USUAL
    },
    Scenario { name: "undone", script: Some(scripts::undone), first_file_bytes: 128 << 10, ..USUAL },
    Scenario { name: "handed over", script: Some(scripts::handed_over), keyed: true, focus: &["handed_over"], ..USUAL },
    Scenario { name: "stored for another", threads: 3, script: Some(scripts::stored_for_another), ..USUAL },
    Scenario { name: "left leaves", threads: 1, script: Some(scripts::left_leaves), keyed: true, ..USUAL },
    Scenario { name: "one after another", threads: 1, script: Some(scripts::one_after_another), ..USUAL },
    Scenario {
        name: "used segments",
        script: Some(scripts::used_segments),
        lane_bytes: 16 << 10,
        first_file_bytes: 128 << 10,
        ..USUAL
    },
    Scenario {
        name: "left for the directory",
        threads: 1,
        script: Some(scripts::left_for_the_directory),
        keyed: true,
        focus: &["directory_growth"],
        lane_bytes: 16 << 10,
        // Leaves begin within pages.
        page_words: 128,
        file_return_after: 0,
        ..USUAL
    },
    Scenario {
        name: "shared segments",
        threads: 3,
        script: Some(scripts::shared_segments),
        first_file_bytes: 128 << 10,
        ..USUAL
    },
    Scenario {
        name: "three threads",
        threads: 3,
        transactions: 12,
        mix: &[(Insert, 4), (Update, 5), (Delete, 3), (Rollback, 1), (Checkpoint, 1), (Purge, 1)],
        scans: 8,
        ..USUAL
    },
    // Small transactions meet the pages of large ones between their commit and the storing of their
    // words.
    Scenario {
        name: "stored behind",
        threads: 3,
        transactions: 14,
        mix: &[
            (Insert, 1),
            (Bulk, 2),
            (EditedBulk, 1),
            (Huge, 3),
            (Update, 6),
            (Delete, 3),
            (Walk, 2),
            (Lock, 5),
            (Watch, 3),
            (Savepoint, 1),
            (Checkpoint, 4),
            (Purge, 3),
        ],
        scans: 6,
        lane_bytes: 16 << 10,
        first_file_bytes: 128 << 10,
        ..USUAL
    },
    Scenario {
        name: "expansion",
        transactions: 14,
        mix: &[(Insert, 3), (Bulk, 4), (Large, 3), (Delete, 2), (GrowAhead, 4), (Checkpoint, 1), (Purge, 1)],
        first_file_bytes: 16 << 10,
        ..USUAL
    },
    Scenario {
        name: "wrap-around",
        transactions: 150,
        mix: &[(Insert, 6), (Update, 6), (Delete, 3), (Checkpoint, 1)],
        focus: &["generation_switch", "wrap_around", "log_growth"],
        lane_bytes: 4 << 10,
        ..USUAL
    },
    Scenario {
        name: "reuse",
        transactions: 40,
        mix: &[(Insert, 5), (Bulk, 1), (Update, 5), (Delete, 6), (Large, 1), (Checkpoint, 3), (Purge, 5)],
        scans: 4,
        ..USUAL
    },
    Scenario {
        name: "reload",
        transactions: 18,
        mix: &[(Bulk, 4), (VainBulk, 3), (Wipe, 5), (Insert, 2), (Hold, 1), (Rollback, 1), (Checkpoint, 4), (Purge, 6)],
        rounds: 2,
        scans: 4,
        ..USUAL
    },
    Scenario {
        name: "large transactions",
        transactions: 9,
        mix: &[(Insert, 1), (Bulk, 4), (Huge, 3), (Checkpoint, 1)],
        focus: &["generation_switch", "wrap_around", "log_growth"],
        lane_bytes: 4 << 10,
        first_file_bytes: 128 << 10,
        ..USUAL
    },
    Scenario {
        name: "held",
        transactions: 60,
        mix: &[(Insert, 6), (Update, 6), (Hold, 3), (Checkpoint, 1)],
        focus: &["generation_switch", "wrap_around", "log_growth", "prepared"],
        lane_bytes: 4 << 10,
        ..USUAL
    },
    Scenario {
        name: "copied forward",
        threads: 3,
        transactions: 24,
        mix: &[(Insert, 4), (Bulk, 1), (Update, 3), (Huge, 4), (Hold, 8), (Checkpoint, 1)],
        focus: &["generation_switch", "wrap_around", "prepared"],
        lane_bytes: 4 << 10,
        generations_max: 4,
        first_file_bytes: 128 << 10,
        ..USUAL
    },
    Scenario {
        name: "shrinking log",
        transactions: 70,
        mix: &[(Insert, 8), (Update, 2), (Huge, 6), (Prepare, 9), (Hold, 6), (Checkpoint, 16)],
        focus: &["log_growth", "log_shrink"],
        lane_bytes: 4 << 10,
        shrink_after: 1,
        first_file_bytes: 128 << 10,
        ..USUAL
    },
    Scenario {
        name: "directory growth",
        transactions: 30,
        mix: &[(Bulk, 6), (EditedBulk, 2), (Large, 4), (Delete, 4), (Checkpoint, 2), (Purge, 4)],
        focus: &["file_expansion", "directory_growth"],
        ..USUAL
    },
    Scenario {
        name: "edited bulk",
        transactions: 14,
        mix: &[(EditedBulk, 5), (Delete, 4), (Insert, 2), (Checkpoint, 2), (Purge, 3), (Hold, 1)],
        scans: 4,
        ..USUAL
    },
    Scenario {
        name: "prepared",
        transactions: 24,
        mix: &[(Insert, 2), (Update, 3), (Delete, 1), (Prepare, 6), (Hold, 3), (Checkpoint, 2), (Purge, 2)],
        scans: 4,
        lane_bytes: 4 << 10,
        ..USUAL
    },
    Scenario {
        name: "ordered",
        threads: 1,
        mix: &[(Insert, 2), (Bulk, 1), (Order, 3)],
        focus: &["generation_switch", "wrap_around"],
        lane_bytes: 4 << 10,
        generations_max: 3,
        first_file_bytes: 128 << 10,
        ..USUAL
    },
    Scenario {
        name: "restarted",
        transactions: 10,
        mix: &[(Insert, 4), (Bulk, 1), (Update, 5), (Delete, 5), (Large, 1), (Checkpoint, 2), (Purge, 3), (Sweep, 2)],
        rounds: 3,
        scans: 3,
        ..USUAL
    },
    Scenario {
        name: "ddl",
        transactions: 10,
        mix: &[(Insert, 2), (Update, 1), (Ddl, 8), (Checkpoint, 1), (Purge, 1)],
        first_file_bytes: 16 << 10,
        ..USUAL
    },
    // Tables grow into the files of others that were dropped, and so do indexes.
    Scenario {
        name: "kept file",
        script: Some(scripts::kept_files),
        keyed: true,
        rounds: 2,
        focus: &["file_reuse", "file_removal"],
        lane_bytes: 32 << 10,
        first_file_bytes: 32 << 10,
        kept_file_bytes: 1 << 20,
        ..USUAL
    },
    // Tables that grow by a file or two and shrink again.
    Scenario {
        name: "file return",
        transactions: 90,
        mix: &[(Large, 6), (Bulk, 2), (Wipe, 7), (Insert, 2), (Checkpoint, 8), (Purge, 10)],
        rounds: 2,
        scans: 4,
        focus: &["file_return"],
        first_file_bytes: 32 << 10,
        file_return_after: 0,
        ..USUAL
    },
    Scenario {
        name: "sparse",
        threads: 3,
        transactions: 18,
        mix: &[
            (Thin, 4),
            (Insert, 1),
            (Update, 14),
            (Delete, 2),
            (Lock, 2),
            (Checkpoint, 2),
            (Purge, 3),
            (Compact, 12),
        ],
        scans: 4,
        focus: &["move"],
        ..USUAL
    },
    // A transaction that changes more than 256 rows takes more of the log than it may: their words
    // are spilled.
    Scenario {
        name: "spilled",
        transactions: 10,
        mix: &[(Bulk, 5), (Huge, 5), (Update, 2), (Delete, 1), (Checkpoint, 2), (Purge, 2)],
        scans: 3,
        focus: &["large_transaction", "purge", "checkpoint"],
        lanes: 1,
        lane_bytes: 4 << 10,
        first_file_bytes: 128 << 10,
        ..USUAL
    },
    Scenario {
        name: "prepared, spilled",
        transactions: 9,
        mix: &[(Bulk, 6), (HoldLarge, 5), (Update, 1), (Checkpoint, 2), (Purge, 2)],
        focus: &["prepared", "purge", "checkpoint"],
        lanes: 1,
        lane_bytes: 4 << 10,
        first_file_bytes: 128 << 10,
        ..USUAL
    },
    // Deletions need no room, and what they free is filled at once.
    Scenario {
        name: "full device",
        transactions: 14,
        mix: &[(Cram, 5), (Wipe, 3), (Delete, 4), (Checkpoint, 4), (Purge, 5)],
        scans: 3,
        device_bytes: Some(256 << 10),
        ..USUAL
    },
    Scenario {
        name: "keys",
        transactions: 16,
        mix: &[
            (Insert, 5),
            (Update, 6),
            (MoveKeys, 4),
            (Delete, 3),
            (Savepoint, 2),
            (Rollback, 2),
            (Walk, 1),
            (Ddl, 1),
            (Checkpoint, 2),
            (Purge, 2),
        ],
        keyed: true,
        scans: 5,
        ..USUAL
    },
    // Leaves fill and empty, so they split and join; what they leave is used again.
    Scenario {
        name: "keys that come and go",
        transactions: 16,
        mix: &[
            (Bulk, 4),
            (VainBulk, 1),
            (Wipe, 4),
            (Insert, 2),
            (Rollback, 1),
            (Watch, 1),
            (Checkpoint, 4),
            (Purge, 6),
        ],
        keyed: true,
        rounds: 2,
        scans: 4,
        first_file_bytes: 128 << 10,
        ..USUAL
    },
    // Indexes are built, dropped and built again; the places of old leaves are used for new ones.
    Scenario {
        name: "keys, altered",
        transactions: 20,
        mix: &[(Alter, 9), (Ddl, 2), (Insert, 2), (Update, 1), (Checkpoint, 3), (Purge, 4)],
        keyed: true,
        rounds: 2,
        ..USUAL
    },
    Scenario {
        name: "keys, prepared",
        transactions: 18,
        mix: &[
            (Insert, 3),
            (Bulk, 2),
            (Update, 3),
            (MoveKeys, 2),
            (Delete, 1),
            (Prepare, 5),
            (Hold, 3),
            (Checkpoint, 4),
            (Purge, 4),
        ],
        keyed: true,
        scans: 4,
        ..USUAL
    },
    Scenario {
        name: "keys, restarted",
        transactions: 9,
        mix: &[
            (Insert, 4),
            (Bulk, 1),
            (Update, 4),
            (MoveKeys, 3),
            (Delete, 4),
            (Checkpoint, 2),
            (Purge, 3),
            (Sweep, 2),
        ],
        keyed: true,
        rounds: 3,
        scans: 3,
        ..USUAL
    },
    Scenario {
        name: "keys, full device",
        transactions: 12,
        mix: &[(Cram, 5), (Wipe, 3), (Delete, 4), (Checkpoint, 4), (Purge, 5)],
        keyed: true,
        scans: 3,
        device_bytes: Some(384 << 10),
        ..USUAL
    },
];

/// A few keys that all threads want, and snapshots older than many changes of each: for runs
/// without a crash.
pub const KEYS_CONTENDED: Scenario = Scenario {
    name: "keys, contended",
    threads: 3,
    transactions: 50,
    mix: &[
        (Insert, 3),
        (Update, 10),
        (MoveKeys, 8),
        (Delete, 2),
        (Walk, 2),
        (Watch, 2),
        (Savepoint, 2),
        (Rollback, 2),
        (Checkpoint, 4),
        (Purge, 5),
    ],
    keyed: true,
    scans: 30,
    lane_bytes: 16 << 10,
    ..USUAL
};

/// Keys that go to and fro between checkpoints, by value, so that leaves are replaced by copies
/// without what came and went, beside snapshots and rollbacks: for runs without a crash.
pub const KEYS_BY_VALUE: Scenario = Scenario {
    name: "keys, by value",
    threads: 3,
    transactions: 50,
    mix: &[
        (Insert, 3),
        (Update, 6),
        (MoveKeys, 12),
        (Delete, 3),
        (Walk, 2),
        (Watch, 4),
        (Savepoint, 3),
        (Rollback, 4),
        (Checkpoint, 1),
        (Purge, 3),
    ],
    by_value: true,
    keyed: true,
    scans: 30,
    lane_bytes: 16 << 10,
    ..USUAL
};

/// Leaves that split and join under many threads and snapshots: for runs without a crash.
pub const KEYS_CROWDED: Scenario = Scenario {
    name: "keys, crowded",
    threads: 4,
    transactions: 20,
    mix: &[
        (Insert, 3),
        (Bulk, 2),
        (VainBulk, 1),
        (Huge, 2),
        (Update, 5),
        (MoveKeys, 3),
        (Delete, 3),
        (Wipe, 2),
        (Walk, 2),
        (Lock, 2),
        (Watch, 4),
        (Savepoint, 2),
        (Checkpoint, 4),
        (Purge, 6),
    ],
    keyed: true,
    scans: 20,
    lane_bytes: 32 << 10,
    first_file_bytes: 128 << 10,
    ..USUAL
};

/// A few rows that all threads want, and many versions of each: for runs without a crash.
pub const CONTENDED: Scenario = Scenario {
    name: "contended",
    transactions: 70,
    mix: &[(Insert, 1), (Update, 12), (Delete, 1), (Checkpoint, 3), (Purge, 4)],
    scans: 40,
    ..USUAL
};

/// Versions that are replaced and purged at once, beside a reader: for runs without a crash.
pub const PURGED: Scenario = Scenario {
    name: "purged",
    threads: 3,
    transactions: 40,
    mix: &[(Insert, 1), (Update, 6), (Delete, 1), (Checkpoint, 5), (Purge, 6)],
    scans: 40,
    ..USUAL
};

/// Many threads in the pages of large commits, and snapshots older than all of them: for runs
/// without a crash.
pub const CROWDED: Scenario = Scenario {
    name: "crowded",
    threads: 4,
    transactions: 24,
    mix: &[
        (Insert, 2),
        (Bulk, 1),
        (Huge, 3),
        (Update, 8),
        (Delete, 3),
        (Walk, 2),
        (Lock, 6),
        (Watch, 4),
        (Savepoint, 2),
        (Checkpoint, 4),
        (Purge, 5),
    ],
    scans: 20,
    lane_bytes: 16 << 10,
    first_file_bytes: 128 << 10,
    ..USUAL
};

/// Bulk inserts whose rows are deleted and purged while they end: for runs without a crash.
pub const EMPTIED: Scenario = Scenario {
    name: "emptied",
    threads: 4,
    transactions: 30,
    mix: &[(EditedBulk, 2), (Delete, 6), (Checkpoint, 5), (Purge, 5)],
    ..USUAL
};

/// Rows that are changed while they are moved: for runs without a crash.
pub const MOVED: Scenario = Scenario {
    name: "moved",
    threads: 4,
    transactions: 50,
    mix: &[(Thin, 2), (Update, 20), (Delete, 1), (Compact, 10)],
    ..USUAL
};

impl Scenario {
    /// Settings of its pools.
    pub fn config(&self) -> Config {
        let log = LogConfig {
            lanes: self.lanes,
            lane_bytes: self.lane_bytes,
            generations: 2,
            generations_max: self.generations_max,
            shrink_after: self.shrink_after,
            path: PathConfig {
                path: self.path.0,
                write_ahead_bytes: self.path.1,
                buffer_bytes: 8 << 10,
                ..PathConfig::default()
            },
            ..LogConfig::default()
        };
        Config {
            log,
            data_file_bytes: 128 << 10,
            first_file_bytes: self.first_file_bytes,
            file_return_after: self.file_return_after,
            kept_file_bytes: self.kept_file_bytes,
            segment_bytes: 4 << 10,
            page_words: self.page_words,
            prefault: false,
            lock_wait_timeout: Duration::from_millis(20),
            by_value: Some(self.by_value),
            background: false,
            seed: Some(7),
            ..Config::default()
        }
    }
}
