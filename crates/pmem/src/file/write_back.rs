//! Writing back ahead: what a page medium has to sync at a checkpoint is bounded.
//!
//! The kernel counts what a process makes dirty. Whenever that is as much as the bound, the
//! writing of all that is dirty is begun, and nobody waits for its end: it promises nothing. What
//! it could not write, the next sync reports (I1).

use super::paged::PagedFile;
use super::syncs::Syncs;
use crate::counters::counters;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Least and largest bound, in bytes: with less each page would be written too often, and with more
/// a checkpoint's syncs would take a device too long.
const DIRTY_MIN: u64 = 32 << 20;
const DIRTY_MAX: u64 = 256 << 20;
/// The bound's share of the memory that the process may take: the kernel has its writers wait from
/// some seventh on.
const MEMORY_SHARE: u64 = 16;

/// The writing back of a page medium's files.
pub(super) struct WriteBack {
    /// Bytes that may become dirty before it begins.
    dirty_max: AtomicU64,
    /// Bytes that had become dirty when it began last.
    begun: AtomicU64,
}

impl WriteBack {
    /// Nothing is dirty yet.
    pub(super) fn new() -> WriteBack {
        let memory = memory_bytes(Path::new("/proc"), Path::new("/sys/fs/cgroup"));
        let dirty_max = (memory.unwrap_or(u64::MAX) / MEMORY_SHARE).clamp(DIRTY_MIN, DIRTY_MAX);
        WriteBack { dirty_max: AtomicU64::new(dirty_max), begun: AtomicU64::new(dirtied()) }
    }

    /// Sets the bytes that may become dirty before it begins.
    pub(super) fn set_dirty_max(&self, bytes: u64) {
        self.dirty_max.store(bytes, Ordering::Relaxed);
    }

    /// Begins to write the files of the medium back, if enough has become dirty.
    pub(super) fn begin_if_due(&self, syncs: &Arc<Syncs>) {
        let now = dirtied();
        let since = now.saturating_sub(self.begun.load(Ordering::Relaxed));
        if since >= self.dirty_max.load(Ordering::Relaxed) && !syncs.failure().is_noted() {
            self.begun.store(now, Ordering::Relaxed);
            PagedFile::begin_write_back(syncs);
        }
    }
}

/// Bytes that this process has made dirty, or written past the cache. Where the kernel does not
/// tell, those that it has stored.
fn dirtied() -> u64 {
    let told = fs::read_to_string("/proc/self/io").ok();
    told.and_then(|text| field(&text, "write_bytes:")).unwrap_or_else(|| counters().written_bytes)
}

/// The number behind `name` in a file of the kernel with a field in each line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Memory that the process may take: that of the machine, or of a control group around it. `None`
/// if the kernel does not tell.
fn memory_bytes(proc: &Path, groups: &Path) -> Option<u64> {
    let of_machine = field(&fs::read_to_string(proc.join("meminfo")).ok()?, "MemTotal:")? << 10;
    let group = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let group = group.lines().find_map(|line| line.strip_prefix("0::/")).map(PathBuf::from).unwrap_or_default();
    let limits = group.ancestors().filter_map(|group| {
        let limit = fs::read_to_string(groups.join(group).join("memory.max")).ok()?;
        limit.trim().parse::<u64>().ok()
    });
    Some(limits.fold(of_machine, u64::min))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_around_the_process_counts() {
        let root = tempfile::tempdir().expect("a directory");
        let at = |name: &str| root.path().join(name);
        for folder in ["proc/self", "groups/a/b"] {
            fs::create_dir_all(at(folder)).expect("it is made");
        }
        let write = |name: &str, text: &str| fs::write(at(name), text).expect("it is written");
        let memory = || memory_bytes(&at("proc"), &at("groups"));
        assert_eq!(memory(), None, "nobody tells");
        write("proc/meminfo", "MemTotal:       16384 kB\nMemFree:  1 kB\n");
        assert_eq!(memory(), Some(16 << 20));
        write("proc/self/cgroup", "0::/a/b\n");
        assert_eq!(memory(), Some(16 << 20));
        write("groups/a/b/memory.max", "max\n");
        write("groups/a/memory.max", "8388608\n");
        assert_eq!(memory(), Some(8 << 20));
        write("groups/a/b/memory.max", "4194304\n");
        assert_eq!(memory(), Some(4 << 20));
    }
}
