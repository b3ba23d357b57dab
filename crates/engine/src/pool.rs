//! Room *pool*: what the sessions of an opened pool share.
//!
//! It owns the log's handle, the register of tables, the lock table and the owners in it, the list
//! of live snapshots, prepared transactions without a session, and the gate that holds a pool
//! still. It stands on `changes` and `table`. It keeps (I8): purge reclaims nothing that a live
//! snapshot sees or that the last checkpoint does not cover; (I2) for a held pool: nobody stores to
//! it; and (I11): a failed checkpoint stops the pool, and a failed pool takes no writes.

pub(crate) mod checkpoints;
pub(crate) mod held_locks;
pub(crate) mod hold;
pub(crate) mod locks;
pub(crate) mod owner;
pub(crate) mod prepared;
pub(crate) mod snapshot_list;
pub(crate) mod tables;

use crate::changes::deferred_flush::DeferredFlush;
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::files::context::TableContext;
use crate::format::{CATALOG_ID, RECORD_BYTES, VALUE_HEAD};
use crate::index::purge::IndexPurge;
use crate::index::replace::{Commits, Ground};
use crate::service::Services;
use crate::shadow::purge_horizon::PurgeHorizon;
use crate::table::Table;
use checkpoints::Checkpoints;
use hold::Hold;
use locks::LockTable;
use perdura_log::format::{XID_BYTES_MAX, group_bytes as log_group_bytes};
use perdura_log::{Csn, Log};
use perdura_pmem::sync::Mutex;
use perdura_pmem::{Medium, Mutant};
use prepared::PreparedList;
use snapshot_list::SnapshotList;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tables::Tables;

/// Most bytes of redo records in one log group, before rounding down to whole records. A larger
/// transaction is logged in chunks.
const CHUNK_BYTES: u64 = 48 << 10;

/// Most records in one log group, in lanes of so many bytes.
fn chunk_records(lane_bytes: u64) -> usize {
    CHUNK_BYTES.min(lane_bytes / 4) as usize / RECORD_BYTES
}

/// Refuses a log buffer that is smaller than the longest group of a transaction.
pub(crate) fn check_log_buffer(config: &Config, lane_bytes: u64) -> Result<()> {
    let path = &config.log.path;
    let longest = log_group_bytes(chunk_records(lane_bytes) * RECORD_BYTES + XID_BYTES_MAX);
    if !path.path.is_staged() || path.buffer_bytes >= longest {
        return Ok(());
    }
    let what = format!(
        "the log buffer has {} bytes, and a transaction's record may take {longest}; enlarge it to the next power of two, or \
         choose the log path direct",
        path.buffer_bytes
    );
    Err(Error::new(ErrorKind::Configuration, what))
}

/// Most batches of pages, and of leaves, that a session purges at once.
const PURGED_BATCHES: usize = 16;

/// Counters of events that no other room counts.
#[derive(Default)]
pub(crate) struct EventCounters {
    /// Commits of transactions that wrote.
    pub commits: AtomicU64,
    /// Rollbacks of transactions that wrote.
    pub rollbacks: AtomicU64,
    /// Rows moved out of sparse segments.
    pub moved_rows: AtomicU64,
}

/// An opened pool.
pub(crate) struct Pool {
    pub context: Arc<TableContext>,
    pub log: Log,
    /// Words to be flushed before the next checkpoint.
    pub deferred: Arc<DeferredFlush>,
    pub checkpoints: Checkpoints,
    pub snapshots: SnapshotList,
    pub locks: LockTable,
    /// The tables, without the catalog.
    pub tables: Tables,
    pub catalog: Arc<Table>,
    /// Serialises DDL: locked from before a DDL transaction begins until it has ended.
    pub ddl: Mutex<()>,
    purging: Mutex<()>,
    /// Serialises the moving of rows.
    pub moving: Mutex<()>,
    pub hold: Hold,
    /// Prepared transactions without a session.
    pub prepared: PreparedList,
    next_session: AtomicU64,
    lock_wait_timeout_ms: AtomicU64,
    transaction_memory: AtomicU64,
    /// Most bytes of redo records in one log group: whole records, at most a quarter of a lane.
    pub chunk_bytes: usize,
    /// Bytes that a transaction may take by value: those of one log group. A larger one is by
    /// reference, and its one more fence is little beside what it writes.
    pub value_bytes_max: u64,
    /// Bytes of words in DRAM beyond which a write set is spilled before it is logged: half of a
    /// generation.
    pub logged_at_most: usize,
    pub counters: EventCounters,
}

