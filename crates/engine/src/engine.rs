//! A pool, opened: what its tables and transactions share.

use crate::background::Background;
use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::format::RECORD_BYTES;
use crate::hold::Hold;
use crate::locks::LockTable;
use crate::service::Services;
use crate::snapshot::Snapshots;
use crate::status::{Counters, EventCounters, Status};
use crate::table::{Table, TableContext};
use crate::txn::{Isolation, Txn};
use perdura_log::{Csn, Log};
use perdura_pmem::Medium;
use perdura_pmem::sync::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Largest body of one log group, in bytes; larger transactions are logged in chunks.
const CHUNK_BYTES: u64 = 48 << 10;

pub(crate) struct Inner {
    pub(crate) context: Arc<TableContext>,
    pub(crate) services: Arc<Services>,
    pub(crate) log: Log,
    pub(crate) snapshots: Snapshots,
    pub(crate) locks: LockTable,
    pub(crate) tables: RwLock<BTreeMap<String, Arc<Table>>>,
    catalog: Arc<Table>,
    pub(crate) ddl: Mutex<()>,
    pub(crate) purging: Mutex<()>,
    pub(crate) hold: Hold,
    prepared: Mutex<Vec<Txn>>,
    pub(crate) next_session: AtomicU64,
    lock_wait_timeout_ms: AtomicU64,
    pub(crate) chunk_bytes: usize,
    pub(crate) counters: EventCounters,
}

impl Inner {
    pub(crate) fn new(
        context: Arc<TableContext>,
        log: Log,
        catalog: Arc<Table>,
        tables: BTreeMap<String, Arc<Table>>,
        config: &Config,
        lane_bytes: u64,
    ) -> Inner {
        let records = CHUNK_BYTES.min(lane_bytes / 4) as usize / RECORD_BYTES;
        Inner {
            services: context.services.clone(),
            context,
            log,
            snapshots: Snapshots::default(),
            locks: LockTable::new(config.clock),
            tables: RwLock::new(tables),
            catalog,
            ddl: Mutex::new(()),
            purging: Mutex::new(()),
            hold: Hold::default(),
            prepared: Mutex::new(Vec::new()),
            next_session: AtomicU64::new(1),
            lock_wait_timeout_ms: AtomicU64::new(config.lock_wait_timeout.as_millis() as u64),
            chunk_bytes: records * RECORD_BYTES,
            counters: EventCounters::default(),
        }
    }

    pub(crate) fn catalog(&self) -> Arc<Table> {
        self.catalog.clone()
    }

    /// Waits until all this thread flushed is durable.
    #[track_caller]
    pub(crate) fn fence(&self) {
        self.catalog.files.get(0).expect("a first file").region().fence();
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if !self.log.is_failed() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ReadOnlyPool,
            "the pool has failed stop and is read-only; see the error log for the cause, mend it and restart",
        ))
    }

    pub(crate) fn lock_wait_timeout(&self) -> Duration {
        Duration::from_millis(self.lock_wait_timeout_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn table(&self, name: &str) -> Result<Arc<Table>> {
        let found = self.tables.read().get(name).cloned();
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("table {name} does not exist in the pool")))
    }

    /// The name of a table for reports; one that was dropped has only its id.
    pub(crate) fn name_of(&self, table: u32) -> String {
        let found = self.table_list().into_iter().find(|one| one.id() == table);
        found.map_or_else(|| format!("a dropped table (id {table})"), |found| found.name())
    }

    /// All tables, the catalog first.
    pub(crate) fn table_list(&self) -> Vec<Arc<Table>> {
        std::iter::once(&self.catalog).chain(self.tables.read().values()).cloned().collect()
    }

    /// Keeps a prepared transaction whose session ended, until it is decided by name.
    pub(crate) fn keep_prepared(self: Arc<Self>, txn: &mut Txn) {
        let isolation = txn.isolation();
        let kept = std::mem::replace(txn, Txn::new(self.clone(), isolation));
        self.prepared.lock().push(kept);
    }

    pub(crate) fn add_prepared(&self, txn: Txn) {
        self.prepared.lock().push(txn);
    }

    fn take_prepared(&self, xid: &[u8]) -> Option<Txn> {
        let mut prepared = self.prepared.lock();
        let position = prepared.iter().position(|txn| txn.xid == xid)?;
        Some(prepared.swap_remove(position))
    }

    /// Whether a prepared transaction without a session wrote to the table.
    pub(crate) fn is_written_by_prepared(&self, table: u32) -> bool {
        let wrote = |txn: &Txn| txn.writes.touches(table) || txn.bulk.iter().any(|bulk| bulk.table().id() == table);
        self.prepared.lock().iter().any(wrote)
    }

    /// Leaves prepared transactions to the pool on the medium. They hold this one, which holds them: without this it would never go.
    pub(crate) fn forget_prepared(&self) {
        let prepared = std::mem::take(&mut *self.prepared.lock());
        for mut txn in prepared {
            txn.forget();
        }
    }

    pub(crate) fn prepared_xids(&self) -> Vec<Vec<u8>> {
        self.prepared.lock().iter().map(|txn| txn.xid.clone()).collect()
    }
}

