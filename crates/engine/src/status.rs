//! The values of the server's status variables, and the report of SHOW ENGINE PERDURA STATUS.

use crate::activity::TransactionStatus;
use crate::pool::Pool;
use crate::pool::locks::Deadlock;
use crate::sessions;
use perdura_log::LogStatus;
use perdura_pmem::MediumInfo;
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The values of the server's status variables. Counters start at 0 when the pool is opened;
/// gauges, marked so, are present values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Commits of transactions that wrote.
    pub commits: u64,
    /// Rollbacks of transactions that wrote.
    pub rollbacks: u64,
    /// Rows moved out of segments of which little was left.
    pub moved_rows: u64,
    /// Fences issued, by the whole process.
    pub fences: u64,
    /// Cache lines flushed, by the whole process.
    pub lines_flushed: u64,
    /// Bytes stored through the cache, by the whole process.
    pub bytes_written: u64,
    /// Bytes stored past the cache, by the whole process.
    pub bytes_written_nt: u64,
    /// Bytes queued for pre-fault (gauge).
    pub prefault_queued_bytes: u64,
    /// Bytes that pre-fault has touched.
    pub prefault_done_bytes: u64,
    /// Requests that pre-fault gave up after an error.
    pub prefault_failures: u64,
    /// Notices for the error log, about what no statement could report.
    pub notices: u64,
    /// Row lock waits.
    pub lock_waits: u64,
    /// Row lock waits that timed out.
    pub lock_timeouts: u64,
    /// Deadlocks found.
    pub deadlocks: u64,
    /// Rows locked (gauge).
    pub locks_held: u64,
    /// Transactions waiting for a row (gauge).
    pub locks_waited_for: u64,
    /// Log generation switches.
    pub generation_switches: u64,
    /// Every commit up to this CSN is durable (gauge).
    pub durable_csn: u64,
    /// Every commit up to this CSN is published (gauge).
    pub visible_csn: u64,
    /// Every commit up to this CSN is published and its words are stored (gauge).
    pub stored_csn: u64,
    /// Redo would begin after this CSN (gauge).
    pub checkpoint_csn: u64,
    /// Live snapshots (gauge).
    pub snapshots: u64,
    /// Superseded versions that wait for purge (gauge).
    pub purge_lag: u64,
    /// Total size of the data files, in bytes (gauge).
    pub data_bytes: u64,
    /// Bytes of the data files in free segments, of tables that have been open since the start
    /// (gauge).
    pub free_bytes: u64,
    /// Data files of open tables, each mapped into memory (gauge).
    pub open_files: u64,
    /// 1 if the pool failed stop (gauge).
    pub failed: u64,
}

impl Counters {
    pub(crate) fn of(pool: &Pool) -> Counters {
        let pmem = perdura_pmem::counters();
        let (locks_held, locks_waited_for) = pool.locks.counts();
        let log = pool.log.status();
        let tables = pool.open_tables();
        let closed = pool.tables.closed_sizes();
        let prefault = pool.services().prefault_service();
        Counters {
            commits: pool.counters.commits.load(Ordering::Relaxed),
            rollbacks: pool.counters.rollbacks.load(Ordering::Relaxed),
            moved_rows: pool.counters.moved_rows.load(Ordering::Relaxed),
            fences: pmem.fences,
            lines_flushed: pmem.flushed_lines,
            bytes_written: pmem.written_bytes,
            bytes_written_nt: pmem.nt_bytes,
            prefault_queued_bytes: prefault.map_or(0, |service| service.queued_bytes()),
            prefault_done_bytes: prefault.map_or(0, |service| service.done_bytes()),
            prefault_failures: prefault.map_or(0, |service| service.failures()),
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
            open_files: tables.iter().map(|table| table.chain().file_count() as u64).sum(),
            failed: u64::from(pool.log.is_failed()),
        }
    }
}

/// The space that a table takes.
#[derive(Clone, Debug)]
pub struct TableStatus {
    /// Name of the table.
    pub name: String,
    /// Estimated number of rows.
    pub rows: u64,
    /// Number of data files in the chain.
    pub files: usize,
    /// Size of the data files, in bytes.
    pub data_bytes: u64,
    /// Bytes of the data files in free segments.
    pub free_bytes: u64,
    /// Superseded versions that wait for purge.
    pub purge_lag: usize,
    /// Segments and directory pages not swept since the restart.
    pub unswept: usize,
}