impl Pool {
    /// Assembles a pool from what recovery has opened.
    pub(crate) fn new(
        context: Arc<TableContext>,
        log: Log,
        catalog: Arc<Table>,
        tables: Tables,
        config: &Config,
        lane_bytes: u64,
    ) -> Pool {
        let records = chunk_records(lane_bytes);
        let deferred = Arc::new(DeferredFlush::new(&context));
        let (flushed, medium) = (deferred.clone(), context.medium.clone());
        log.set_flush_stored(Box::new(move || {
            flushed.flush();
            // Planted: a checkpoint leaves to the kernel what was stored.
            if !perdura_pmem::planted(Mutant::CheckpointUnsettled) {
                // The log asks the medium before it relies on that.
                let _ = medium.settle();
            }
        }));
        let generation = u64::from(log.lanes()) * lane_bytes;
        let log_bytes = generation * u64::from(config.log.generations_max);
        let checkpoints = Checkpoints::new(&*context.medium, config, log_bytes);
        Pool {
            context,
            log,
            deferred,
            checkpoints,
            snapshots: SnapshotList::default(),
            locks: LockTable::new(config.clock),
            tables,
            catalog,
            ddl: Mutex::new(()),
            purging: Mutex::new(()),
            moving: Mutex::new(()),
            hold: Hold::default(),
            prepared: PreparedList::default(),
            next_session: AtomicU64::new(1),
            lock_wait_timeout_ms: AtomicU64::new(config.lock_wait_timeout.as_millis() as u64),
            transaction_memory: AtomicU64::new(config.transaction_memory),
            chunk_bytes: records * RECORD_BYTES,
            logged_at_most: (generation / 2) as usize,
            value_bytes_max: (records * RECORD_BYTES).saturating_sub(VALUE_HEAD) as u64,
            counters: EventCounters::default(),
        }
    }

    /// The services that tables reach from below.
    pub(crate) fn services(&self) -> &Services {
        &self.context.services
    }

    /// The time for reports, since 1970.
    pub(crate) fn now(&self) -> Duration {
        (self.locks.clock())()
    }

    /// Waits until everything that this thread has flushed is durable.
    #[track_caller]
    pub(crate) fn fence(&self) {
        self.catalog.chain().fence();
    }

    /// Waits until the leaves that anybody has published later are durable: a commit's record may
    /// name them.
    ///
    /// # Errors
    /// ReadOnlyPool if the medium has failed.
    pub(crate) fn wait_published(&self) -> Result<()> {
        self.catalog.chain().wait_published();
        self.check_writable()
    }

