//! A pool, opened: what its tables and transactions share.

use crate::background::Background;
use crate::config::Config;
use crate::error::Result;
use crate::pool::Pool;
use crate::recovery::{self, ddl};
use crate::status::{Counters, Status};
use crate::table::Table;
use crate::txn::isolation::Isolation;
use crate::txn::session::Session;
use perdura_log::Csn;
use perdura_pmem::Medium;
use perdura_pmem::sync::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// A pool, opened. Clones share it. When the last one is dropped without [`Engine::close`] its threads end, but no checkpoint is
/// taken.
#[derive(Clone)]
pub struct Engine {
    pool: Arc<Pool>,
    running: Arc<Running>,
}

/// What ends with the last clone of an engine.
struct Running {
    pool: Arc<Pool>,
    background: Mutex<Option<Background>>,
}

impl Running {
    fn stop_background(&self) {
        self.pool.hold.release();
        let background = self.background.lock().take();
        if let Some(background) = background {
            background.stop();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop_background();
    }
}

impl Engine {
    /// Opens the pool on `medium`, recovering it; creates it if the medium is empty.
    pub fn open(medium: Arc<dyn Medium>, config: Config) -> Result<Engine> {
        let pool = recovery::open(medium, &config)?;
        let background = config.background.then(|| Background::start(pool.clone()));
        let running = Running { pool: pool.clone(), background: Mutex::new(background) };
        Ok(Engine { pool, running: Arc::new(running) })
    }

    /// Ends background work after a last checkpoint. Prepared transactions stay prepared in the pool.
    pub fn close(&self) {
        self.running.stop_background();
        if !self.pool.log.is_failed()
            && let Err(error) = self.pool.log.checkpoint()
        {
            self.pool.log.fail_stop(&error.to_string());
        }
    }

    /// Creates a table. `definition` is kept and given back, not looked at.
    ///
    /// # Errors
    /// Exists, DeviceFull, ReadOnlyPool, Configuration (the name).
    pub fn create_table(&self, name: &str, definition: &[u8]) -> Result<Arc<Table>> {
        ddl::create_table(&self.pool, name, definition)
    }

    /// Drops a table. No transaction may be using it. Error: NotFound.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        ddl::drop_table(&self.pool, name)
    }

    /// Renames a table. Errors: NotFound, Exists.
    pub fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        ddl::rename_table(&self.pool, from, to, false)
    }

    /// Renames a table that the server filled with another's rows to take its place. A snapshot taken before this does
    /// not see those rows: its reads fail with DefinitionChanged rather than find the table empty.
    /// Errors: NotFound, Exists.
    pub fn rename_rebuilt_table(&self, from: &str, to: &str) -> Result<()> {
        ddl::rename_table(&self.pool, from, to, true)
    }

    /// Empties a table by replacing it; returns the new one. No transaction may be using it.
    pub fn truncate_table(&self, name: &str) -> Result<Arc<Table>> {
        ddl::truncate_table(&self.pool, name)
    }

    /// A table by name. Error: NotFound.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        self.pool.table(name)
    }

    /// All tables, in the order of their names.
    pub fn tables(&self) -> Vec<Arc<Table>> {
        self.pool.tables.read().values().cloned().collect()
    }

    /// A session, which runs one transaction after another.
    pub fn session(&self, isolation: Isolation) -> Session {
        Session::new(self.pool.clone(), isolation)
    }

    /// Names of prepared transactions that no session holds.
    pub fn prepared(&self) -> Vec<Vec<u8>> {
        self.pool.prepared.xids()
    }

    /// Commits a prepared transaction by name; whether there was one.
    pub fn commit_prepared(&self, xid: &[u8]) -> Result<bool> {
        match self.pool.prepared.take(xid) {
            Some(detached) => Session::attach(self.pool.clone(), detached).commit().map(|_| true),
            None => Ok(false),
        }
    }

    /// Rolls a prepared transaction back by name; whether there was one.
    pub fn rollback_prepared(&self, xid: &[u8]) -> Result<bool> {
        match self.pool.prepared.take(xid) {
            Some(detached) => Session::attach(self.pool.clone(), detached).rollback().map(|()| true),
            None => Ok(false),
        }
    }

    /// Makes the present visible CSN the start of the next redo, and frees log generations that are not needed any more.
    pub fn checkpoint(&self) -> Result<Csn> {
        let _changing = self.pool.hold.change();
        self.pool.checkpoint()
    }

    /// Holds the pool still, so that its files can be copied, until [`Engine::release`]. Waits for running statements;
    /// after that whoever would write, commit, prepare, roll back or change a definition waits, and so does the
    /// background thread. Reading goes on.
    ///
    /// # Errors
    /// LockWaitTimeout, if statements that write do not end within about `timeout`; Exists, if it is held; Killed, if it was
    /// released in between; ReadOnlyPool, Medium.
    pub fn hold(&self, timeout: Duration) -> Result<()> {
        self.pool.check_writable()?;
        // The copy then has little to redo.
        if !self.is_held() {
            self.checkpoint()?;
        }
        self.pool.hold.hold(timeout)
    }

    /// Ends [`Engine::hold`]; whether the pool was held.
    pub fn release(&self) -> bool {
        self.pool.hold.release()
    }

    /// Whether the pool is held.
    pub fn is_held(&self) -> bool {
        self.pool.hold.is_held()
    }

    /// Frees versions nobody needs; returns how many.
    pub fn purge(&self) -> usize {
        let _changing = self.pool.hold.change();
        self.pool.purge()
    }

    /// Sweeps all that is unswept after a restart.
    pub fn sweep(&self) -> Result<()> {
        let _changing = self.pool.hold.change();
        for table in self.pool.table_list() {
            while table.space().sweep(64, 1)? {}
        }
        Ok(())
    }

    /// Takes the pool out of service for writing after something that must not happen.
    pub fn fail_stop(&self, reason: &str) {
        self.pool.log.fail_stop(reason);
    }

    /// Sets how long row locks are waited for by sessions without a setting of their own.
    pub fn set_lock_wait_timeout(&self, timeout: Duration) {
        self.pool.set_lock_wait_timeout(timeout);
    }

    /// Switches pre-fault on or off.
    pub fn set_prefault(&self, enabled: bool) {
        if let Some(prefault) = self.pool.services().prefault_service() {
            prefault.set_enabled(enabled);
        }
    }

    /// Sets a handler for what no statement can report: files that cannot be removed, memory that cannot be faulted in.
    /// Any thread may call it; it is called at once with the notices kept so far.
    pub fn set_notice_handler(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.pool.services().notices.set_handler(handler);
    }

    /// Everything a DBA wants to see; its `Display` is the report of SHOW ENGINE PERDURA STATUS.
    pub fn status(&self) -> Status {
        Status::of(&self.pool)
    }

    /// Counters for status variables.
    pub fn counters(&self) -> Counters {
        Counters::of(&self.pool)
    }
}