/// A pool, opened. Clones share it. When the last one is dropped without [`Engine::close`] its threads end, but no checkpoint is
/// taken.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
    running: Arc<Running>,
}

/// What ends with the last clone of an engine.
struct Running {
    inner: Arc<Inner>,
    background: Mutex<Option<Background>>,
}

impl Running {
    fn stop_background(&self) {
        self.inner.hold.release();
        let background = self.background.lock().take();
        if let Some(background) = background {
            background.stop();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop_background();
        self.inner.forget_prepared();
    }
}

impl Engine {
    /// Opens the pool on `medium`, recovering it; creates it if the medium is empty.
    pub fn open(medium: Arc<dyn Medium>, config: Config) -> Result<Engine> {
        let inner = crate::recovery::open(medium, &config)?;
        let background = config.background.then(|| Background::start(inner.clone()));
        let running = Running { inner: inner.clone(), background: Mutex::new(background) };
        Ok(Engine { inner, running: Arc::new(running) })
    }

    /// Ends background work after a last checkpoint. Prepared transactions stay prepared in the pool.
    pub fn close(&self) {
        self.running.stop_background();
        if !self.inner.log.is_failed()
            && let Err(error) = self.inner.log.checkpoint()
        {
            self.inner.log.fail_stop(&error.to_string());
        }
        self.inner.forget_prepared();
    }

    /// Creates a table. `definition` is kept and given back, not looked at.
    ///
    /// # Errors
    /// Exists, DeviceFull, ReadOnlyPool, Configuration (the name).
    pub fn create_table(&self, name: &str, definition: &[u8]) -> Result<Arc<Table>> {
        self.inner.create_table(name, definition)
    }

    /// Drops a table. No transaction may be using it. Error: NotFound.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.inner.drop_table(name)
    }

