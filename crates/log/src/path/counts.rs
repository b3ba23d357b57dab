//! Counts of what the log writer and the log flusher have done, and their report.

use super::config::{LogPath, PathConfig};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Counts since the start.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) writes: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) padding: AtomicU64,
    pub(super) ahead: AtomicU64,
    pub(super) copied: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) waits_for_room: AtomicU64,
}

impl Counts {
    pub(super) fn add(count: &AtomicU64, amount: u64) {
        count.fetch_add(amount, Relaxed);
    }

    pub(super) fn status(&self, config: &PathConfig, node: Option<u32>) -> PathStatus {
        let load = |count: &AtomicU64| count.load(Relaxed);
        PathStatus {
            path: config.path,
            buffer_bytes: config.buffer_bytes,
            write_ahead_bytes: config.granularity(),
            node,
            writes: load(&self.writes),
            written_bytes: load(&self.written),
            padding_bytes: load(&self.padding),
            ahead_bytes: load(&self.ahead),
            copied_bytes: load(&self.copied),
            syncs: load(&self.syncs),
            waits_for_room: load(&self.waits_for_room),
        }
    }
}

/// The way that records take, and what its threads have done since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathStatus {
    /// The way.
    pub path: LogPath,
    /// Bytes of the log buffer.
    pub buffer_bytes: u64,
    /// Granularity of write-ahead in bytes.
    pub write_ahead_bytes: u32,
    /// NUMA node to which its threads are pinned.
    pub node: Option<u32>,
    /// Writes to files, or copies past the cache.
    pub writes: u64,
    /// Bytes of records that were written.
    pub written_bytes: u64,
    /// Zeros that were written to fill the last block of a write.
    pub padding_bytes: u64,
    /// Zeros that were written ahead, beyond that block.
    pub ahead_bytes: u64,
    /// Bytes of records that passed the write-ahead buffer.
    pub copied_bytes: u64,
    /// Syncs, or fences.
    pub syncs: u64,
    /// Times that a session waited for room in the log buffer.
    pub waits_for_room: u64,
}

impl fmt::Display for PathStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "path {}, buffer of {} KiB, write-ahead of {} bytes; {} writes of {} bytes of records, {} of padding and {} ahead, \
             {} copied; {} syncs, {} waits for room since start",
            self.path,
            self.buffer_bytes >> 10,
            self.write_ahead_bytes,
            self.writes,
            self.written_bytes,
            self.padding_bytes,
            self.ahead_bytes,
            self.copied_bytes,
            self.syncs,
            self.waits_for_room
        )?;
        match self.node {
            Some(node) => write!(f, "; threads pinned to node {node}"),
            None => Ok(()),
        }
    }
}
