//! The values of the server's status variables, each declared here alone: the C ABI hands over
//! their names with them.

use crate::pool::Pool;
use perdura_pmem::Content;
use std::ffi::CStr;
use std::sync::atomic::Ordering;

/// Declares [`Counters`].
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The values of the server's status variables. Counters start at 0 when the pool is
        /// opened; gauges, marked so, are present values.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Their names.
            pub const NAMES: &[&CStr] = &[$(c_name(concat!(stringify!($name), "\0"))),*];

            /// Their values, in the order of the names.
            pub fn values(&self) -> [u64; Self::NAMES.len()] {
                [$(self.$name),*]
            }
        }
    };
}

const fn c_name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name has no zero byte"),
    }
}

counters! {
    /// Commits of transactions that wrote.
    commits,
    /// Rollbacks of transactions that wrote.
    rollbacks,
    /// Rows moved out of segments of which little was left.
    moved_rows,
    /// Fences issued, by the whole process.
    fences,
    /// Cache lines flushed, by the whole process.
    lines_flushed,
    /// Bytes stored through the cache, by the whole process.
    bytes_written,
    /// Bytes stored past the cache, by the whole process.
    bytes_written_past_cache,
    /// Bytes sent to the medium of the log and its superblock, by the whole process: lines flushed,
    /// each whole, and bytes past the cache.
    medium_bytes_log,
    /// The same of versions of rows, with the heads of their files.
    medium_bytes_versions,
    /// The same of row directories.
    medium_bytes_directory,
    /// The same of leaves of indexes.
    medium_bytes_index,
    /// The same of all else.
    medium_bytes_other,
    /// Bytes queued for pre-fault (gauge).
    prefault_queued_bytes,
    /// Bytes that pre-fault has touched.
    prefault_done_bytes,
    /// Requests that pre-fault gave up after an error.
    prefault_failures,
    /// Threads at work that are pinned to the NUMA node of the pool's memory (gauge).
    numa_pinned,
    /// Threads at work that were let go, as that node is full and another one is not (gauge).
    numa_let_go,
    /// Notices for the error log, about what no statement could report.
    notices,
    /// Row lock waits.
    lock_waits,
    /// Row lock waits that timed out.
    lock_timeouts,
    /// Deadlocks found.
    deadlocks,
    /// Rows locked (gauge).
    locks_held,
    /// Transactions waiting for a row (gauge).
    locks_waited_for,
    /// Log generation switches.
    generation_switches,
    /// Every commit up to this CSN is durable (gauge).
    durable_csn,
    /// Every commit up to this CSN is published (gauge).
    visible_csn,
    /// Every commit up to this CSN is published and its words are stored (gauge).
    stored_csn,
    /// Redo would begin after this CSN (gauge).
    checkpoint_csn,
    /// Live snapshots (gauge).
    snapshots,
    /// Superseded versions that wait for purge (gauge).
    purge_lag,
    /// Total size of the data files, in bytes (gauge).
    data_bytes,
    /// Bytes of the data files in free segments, of tables that have been open since the start
    /// (gauge).
    free_bytes,
    /// Bytes of data files that no table has any more and that are kept for the next ones (gauge).
    kept_file_bytes,
    /// Data files of open tables, each mapped into memory (gauge).
    open_files,
    /// 1 if the pool failed stop (gauge).
    failed,
}

impl Counters {
    pub(crate) fn of(pool: &Pool) -> Counters {
        let pmem = perdura_pmem::counters();
        let (locks_held, locks_waited_for) = pool.locks.counts();
        let log = pool.log.status();
        let tables = pool.open_tables();
        let closed = pool.tables.closed_sizes();
        let prefault = pool.services().prefault_service();
        let locality = pool.services().locality().status();
        Counters {
            commits: pool.counters.commits.load(Ordering::Relaxed),
            rollbacks: pool.counters.rollbacks.load(Ordering::Relaxed),
            moved_rows: pool.counters.moved_rows.load(Ordering::Relaxed),
            fences: pmem.fences,
            lines_flushed: pmem.flushed_lines,
            bytes_written: pmem.written_bytes,
            bytes_written_past_cache: pmem.nt_bytes,
            medium_bytes_log: pmem.medium_bytes(Content::Log),
            medium_bytes_versions: pmem.medium_bytes(Content::Versions),
            medium_bytes_directory: pmem.medium_bytes(Content::Directory),
            medium_bytes_index: pmem.medium_bytes(Content::Index),
            medium_bytes_other: pmem.medium_bytes(Content::Other),
            prefault_queued_bytes: prefault.map_or(0, |service| service.queued_bytes()),
            prefault_done_bytes: prefault.map_or(0, |service| service.done_bytes()),
            prefault_failures: prefault.map_or(0, |service| service.failures()),
            numa_pinned: locality.pinned,
            numa_let_go: locality.let_go,
            notices: pool.services().notices.count(),
            lock_waits: pool.locks.waits.load(Ordering::Relaxed),
            lock_timeouts: pool.locks.timeouts.load(Ordering::Relaxed),
            deadlocks: pool.locks.deadlocks.load(Ordering::Relaxed),
            locks_held,
            locks_waited_for: locks_waited_for as u64,
            generation_switches: log.switches,
            durable_csn: pool.log.durable_csn(),
            visible_csn: pool.log.visible_csn(),
            stored_csn: pool.log.stored_csn(),
            checkpoint_csn: pool.log.checkpoint_csn(),
            snapshots: pool.snapshots.count() as u64,
            purge_lag: tables.iter().map(|table| table.purge_lag() as u64).sum(),
            data_bytes: closed.data_bytes + tables.iter().map(|table| table.data_bytes()).sum::<u64>(),
            free_bytes: closed.free_bytes + tables.iter().map(|table| table.free_bytes()).sum::<u64>(),
            kept_file_bytes: pool.context.medium.counts().1,
            open_files: tables.iter().map(|table| table.chain().file_count() as u64).sum(),
            failed: u64::from(pool.log.is_failed()),
        }
    }
}
