//! The settings with which a pool is created and opened.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{FILE_BYTES_MIN, Geometry, UNIT_BYTES};
use perdura_log::{LogConfig, PathConfig, Turns};
use perdura_pmem::numa::Machine;
use std::time::Duration;

/// Largest size of a data file: a directory word has 32 bits for the unit at which a version
/// begins.
const DATA_FILE_BYTES_MAX: u64 = UNIT_BYTES << 32;

/// A clock that returns the time since 1970. Only reports depend on it. The default returns 0, so
/// that a seed replays a run.
pub type Clock = fn() -> Duration;

/// The settings of a pool. Those marked *at creation* are stored in the pool; opening an existing
/// pool ignores them.
#[derive(Clone, Debug)]
pub struct Config {
    /// Lanes and generations (*lanes and lane size at creation*), the choice of lane, and the way
    /// of records to the medium.
    pub log: LogConfig,
    /// Size to which a table's data files double, in bytes. After each 64 files of a table the next
    /// ones have twice as much, up to 64 GiB, so that no table has thousands; a row that fits no
    /// such file gets a larger one.
    pub data_file_bytes: u64,
    /// Size of a table's first data file, in bytes. Each further file is twice as large as the one
    /// before, up to `data_file_bytes`.
    pub first_file_bytes: u64,
    /// Size of a segment in large data files, in bytes: a power of two from 4 KiB to 1 MiB (*at
    /// creation*). In smaller files a segment is a 256th of the file, but has at least 4 KiB.
    pub segment_bytes: u64,
    /// Number of words in a page of the row directory, its state included: a power of two from 8 to
    /// 512 (*at creation*).
    pub page_words: u64,
    /// Most data files of open tables, each of them a mapping, before tables that nobody uses are
    /// closed: at least 1. Tables in use stay open beyond it.
    pub open_files: u32,
    /// Rounds of purge in a row that must have found the last file of a table empty before it is
    /// given back to the file system. The background thread takes 50 ms for a round or less.
    pub file_return_after: u32,
    /// Bytes of data files that no table has any more and that are kept, at most 64 files, for the
    /// next ones of their size; 0: none is kept.
    pub kept_file_bytes: u64,
    /// Whether pre-fault threads touch the pages of data files and log lanes before the first store
    /// does.
    pub prefault: bool,
    /// Number of pre-fault threads, 1 to 64.
    pub prefault_threads: u32,
    /// Whether the opening of a pool waits until the log lanes, and the tables that its recovery
    /// has opened, are faulted in.
    pub prefault_wait: bool,
    /// Whether threads that work on the pool are pinned to the NUMA node of its memory, where the
    /// machine has several and that one is known.
    pub numa: bool,
    /// The machine with these nodes. Tests bring another.
    pub machine: Machine,
    /// How long a session waits for a row lock before its statement fails with `LockWaitTimeout`.
    pub lock_wait_timeout: Duration,
    /// DRAM that the write set of one transaction may take before its words are spilled to the
    /// medium, in bytes, 64 KiB or more. What cannot be spilled, some 600 bytes for each directory
    /// page written, comes on top.
    pub transaction_memory: u64,
    /// On a disk: bytes of log after which a checkpoint is made, and so about what the next start
    /// has to redo at most. No more than half of what the log may take.
    pub checkpoint_log_bytes: u64,
    /// On a disk: time after which a checkpoint is made, if anything has changed. On persistent
    /// memory there is one in each round of the background thread.
    pub checkpoint_interval: Duration,
    /// Whether the log carries what small transactions write, so that redo needs nothing else of
    /// them: their statements fence nothing, and on a page medium nothing of them is synced before
    /// the next checkpoint. Either setting opens a pool that the other has written. `None`: where
    /// the medium settles.
    pub by_value: Option<bool>,
    /// Whether a background thread checkpoints, purges, sweeps and creates files ahead of need.
    /// Without it the caller must do so (tests, tools), and those who wait for the log take the
    /// turns of its threads, unless the caller has some for them.
    pub background: bool,
    /// Whether to open a pool although its device has counted dirty shutdowns since it was last
    /// open, so that acknowledged data may be lost. The next opening does not ask again.
    pub accept_unsafe_shutdown: bool,
    /// Seed of pool ids and log salts. `None` takes a seed from the operating system.
    pub seed: Option<u64>,
    /// Clock for reports: ages of transactions and waits, a table's last change.
    pub clock: Clock,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            log: LogConfig::default(),
            data_file_bytes: 64 << 20,
            first_file_bytes: 64 << 10,
            segment_bytes: 64 << 10,
            page_words: 512,
            open_files: 4096,
            file_return_after: 20,
            kept_file_bytes: 256 << 20,
            prefault: true,
            prefault_threads: 1,
            prefault_wait: false,
            numa: false,
            machine: Machine::real(),
            lock_wait_timeout: Duration::from_secs(50),
            transaction_memory: 64 << 20,
            checkpoint_log_bytes: 256 << 20,
            checkpoint_interval: Duration::from_secs(60),
            by_value: None,
            background: true,
            accept_unsafe_shutdown: false,
            seed: None,
            clock: || Duration::ZERO,
        }
    }
}

impl Config {
    /// The sizes that are fixed at creation.
    pub(crate) fn geometry(&self) -> Geometry {
        Geometry { segment_bytes: self.segment_bytes, page_words: self.page_words }
    }

    /// The settings of the log, which has threads of its own only beside the pool's.
    pub(crate) fn log_config(&self) -> LogConfig {
        let turns = match self.log.path.turns {
            Turns::Own if !self.background => Turns::Waiters,
            turns => turns,
        };
        LogConfig { path: PathConfig { turns, ..self.log.path.clone() }, ..self.log.clone() }
    }

    /// Checks that every setting is in its range.
    ///
    /// # Errors
    /// Configuration, with the setting and its range.
    pub fn check(&self) -> Result<()> {
        let range = |name: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(format!("{name} is {value}; it must be from {low} to {high}"))
            }
        };
        self.geometry()
            .check()
            .and_then(|()| range("data file size", self.data_file_bytes, FILE_BYTES_MIN, DATA_FILE_BYTES_MAX))
            .and_then(|()| range("transaction memory", self.transaction_memory, 64 << 10, 1 << 40))
            .and_then(|()| range("first data file size", self.first_file_bytes, FILE_BYTES_MIN, self.data_file_bytes))
            .and_then(|()| range("open files", u64::from(self.open_files), 1, u64::from(u32::MAX)))
            .and_then(|()| range("prefault threads", u64::from(self.prefault_threads), 1, 64))
            .map_err(|message| Error::new(ErrorKind::Configuration, message))
    }
}
