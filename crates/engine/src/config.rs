//! Settings of a pool and of its running.

use crate::error::{Error, ErrorKind, Result};
use crate::format::{Geometry, bytes_for_segments};
use perdura_log::LogConfig;
use std::time::Duration;

/// Tells the time since 1970. Only reports depend on it; the default always returns 0, so that a seed replays a run.
pub type Clock = fn() -> Duration;

/// Settings. Those marked *at creation* are kept in the pool and ignored for one that exists.
#[derive(Clone, Debug)]
pub struct Config {
    /// Lanes and generations (*lanes and lane size at creation*).
    pub log: LogConfig,
    /// Size of a table's data files once it has grown, in bytes. A row that does not fit one gets a file of its own size.
    pub data_file_bytes: u64,
    /// Size of a table's first data file, in bytes; each next one is twice as large, up to `data_file_bytes`.
    pub first_file_bytes: u64,
    /// Bytes of a segment (*at creation*).
    pub segment_bytes: u64,
    /// Whether files are faulted in ahead of their use.
    pub prefault: bool,
    /// Threads that do it.
    pub prefault_threads: u32,
    /// How long a row lock is waited for.
    pub lock_wait_timeout: Duration,
    /// Whether threads of the engine checkpoint, purge and create files ahead. Off, the caller does it (tests, tools).
    pub background: bool,
    /// Seed of pool ids and log salts; `None` takes it from the operating system.
    pub seed: Option<u64>,
    /// The time since 1970, for reports: ages of transactions and waits, a table's last change. The default always
    /// returns 0.
    pub clock: Clock,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            log: LogConfig::default(),
            data_file_bytes: 64 << 20,
            first_file_bytes: 1 << 20,
            segment_bytes: 64 << 10,
            prefault: true,
            prefault_threads: 1,
            lock_wait_timeout: Duration::from_secs(50),
            background: true,
            seed: None,
            clock: || Duration::ZERO,
        }
    }
}

impl Config {
    /// Checks ranges.
    pub fn check(&self) -> Result<()> {
        let geometry = Geometry { segment_bytes: self.segment_bytes };
        let range = |name: &str, value: u64, low: u64, high: u64| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(format!("{name} is {value}; it must be from {low} to {high}"))
            }
        };
        let least = bytes_for_segments(2, self.segment_bytes);
        geometry
            .check()
            .and_then(|()| range("data file size", self.data_file_bytes, least, 64 << 30))
            .and_then(|()| range("first data file size", self.first_file_bytes, least, self.data_file_bytes))
            .and_then(|()| range("prefault threads", u64::from(self.prefault_threads), 1, 64))
            .map_err(|message| Error::new(ErrorKind::Configuration, message))
    }
}