    /// Fails with ReadOnlyPool, and the reason, if the pool has failed stop, or its medium has.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.log.check_running().map_err(Error::from)
    }

    /// Refuses a table of another pool, whose rows this pool's snapshots and locks do not hold, and
    /// one that was altered since it was looked up.
    #[inline]
    pub(crate) fn check_own(&self, table: &Table) -> Result<()> {
        if !Arc::ptr_eq(table.chain().context(), &self.context) {
            return Err(another_pool(table));
        }
        if table.is_altered() {
            let what = format!("the indexes of table {} were altered since it was looked up", table.name());
            return Err(Error::new(ErrorKind::DefinitionChanged, what));
        }
        Ok(())
    }

    /// The number of a new session: from 1 on, never given twice while the pool is open.
    pub(crate) fn next_session(&self) -> u64 {
        self.next_session.fetch_add(1, Ordering::Relaxed)
    }

    /// How long sessions without a setting of their own wait for a row lock.
    pub(crate) fn lock_wait_timeout(&self) -> Duration {
        Duration::from_millis(self.lock_wait_timeout_ms.load(Ordering::Relaxed))
    }

    /// Sets how long sessions without a setting of their own wait for a row lock, to the
    /// millisecond.
    pub(crate) fn set_lock_wait_timeout(&self, timeout: Duration) {
        self.lock_wait_timeout_ms.store(timeout.as_millis() as u64, Ordering::Relaxed);
    }

    /// DRAM that a transaction's write set may take before it spills, in bytes.
    #[inline]
    pub(crate) fn transaction_memory(&self) -> usize {
        self.transaction_memory.load(Ordering::Relaxed) as usize
    }

    /// Sets the DRAM that a transaction's write set may take before it spills, in bytes.
    pub(crate) fn set_transaction_memory(&self, bytes: u64) {
        self.transaction_memory.store(bytes, Ordering::Relaxed);
    }

    /// Looks a table up by its name, and opens it if it is closed.
    ///
    /// # Errors
    /// NotFound; Damaged, NotSupported or Medium if the table cannot be opened.
    pub(crate) fn table(&self, name: &str) -> Result<Arc<Table>> {
        self.tables.open(&self.tables.find(name)?)
    }

    /// The name of table `table` for reports; of a dropped table only the id is left.
    pub(crate) fn name_of(&self, table: u32) -> String {
        if table == CATALOG_ID {
            return self.catalog.name();
        }
        let found = self.tables.find_id(table);
        found.map_or_else(|| format!("a dropped table (id {table})"), |found| found.name().to_string())
    }

    /// The tables that are open, the catalog first. A closed table has nothing to purge or to
    /// sweep.
    pub(crate) fn open_tables(&self) -> Vec<Arc<Table>> {
        let mut tables = self.tables.open_list();
        tables.insert(0, self.catalog.clone());
        tables
    }

    /// Takes a checkpoint at the present visible CSN, and returns that CSN. If it cannot be written
    /// the pool fails stop (I11).
    pub(crate) fn checkpoint(&self) -> Result<Csn> {
        self.deferred.flush_ahead();
        match self.log.checkpoint() {
            Ok(csn) => Ok(csn),
            Err(error) => {
                self.log.fail_stop(&format!("the checkpoint could not be written: {error}"));
                Err(error.into())
            }
        }
    }

    /// Takes a checkpoint, or asks for one where that takes long. Returns the CSN of the last one.
    ///
    /// # Errors
    /// Medium, if it cannot be written.
    pub(crate) fn checkpoint_soon(&self) -> Result<Csn> {
        if !self.checkpoints.is_apart() {
            return self.checkpoint();
        }
        self.checkpoints.ask();
        Ok(self.log.checkpoint_csn())
    }

    /// Runs `body` while no purge does.
    pub(crate) fn without_purge<T>(&self, body: impl FnOnce() -> T) -> T {
        let _one = self.purging.lock();
        body()
    }

    /// Purges the open tables as far as live snapshots and the last checkpoint allow (I8). Returns
    /// the number of versions reclaimed.
    pub(crate) fn purge(&self) -> usize {
        let _one = self.purging.lock();
        // Planted: purge goes beyond the checkpoint.
        let covered = if perdura_pmem::planted(Mutant::PurgePastCheckpoint) {
            self.log.visible_csn()
        } else {
            self.log.checkpoint_csn()
        };
        let horizon = self.snapshots.horizon(covered);
        let mut purged = 0;
        for table in self.open_tables() {
            purged += table.space().purge(&horizon);
            let ground = Ground { segments: table.space().segments(), commits: self, later: false };
            IndexPurge::new(table.index_list(), ground, &horizon).round(|| self.snapshots.count() == 0);
        }
        purged
    }

    /// Purges `table` as far, but no more than some pages and leaves, for a session that is about
    /// to take room there: a load of updates must not outrun the background thread, and take fresh
    /// room while its own garbage waits. A round of purge that is under way is waited for.
    ///
    /// # Errors
    /// Medium, if the checkpoint cannot be written.
    pub(crate) fn purge_some(&self, table: &Table) -> Result<()> {
        // Nothing waits that this could reach.
        let oldest = self.snapshots.oldest().unwrap_or(Csn::MAX);
        if !table.space().retired().is_due(oldest) {
            return Ok(());
        }
        if !table.space().retired().is_due(self.log.checkpoint_csn()) {
            self.checkpoint_soon()?;
        }
        let _one = self.purging.lock();
        let horizon = self.snapshots.horizon(self.log.checkpoint_csn());
        table.space().purge_oldest(&horizon, PURGED_BATCHES);
        let ground = Ground { segments: table.space().segments(), commits: self, later: false };
        IndexPurge::new(table.index_list(), ground, &horizon).oldest(PURGED_BATCHES);
        Ok(())
    }
}

impl Commits for Pool {
    fn visible(&self) -> Csn {
        self.log.visible_csn()
    }

    /// By reference a leaf hands on what redo looks for: older builds, which may have to recover
    /// the pool, find it there.
    fn seen(&self) -> Option<PurgeHorizon> {
        self.context.redo_form.is_by_value().then(|| self.snapshots.seen(self.log.visible_csn()))
    }
}

#[cold]
fn another_pool(table: &Table) -> Error {
    let what = format!("table {} belongs to another pool; use a session of its engine", table.name());
    Error::new(ErrorKind::Configuration, what)
}
