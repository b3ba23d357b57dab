//! The report of SHOW ENGINE PERDURA STATUS.

use crate::activity::TransactionStatus;
use crate::counters::Counters;
use crate::pool::Pool;
use crate::pool::locks::Deadlock;
use crate::sessions;
use perdura_log::LogStatus;
use perdura_pmem::numa::LocalityStatus;
use perdura_pmem::{Medium, MediumInfo};
use std::fmt;
use std::time::Duration;

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
    /// Placement of threads near the medium.
    pub locality: LocalityStatus,
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
    /// Number of data files that no table has any more and that are kept for the next ones.
    pub kept_files: usize,
    /// Size of these, in bytes.
    pub kept_bytes: u64,
}

impl Status {
    pub(crate) fn of(pool: &Pool) -> Status {
        let now = pool.now();
        let (transactions, transactions_active) = sessions::active(pool, now);
        let closed = pool.tables.closed_sizes();
        let (kept_files, kept_bytes) = pool.context.medium.counts();
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
            locality: pool.services().locality().status(),
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
            kept_files,
            kept_bytes,
        }
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

impl Status {
    fn write_commits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = &self.counters;
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
        writeln!(f, "  {} versions wait to be purged, {} rows moved", counters.purge_lag, counters.moved_rows)
    }

    fn write_locks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = &self.counters;
        writeln!(
            f,
            "LOCKS\n  {} held, {} waited for; since start {} waits, {} timeouts, {} deadlocks",
            counters.locks_held,
            counters.locks_waited_for,
            counters.lock_waits,
            counters.lock_timeouts,
            counters.deadlocks
        )
    }

    fn write_traffic(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = &self.counters;
        writeln!(
            f,
            "TRAFFIC\n  {} fences, {} lines flushed, {} stored through the cache, {} past it",
            counters.fences,
            counters.lines_flushed,
            mib(counters.bytes_written),
            mib(counters.bytes_written_past_cache)
        )?;
        writeln!(
            f,
            "  to the medium: {} of log, {} of versions, {} of directory, {} of indexes, {} of other things",
            mib(counters.medium_bytes_log),
            mib(counters.medium_bytes_versions),
            mib(counters.medium_bytes_directory),
            mib(counters.medium_bytes_index),
            mib(counters.medium_bytes_other)
        )?;
        writeln!(
            f,
            "  pre-fault: {} done, {} to do, {} requests failed",
            mib(counters.prefault_done_bytes),
            mib(counters.prefault_queued_bytes),
            counters.prefault_failures
        )
    }

    fn write_tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        if self.closed_tables > 0 {
            writeln!(f, "  and {} closed tables: {} of data", self.closed_tables, mib(self.closed_bytes))?;
        }
        if self.kept_files > 0 {
            writeln!(f, "  and {} kept files of dropped tables: {}", self.kept_files, mib(self.kept_bytes))?;
        }
        Ok(())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "MEDIUM\n  {}\n  {}", self.medium, self.locality)?;
        if self.counters.failed != 0 {
            writeln!(f, "  THE POOL HAS FAILED STOP: read-only; the error log has the cause")?;
        }
        writeln!(f, "LOG\n{}", self.log)?;
        self.write_commits(f)?;
        self.write_locks(f)?;
        sessions::write_transactions(f, &self.transactions, self.transactions_active)?;
        sessions::write_deadlock(f, self.last_deadlock.as_ref(), self.now)?;
        self.write_traffic(f)?;
        if !self.notices.is_empty() {
            writeln!(f, "NOTICES\n  {} since start, the last ones:", self.counters.notices)?;
        }
        for notice in &self.notices {
            writeln!(f, "  {notice}")?;
        }
        self.write_tables(f)
    }
}