/// The state of a pool at one moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// Kind, granularity and NUMA node of the medium.
    pub medium: MediumInfo,
    /// Lanes, generations and marks of the log.
    pub log: LogStatus,
    /// The values of the status variables.
    pub counters: Counters,
    /// CSN of the oldest live snapshot.
    pub oldest_snapshot: Option<u64>,
    /// Number of prepared transactions without a session.
    pub prepared: usize,
    /// The transactions that hold locks, wrote or wait, oldest first, at most a hundred.
    pub transactions: Vec<TransactionStatus>,
    /// Number of such transactions, unlisted ones included.
    pub transactions_active: usize,
    /// The last deadlock since the pool was opened.
    pub last_deadlock: Option<Deadlock>,
    /// The latest notices for the error log, oldest first.
    pub notices: Vec<String>,
    /// The time at which the status was taken.
    pub now: Duration,
    /// The space of each open table, the catalog first.
    pub tables: Vec<TableStatus>,
    /// Number of closed tables.
    pub closed_tables: usize,
    /// Size of their data files, in bytes.
    pub closed_bytes: u64,
}

impl Status {
    pub(crate) fn of(pool: &Pool) -> Status {
        let now = pool.now();
        let (transactions, transactions_active) = sessions::active(pool, now);
        let closed = pool.tables.closed_sizes();
        let tables = pool.open_tables().into_iter().map(|table| TableStatus {
            name: table.name(),
            rows: table.row_count_estimate(),
            files: table.chain().file_count(),
            data_bytes: table.data_bytes(),
            free_bytes: table.free_bytes(),
            purge_lag: table.purge_lag(),
            unswept: table.space().unswept(),
        });
        Status {
            medium: pool.context.medium.info(),
            log: pool.log.status(),
            counters: Counters::of(pool),
            oldest_snapshot: pool.snapshots.oldest(),
            prepared: pool.prepared.xids().len(),
            transactions,
            transactions_active,
            last_deadlock: pool.locks.last_deadlock(),
            notices: pool.services().notices.last(),
            now,
            tables: tables.collect(),
            closed_tables: closed.tables,
            closed_bytes: closed.data_bytes,
        }
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = &self.counters;
        writeln!(f, "MEDIUM\n  {}", self.medium)?;
        if counters.failed != 0 {
            writeln!(f, "  THE POOL HAS FAILED STOP: read-only; the error log has the cause")?;
        }
        writeln!(f, "LOG\n{}", self.log)?;
        writeln!(
            f,
            "COMMITS\n  durable CSN {}, visible CSN {}, stored CSN {}, checkpoint CSN {}\n  {} committed, {} rolled back, {} prepared without a session",
            counters.durable_csn,
            counters.visible_csn,
            counters.stored_csn,
            counters.checkpoint_csn,
            counters.commits,
            counters.rollbacks,
            self.prepared
        )?;
        match self.oldest_snapshot {
            Some(csn) => writeln!(f, "  {} snapshots, the oldest at CSN {csn}", counters.snapshots)?,
            None => writeln!(f, "  no snapshots")?,
        }
        writeln!(f, "  {} versions wait to be purged, {} rows moved", counters.purge_lag, counters.moved_rows)?;
        writeln!(
            f,
            "LOCKS\n  {} held, {} waited for; since start {} waits, {} timeouts, {} deadlocks",
            counters.locks_held,
            counters.locks_waited_for,
            counters.lock_waits,
            counters.lock_timeouts,
            counters.deadlocks
        )?;
        sessions::write_transactions(f, &self.transactions, self.transactions_active)?;
        sessions::write_deadlock(f, self.last_deadlock.as_ref(), self.now)?;
        writeln!(
            f,
            "TRAFFIC\n  {} fences, {} lines flushed, {} stored through the cache, {} past it",
            counters.fences,
            counters.lines_flushed,
            mib(counters.bytes_written),
            mib(counters.bytes_written_nt)
        )?;
        writeln!(
            f,
            "  pre-fault: {} done, {} to do, {} requests failed",
            mib(counters.prefault_done_bytes),
            mib(counters.prefault_queued_bytes),
            counters.prefault_failures
        )?;
        if !self.notices.is_empty() {
            writeln!(f, "NOTICES\n  {} since start, the last ones:", counters.notices)?;
        }
        for notice in &self.notices {
            writeln!(f, "  {notice}")?;
        }
        writeln!(
            f,
            "TABLES\n  {:<40} {:>12} {:>6} {:>12} {:>12} {:>8} {:>8}",
            "name", "rows (about)", "files", "data", "free", "purge", "unswept"
        )?;
        for table in &self.tables {
            writeln!(
                f,
                "  {:<40} {:>12} {:>6} {:>12} {:>12} {:>8} {:>8}",
                table.name,
                table.rows,
                table.files,
                mib(table.data_bytes),
                mib(table.free_bytes),
                table.purge_lag,
                table.unswept
            )?;
        }
        match self.closed_tables {
            0 => Ok(()),
            closed => writeln!(f, "  and {closed} closed tables: {} of data", mib(self.closed_bytes)),
        }
    }
}
