//! Settings of the way that records take.

use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;

/// Fewest bytes of the log buffer.
const BUFFER_BYTES_MIN: u64 = 4 << 10;
/// Most bytes of the log buffer.
const BUFFER_BYTES_MAX: u64 = 1 << 30;
/// Least granularity of write-ahead in bytes.
const WRITE_AHEAD_MIN: u32 = 256;
/// Largest granularity of write-ahead in bytes, and that of [`LogPath::Classic`].
const WRITE_AHEAD_MAX: u32 = 8 << 10;
/// Granularity of the write-ahead of [`LogPath::Nf`], and most bytes of a block on persistent
/// memory.
const BLOCK_BYTES: u32 = 512;

/// The way of a record to the medium (NF-log, SNU 2022, 2.1 to 2.5).
///
/// All write the same bytes to the same places, so a pool may take another at each start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogPath {
    /// Each session copies its records to their place and fences them; on a disk those that end at
    /// once share a write.
    #[default]
    Direct,
    /// Sessions fill a log buffer, a log writer writes it to the file by a call of the system, and
    /// a log flusher syncs that.
    Classic,
    /// As [`LogPath::Classic`], but the log writer copies past the cache and fences, and nobody
    /// flushes.
    Persist,
    /// As [`LogPath::Classic`], with a write-ahead of 512 bytes, for which no more is copied than
    /// what does not fill them.
    WriteAhead,
    /// As [`LogPath::Classic`], with the threads on the processors beside the medium.
    Local,
    /// All three.
    Nf,
}

impl LogPath {
    /// All of them.
    pub const ALL: [LogPath; 6] =
        [LogPath::Direct, LogPath::Classic, LogPath::Persist, LogPath::WriteAhead, LogPath::Local, LogPath::Nf];

    /// Whether records pass the log buffer.
    pub fn is_staged(self) -> bool {
        self != LogPath::Direct
    }

    /// Whether the log writer makes durable what it writes.
    pub fn persists(self) -> bool {
        matches!(self, LogPath::Persist | LogPath::Nf)
    }

    /// Whether no more is copied than what does not fill the write-ahead's granularity.
    pub(super) fn copies_little(self) -> bool {
        matches!(self, LogPath::WriteAhead | LogPath::Nf)
    }

    /// Whether its threads run beside the medium.
    pub fn is_local(self) -> bool {
        matches!(self, LogPath::Local | LogPath::Nf)
    }

    fn name(self) -> &'static str {
        match self {
            LogPath::Direct => "direct",
            LogPath::Classic => "classic",
            LogPath::Persist => "persist",
            LogPath::WriteAhead => "write_ahead",
            LogPath::Local => "local",
            LogPath::Nf => "nf",
        }
    }
}

impl fmt::Display for LogPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LogPath {
    type Err = Error;

    fn from_str(text: &str) -> Result<LogPath> {
        let found = LogPath::ALL.into_iter().find(|path| path.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = LogPath::ALL.iter().map(|path| path.name()).collect();
            Error::new(ErrorKind::Configuration, format!("no log path is named {text}; choose {}", names.join(", ")))
        })
    }
}

/// Settings of the way that records take. None of them is kept in the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathConfig {
    /// The way.
    pub path: LogPath,
    /// Bytes of the log buffer, a power of two from 4 KiB to 1 GiB.
    pub buffer_bytes: u64,
    /// Granularity of write-ahead in bytes, a power of two from 256 to 8192, or 0 for that of the
    /// path: 8192, or 512 where little is copied.
    pub write_ahead_bytes: u32,
    /// Threads in which the log writer, the log flusher and the notifiers run.
    pub turns: Turns,
}

/// Threads of the log writer, the log flusher and the notifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Turns {
    /// Threads of their own.
    #[default]
    Own,
    /// None: those who wait take their turns (tools, simulations that know of no such threads).
    Waiters,
    /// Those in which the caller runs [`crate::Log::path_bodies`] (simulations).
    Caller,
}

impl Default for PathConfig {
    fn default() -> PathConfig {
        PathConfig { path: LogPath::default(), buffer_bytes: 1 << 20, write_ahead_bytes: 0, turns: Turns::Own }
    }
}

impl PathConfig {
    /// Checks ranges. Error: `Configuration`.
    pub fn check(&self) -> Result<()> {
        power("log_buffer_size", self.buffer_bytes, BUFFER_BYTES_MIN, BUFFER_BYTES_MAX)?;
        if self.write_ahead_bytes == 0 {
            return Ok(());
        }
        let (low, high) = (WRITE_AHEAD_MIN.into(), WRITE_AHEAD_MAX.into());
        power("log_write_ahead_size", self.write_ahead_bytes.into(), low, high)
    }

    /// Granularity of write-ahead in bytes.
    pub(super) fn granularity(&self) -> u32 {
        match self.write_ahead_bytes {
            0 if self.path.copies_little() => BLOCK_BYTES,
            0 => WRITE_AHEAD_MAX,
            bytes => bytes,
        }
    }
}

fn power(name: &str, value: u64, low: u64, high: u64) -> Result<()> {
    if value.is_power_of_two() && (low..=high).contains(&value) {
        return Ok(());
    }
    let what = format!("{name}: {value} is not a power of two from {low} to {high}; choose one in that range");
    Err(Error::new(ErrorKind::Configuration, what))
}

/// Bytes of the blocks in which a path writes to a medium that tears `sector` bytes: none of which
/// anything was acknowledged is written again.
pub(crate) fn block_bytes(config: &PathConfig, sector: u64) -> u64 {
    if config.path.is_staged() { sector.max(config.granularity().min(BLOCK_BYTES).into()) } else { sector }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_is_read_by_its_name() {
        for path in LogPath::ALL {
            assert_eq!(path.to_string().parse::<LogPath>().expect("a name"), path);
        }
        let error = "fast".parse::<LogPath>().expect_err("no path");
        assert!(error.to_string().contains("direct, classic, persist, write_ahead, local, nf"), "{error}");
    }

    #[test]
    fn ranges_are_checked_and_blocks_follow() {
        let config = |path, write_ahead_bytes| PathConfig { path, write_ahead_bytes, ..PathConfig::default() };
        config(LogPath::Nf, 256).check().expect("good");
        for bad in [config(LogPath::Nf, 128), config(LogPath::Nf, 384), config(LogPath::Nf, 16384)] {
            assert_eq!(bad.check().expect_err("out of range").kind(), ErrorKind::Configuration);
        }
        for buffer_bytes in [2048, 5000, 2 << 30] {
            let bad = PathConfig { buffer_bytes, ..PathConfig::default() };
            assert_eq!(bad.check().expect_err("out of range").kind(), ErrorKind::Configuration);
        }
        let blocks =
            [(LogPath::Direct, 0, 64), (LogPath::Classic, 0, 64), (LogPath::Nf, 0, 64), (LogPath::Nf, 256, 64)];
        assert_eq!(blocks.map(|(path, ahead, sector)| block_bytes(&config(path, ahead), sector)), [64, 512, 512, 256]);
        assert_eq!(block_bytes(&config(LogPath::Nf, 256), 4096), 4096);
    }
}