    /// Renames a table. Errors: NotFound, Exists.
    pub fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename_table(from, to, false)
    }

    /// Renames a table that the server filled with another's rows to take its place. A snapshot taken before this does
    /// not see those rows: its reads fail with [`ErrorKind::DefinitionChanged`] rather than find the table empty.
    /// Errors: NotFound, Exists.
    pub fn rename_rebuilt_table(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename_table(from, to, true)
    }

    /// Empties a table by replacing it; returns the new one. No transaction may be using it.
    pub fn truncate_table(&self, name: &str) -> Result<Arc<Table>> {
        self.inner.truncate_table(name)
    }

    /// A table by name. Error: NotFound.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        self.inner.table(name)
    }

    /// All tables, in the order of their names.
    pub fn tables(&self) -> Vec<Arc<Table>> {
        self.inner.tables.read().values().cloned().collect()
    }

    /// A session's transaction, to be used for one after another.
    pub fn begin(&self, isolation: Isolation) -> Box<Txn> {
        Box::new(Txn::new(self.inner.clone(), isolation))
    }

    /// Names of prepared transactions that no session holds.
    pub fn prepared(&self) -> Vec<Vec<u8>> {
        self.inner.prepared_xids()
    }

    /// Commits a prepared transaction by name; whether there was one.
    pub fn commit_prepared(&self, xid: &[u8]) -> Result<bool> {
        match self.inner.take_prepared(xid) {
            Some(mut txn) => txn.commit().map(|_| true),
            None => Ok(false),
        }
    }

    /// Rolls a prepared transaction back by name; whether there was one.
    pub fn rollback_prepared(&self, xid: &[u8]) -> Result<bool> {
        match self.inner.take_prepared(xid) {
            Some(mut txn) => txn.rollback().map(|()| true),
            None => Ok(false),
        }
    }

    /// Makes the present visible CSN the start of the next redo, and frees log generations that are not needed any more.
    pub fn checkpoint(&self) -> Result<Csn> {
        let _changing = self.inner.hold.change();
        self.inner.checkpoint()
    }

    /// Holds the pool still, so that its files can be copied, until [`Engine::release`]. Waits for running statements;
    /// after that whoever would write, commit, prepare, roll back or change a definition waits, and so does the
    /// background thread. Reading goes on.
    ///
    /// # Errors
    /// LockWaitTimeout, if statements that write do not end within about `timeout`; Exists, if it is held; Killed, if it was
    /// released in between; ReadOnlyPool, Medium.
    pub fn hold(&self, timeout: Duration) -> Result<()> {
        self.inner.check_writable()?;
        // The copy then has little to redo.
        if !self.is_held() {
            self.checkpoint()?;
        }
        self.inner.hold.hold(timeout)
    }

    /// Ends [`Engine::hold`]; whether the pool was held.
    pub fn release(&self) -> bool {
        self.inner.hold.release()
    }

    /// Whether the pool is held.
    pub fn is_held(&self) -> bool {
        self.inner.hold.is_held()
    }

    /// Frees versions nobody needs; returns how many.
    pub fn purge(&self) -> usize {
        let _changing = self.inner.hold.change();
        self.inner.purge()
    }

    /// Sweeps all that is unswept after a restart.
    pub fn sweep(&self) -> Result<()> {
        let _changing = self.inner.hold.change();
        for table in self.inner.table_list() {
            while table.sweep_directory(1)? > 0 || table.sweep_some(64)? {}
        }
        Ok(())
    }

    /// Takes the pool out of service for writing after something that must not happen.
    pub fn fail_stop(&self, reason: &str) {
        self.inner.log.fail_stop(reason);
    }

    /// Sets how long row locks are waited for by sessions without a setting of their own.
    pub fn set_lock_wait_timeout(&self, timeout: Duration) {
        self.inner.lock_wait_timeout_ms.store(timeout.as_millis() as u64, Ordering::Relaxed);
    }

    /// Switches pre-fault on or off.
    pub fn set_prefault(&self, enabled: bool) {
        if let Some(prefault) = self.inner.services.prefault_service() {
            prefault.set_enabled(enabled);
        }
    }

    /// Sets a handler for what no statement can report: files that cannot be removed, memory that cannot be faulted in.
    /// Any thread may call it; it is called at once with the notices kept so far.
    pub fn set_notice_handler(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.inner.services.notices.set_handler(handler);
    }

    /// Everything a DBA wants to see; its `Display` is the report of SHOW ENGINE PERDURA STATUS.
    pub fn status(&self) -> Status {
        Status::of(&self.inner)
    }

    /// Counters for status variables.
    pub fn counters(&self) -> Counters {
        Counters::of(&self.inner)
    }
}

impl Inner {
    pub(crate) fn checkpoint(&self) -> Result<Csn> {
        match self.log.checkpoint() {
            Ok(csn) => Ok(csn),
            Err(error) => {
                self.log.fail_stop(&format!("the checkpoint could not be written: {error}"));
                Err(error.into())
            }
        }
    }
}
