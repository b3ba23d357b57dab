//! Counters of a pool, for the server's status variables.

use super::call::call_or;
use super::engine::PerduraEngine;
use perdura_engine::Counters;
use std::sync::atomic::Ordering;

/// Counters of a pool since it was opened, and gauges of what is now.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PerduraCounters {
    /// Sessions open (gauge).
    pub sessions_open: u64,
    /// Sessions begun.
    pub sessions_begun: u64,
    /// Transactions begun, those that only read included.
    pub transactions: u64,
    /// Commits of transactions that wrote.
    pub commits: u64,
    /// Rollbacks of transactions that wrote.
    pub rollbacks: u64,
    /// Rows that reads through an index did without: the entry had all that they needed.
    pub rows_not_read: u64,
    /// Rows moved out of segments of which little was left.
    pub moved_rows: u64,
    /// Fences issued by the process.
    pub fences: u64,
    /// Cache lines flushed by the process.
    pub lines_flushed: u64,
    /// Bytes that the process has stored through the cache.
    pub bytes_written: u64,
    /// Bytes that the process has stored past the cache.
    pub bytes_written_past_cache: u64,
    /// Bytes queued for pre-fault (gauge).
    pub prefault_queued_bytes: u64,
    /// Bytes pre-faulted.
    pub prefault_done_bytes: u64,
    /// Pre-fault requests given up after an error.
    pub prefault_failures: u64,
    /// Notices for the error log.
    pub notices: u64,
    /// Row lock waits.
    pub lock_waits: u64,
    /// Row lock waits that timed out.
    pub lock_timeouts: u64,
    /// Deadlocks.
    pub deadlocks: u64,
    /// Rows locked (gauge).
    pub locks_held: u64,
    /// Sessions waiting for a row lock (gauge).
    pub locks_waited_for: u64,
    /// Log generation switches.
    pub generation_switches: u64,
    /// Every commit up to this CSN is durable (gauge).
    pub durable_csn: u64,
    /// Every commit up to this CSN is visible (gauge).
    pub visible_csn: u64,
    /// Every commit up to this CSN is stored: its words are in place on the medium (gauge).
    pub stored_csn: u64,
    /// Redo would begin after this CSN (gauge).
    pub checkpoint_csn: u64,
    /// Snapshots open (gauge).
    pub snapshots: u64,
    /// Versions waiting for purge (gauge).
    pub purge_lag: u64,
    /// Bytes of data files (gauge).
    pub data_bytes: u64,
    /// Bytes of data files in free segments (gauge).
    pub free_bytes: u64,
    /// Data files of open tables, each mapped into memory (gauge).
    pub open_files: u64,
    /// 1 if the pool has failed stop (gauge).
    pub failed: u64,
}

/// Reads the counters.
///
/// # Safety
/// `engine` must be open, `target` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_counters(engine: *const PerduraEngine, target: *mut PerduraCounters) {
    // SAFETY: as the caller vouches for.
    let engine = unsafe { &*engine };
    let read = call_or(Some(engine.engine()), PerduraCounters::default(), || counters(engine));
    // SAFETY: as the caller vouches for.
    unsafe { target.write(read) };
}

fn counters(engine: &PerduraEngine) -> PerduraCounters {
    let sessions = &engine.sessions;
    // Taken apart field by field: a counter that the engine gains must be passed on here.
    let Counters {
        commits,
        rollbacks,
        moved_rows,
        fences,
        lines_flushed,
        bytes_written,
        bytes_written_nt: bytes_written_past_cache,
        prefault_queued_bytes,
        prefault_done_bytes,
        prefault_failures,
        notices,
        lock_waits,
        lock_timeouts,
        deadlocks,
        locks_held,
        locks_waited_for,
        generation_switches,
        durable_csn,
        visible_csn,
        stored_csn,
        checkpoint_csn,
        snapshots,
        purge_lag,
        data_bytes,
        free_bytes,
        open_files,
        failed,
    } = engine.engine().counters();
    PerduraCounters {
        sessions_open: sessions.open.load(Ordering::Relaxed),
        sessions_begun: sessions.begun.load(Ordering::Relaxed),
        transactions: sessions.transactions.load(Ordering::Relaxed),
        commits,
        rollbacks,
        rows_not_read: sessions.rows_not_read.load(Ordering::Relaxed),
        moved_rows,
        fences,
        lines_flushed,
        bytes_written,
        bytes_written_past_cache,
        prefault_queued_bytes,
        prefault_done_bytes,
        prefault_failures,
        notices,
        lock_waits,
        lock_timeouts,
        deadlocks,
        locks_held,
        locks_waited_for,
        generation_switches,
        durable_csn,
        visible_csn,
        stored_csn,
        checkpoint_csn,
        snapshots,
        purge_lag,
        data_bytes,
        free_bytes,
        open_files,
        failed,
    }
}
