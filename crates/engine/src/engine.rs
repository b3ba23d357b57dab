//! The engine: an opened pool, its tables, sessions and maintenance, as an embedding program sees
//! them.

use crate::activity::{self, LockStatus, LockWait, TransactionStatus};
use crate::background::{self, Background};
use crate::config::Config;
use crate::counters::Counters;
use crate::error::{ErrorKind, Result};
use crate::format::IndexDefinition;
use crate::pool::Pool;
use crate::pool::hold::{HoldNumber, held_already};
use crate::recovery;
use crate::recovery::alter::{AlteredIndex, IndexAlteration};
use crate::recovery::ddl::{self, Redefinition};
use crate::status::Status;
use crate::table::Table;
use crate::table::definition::Definition;
use crate::table::figures::{IndexSpace, TableSpace};
use crate::txn::compact;
use crate::txn::isolation::Isolation;
use crate::txn::session::Session;
use perdura_log::{Csn, StageClock, StageTimes};
use perdura_pmem::sync::Mutex;
use perdura_pmem::{Medium, Mutant};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An opened pool. Clones share it. Dropping the last clone without [`Engine::close`] stops the
/// background thread but takes no checkpoint, so the next start has more to redo.
#[derive(Clone)]
pub struct Engine {
    pool: Arc<Pool>,
    running: Arc<Running>,
}

/// Stops the background thread when the last clone of an engine is dropped.
struct Running {
    pool: Arc<Pool>,
    background: Mutex<Option<Background>>,
}

impl Running {
    fn stop_background(&self) {
        self.pool.hold.release_any();
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
    /// Opens and recovers the pool on `medium`. Creates one if the medium has none, or only what a
    /// creation that was cut off left.
    ///
    /// While the engine lives its medium belongs to it alone: whoever opens a second engine on the
    /// same `Arc`, or stores to the pool's regions, changes rows under their readers. A
    /// `FileMedium` keeps out a second one on its directory.
    pub fn open(medium: Arc<dyn Medium>, config: Config) -> Result<Engine> {
        let pool = recovery::open(medium, &config)?;
        if let Some(prefault) = pool.services().prefault_service().filter(|_| config.prefault_wait) {
            prefault.wait();
        }
        let background = config.background.then(|| Background::start(pool.clone()));
        let running = Running { pool: pool.clone(), background: Mutex::new(background) };
        Ok(Engine { pool, running: Arc::new(running) })
    }

    /// Whether the directory holds files of a pool, complete or not.
    pub fn has_pool(directory: &Path) -> bool {
        recovery::has_pool(directory)
    }

    /// Stops the background thread, takes a last checkpoint, and removes the files that are kept. A
    /// held pool is released first. Prepared transactions stay prepared in the pool. Sessions still
    /// work; the directory stays in use until they, the engine's clones and its tables are dropped.
    pub fn close(&self) {
        self.running.stop_background();
        if !self.pool.log.is_failed()
            && let Err(error) = self.pool.log.checkpoint()
        {
            self.pool.log.fail_stop(&error.to_string());
        }
        self.set_kept_file_bytes(0);
        self.pool.context.remove_surplus();
    }

    /// Creates a table. The engine stores `definition` and returns it from [`Table::definition`]
    /// without reading it.
    ///
    /// # Errors
    /// Exists; DeviceFull; ReadOnlyPool; Configuration if the name is empty or longer than 1024
    /// bytes.
    pub fn create_table(&self, name: &str, definition: &[u8]) -> Result<Arc<Table>> {
        self.create_table_with(name, definition, &[])
    }

    /// Creates a table with indexes. Errors as for [`Engine::create_table`]; Configuration if a key
    /// may be longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX), or if there are more than 255
    /// indexes.
    pub fn create_table_with(&self, name: &str, definition: &[u8], indexes: &[IndexDefinition]) -> Result<Arc<Table>> {
        ddl::create_table(&self.pool, name, Definition::new(indexes, definition))
    }

    /// Drops a table, even one that cannot be opened. No transaction may be using it.
    ///
    /// # Errors
    /// NotFound; LockWaitTimeout if a prepared transaction without a session wrote to the table;
    /// ReadOnlyPool.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        ddl::drop_table(&self.pool, name)
    }

    /// Renames a table.
    ///
    /// # Errors
    /// NotFound; Exists if `to` is taken; LockWaitTimeout as for [`Engine::drop_table`];
    /// ReadOnlyPool.
    pub fn rename_table(&self, from: &str, to: &str) -> Result<()> {
        ddl::rename_table(&self.pool, (from, to), false, &[])
    }

    /// Renames a table that the server has filled with the rows of the table it replaces. A
    /// snapshot from before the rename does not see those rows, so its reads fail with
    /// DefinitionChanged instead of finding the table empty. Errors as for
    /// [`Engine::rename_table`].
    pub fn rename_rebuilt_table(&self, from: &str, to: &str) -> Result<()> {
        ddl::rename_table(&self.pool, (from, to), true, &[])
    }

    /// Renames a table as [`Engine::rename_table`] does, or with `rebuilt` as
    /// [`Engine::rename_rebuilt_table`] does, and in the same commit replaces the bytes that the
    /// tables of `redefinitions` were created with, among them maybe those of the renamed table, by
    /// its old name. A table that is open keeps the bytes that it was opened with;
    /// [`Engine::definition`] has the new ones. Errors as for [`Engine::rename_table`].
    pub fn rename_table_redefining(
        &self,
        (from, to): (&str, &str),
        rebuilt: bool,
        redefinitions: &[Redefinition],
    ) -> Result<()> {
        ddl::rename_table(&self.pool, (from, to), rebuilt, redefinitions)
    }

    /// Replaces a table by an empty one of the same name and definition, and returns the new table.
    /// No transaction may be using the old one. Errors as for [`Engine::drop_table`], and
    /// DeviceFull.
    pub fn truncate_table(&self, name: &str) -> Result<Arc<Table>> {
        ddl::truncate_table(&self.pool, name)
    }

    /// Begins to alter the indexes of a table to those of `indexes`, in that order. No transaction
    /// may be writing to the table until that is committed or dropped.
    ///
    /// # Errors
    /// LockWaitTimeout if somebody else alters its indexes, or a prepared transaction without a
    /// session wrote to it; TableFull if the table has had 65535 indexes; NotFound; Configuration
    /// as for [`Engine::create_table_with`]; ReadOnlyPool.
    pub fn alter_indexes(&self, table: &Arc<Table>, indexes: &[AlteredIndex]) -> Result<IndexAlteration> {
        IndexAlteration::begin(&self.pool, table, indexes)
    }

    /// Looks a table up by its name, and opens its files if they are closed. They stay open as long
    /// as somebody keeps the table.
    ///
    /// # Errors
    /// NotFound; Damaged, NotSupported or Medium if its files cannot be opened. The next call tries
    /// again.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        self.pool.table(name)
    }

    /// All tables but the catalog, in the order of their names. It opens all of them;
    /// [`Engine::table_names`] opens none.
    ///
    /// # Errors
    /// As for [`Engine::table`], with the first table that cannot be opened.
    pub fn tables(&self) -> Result<Vec<Arc<Table>>> {
        let mut tables = Vec::new();
        for table in self.pool.tables.all() {
            match self.pool.tables.open(&table) {
                // Dropped meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                opened => tables.push(opened?),
            }
        }
        Ok(tables)
    }

    /// The names of all tables but the catalog, in order.
    pub fn table_names(&self) -> Vec<Arc<str>> {
        self.pool.tables.names()
    }

    /// The bytes that a table was created with. It does not open the table.
    ///
    /// # Errors
    /// NotFound.
    pub fn definition(&self, name: &str) -> Result<Arc<[u8]>> {
        self.pool.tables.find(name).map(|table| table.definition().bytes)
    }

    /// Begins a session, which runs one transaction after another.
    pub fn session(&self, isolation: Isolation) -> Session {
        Session::new(self.pool.clone(), isolation)
    }

    /// Names of the prepared transactions that have no session.
    pub fn prepared(&self) -> Vec<Vec<u8>> {
        self.pool.prepared.xids()
    }

    /// Commits the prepared transaction named `xid`. Returns false if no such transaction waits
    /// without a session.
    pub fn commit_prepared(&self, xid: &[u8]) -> Result<bool> {
        match self.pool.prepared.take(xid) {
            Some(detached) => Session::attach(self.pool.clone(), detached).commit().map(|_| true),
            None => Ok(false),
        }
    }

    /// Rolls the prepared transaction named `xid` back. Returns false if no such transaction waits
    /// without a session.
    pub fn rollback_prepared(&self, xid: &[u8]) -> Result<bool> {
        match self.pool.prepared.take(xid) {
            Some(detached) => Session::attach(self.pool.clone(), detached).rollback().map(|()| true),
            None => Ok(false),
        }
    }

    /// Takes a checkpoint: redo will begin after the present visible CSN, and log generations that
    /// redo no longer needs are freed.
    pub fn checkpoint(&self) -> Result<Csn> {
        let _changing = self.pool.hold.change();
        self.pool.checkpoint()
    }

    /// Holds the pool still until [`Engine::release`], so that its files can be copied:
    /// [`Engine::begin_hold`] and [`Engine::await_hold`] in one call. If the wait fails the pool is
    /// not held.
    ///
    /// # Errors
    /// Those of the two.
    pub fn hold(&self, timeout: Duration) -> Result<HoldNumber> {
        let hold = self.begin_hold()?;
        self.await_hold(hold, timeout).inspect_err(|_| {
            self.release(hold);
        })?;
        Ok(hold)
    }

    /// Asks for a hold of the pool. From now on every write, commit, prepare, rollback and DDL
    /// waits, and so does the background thread, but for statements that have written, and whatever
    /// else is under way. Reads go on. The pool is held once [`Engine::await_hold`] has returned.
    /// The number ends the hold at any time, by [`Engine::release`].
    ///
    /// # Errors
    /// Exists if there is a hold already; ReadOnlyPool; Medium.
    pub fn begin_hold(&self) -> Result<HoldNumber> {
        self.pool.check_writable()?;
        // A server started on the copy then has little to redo.
        let changing = self.pool.hold.try_change().ok_or_else(held_already)?;
        self.pool.checkpoint()?;
        drop(changing);
        self.pool.hold.begin()
    }

    /// Waits until what was under way as a hold was asked for has ended: the pool is held from then
    /// on.
    ///
    /// # Errors
    /// LockWaitTimeout if the writing statements do not end within about `timeout`: the caller
    /// releases the hold, or waits once more. Killed if it was released meanwhile.
    pub fn await_hold(&self, hold: HoldNumber, timeout: Duration) -> Result<()> {
        self.pool.hold.settle(hold, timeout)
    }

    /// Releases a hold, waiting or not, and no other one. Returns whether it was still there: a
    /// copy counts only then.
    pub fn release(&self, hold: HoldNumber) -> bool {
        self.pool.hold.release(hold)
    }

    /// The hold that is there, waiting or not, which may be somebody else's.
    pub fn present_hold(&self) -> Option<HoldNumber> {
        self.pool.hold.present()
    }

    /// Runs `body`, which may write with sessions that wait for no hold ([`Session::set_within`]),
    /// once the pool is not held. Nothing interrupts that wait. `body` must do nothing that waits
    /// for a hold itself, such as DDL.
    pub fn within_change<T>(&self, body: impl FnOnce() -> T) -> T {
        let _changing = self.pool.hold.change();
        body()
    }

    /// Whether there is a hold of the pool, waiting or not.
    pub fn is_held(&self) -> bool {
        self.pool.hold.is_held()
    }

    /// Reclaims the superseded versions that no snapshot and no redo can need any more (I8).
    /// Returns their number.
    pub fn purge(&self) -> usize {
        // Planted: purge goes on while the pool is held.
        let _changing = (!perdura_pmem::planted(Mutant::PurgeDuringHold)).then(|| self.pool.hold.change());
        self.pool.purge()
    }

    /// Moves rows out of segments of which little is left, a bounded number, and returns how many.
    /// Nobody finds a row changed by that. The room is free for every use once a checkpoint and
    /// [`Engine::purge`] follow. The background thread does so in its rounds.
    pub fn compact(&self) -> usize {
        compact::round(&self.pool, || false)
    }

    /// Sweeps every segment of the open tables that the opening left unswept.
    pub fn sweep(&self) -> Result<()> {
        let _changing = self.pool.hold.change();
        for table in self.pool.open_tables() {
            while table.space().sweep(64, 1)? {}
        }
        Ok(())
    }

    /// Creates the next data file of each table whose free segments have run low, so that no
    /// statement waits for it. The background thread does so as soon as a statement has asked for
    /// it.
    pub fn grow_ahead(&self) {
        let _changing = self.pool.hold.change();
        background::grow_ahead(&self.pool, self.pool.services().take_asked());
    }

    /// Closes tables that nobody uses and nothing waits for: those idle for long, counted in calls,
    /// and the longest idle if more files are open than [`Config::open_files`]. The background
    /// thread does so in each of its rounds. Returns the number of tables closed.
    pub fn close_idle_tables(&self) -> usize {
        self.pool.tables.close_idle()
    }

    /// Fails if the medium has failed. Rows are lent where they lie, and a page that cannot be read
    /// is zero: whoever has read rows of a page medium asks this before the bytes go further.
    ///
    /// # Errors
    /// Medium.
    pub fn check_medium(&self) -> Result<()> {
        Ok(self.pool.context.health.check()?)
    }

    /// Fails the pool stop after something that must not happen: it takes no more writes (I11).
    pub fn fail_stop(&self, reason: &str) {
        self.pool.log.fail_stop(reason);
    }

    /// Sets how long sessions without a timeout of their own wait for a row lock.
    pub fn set_lock_wait_timeout(&self, timeout: Duration) {
        self.pool.set_lock_wait_timeout(timeout);
    }

    /// Sets the DRAM that the write set of one transaction may take before it spills to the medium,
    /// in bytes. It applies to transactions under way as well.
    pub fn set_transaction_memory(&self, bytes: u64) {
        self.pool.set_transaction_memory(bytes);
    }

    /// Sets how many bytes of data files are kept for the next ones. The background thread removes
    /// those that are too many; without it the next table that is dropped or truncated does so.
    pub fn set_kept_file_bytes(&self, bytes: u64) {
        self.pool.context.medium.set_bytes_max(bytes);
    }

    /// Switches pre-fault on or off. Without effect if the pool was opened without it.
    pub fn set_prefault(&self, enabled: bool) {
        if let Some(prefault) = self.pool.services().prefault_service() {
            prefault.set_enabled(enabled);
        }
    }

    /// Sets the handler of notices, which report what no statement can: files that cannot be
    /// removed, memory that cannot be faulted in. Any thread of the engine may call the handler. It
    /// first gets the notices kept so far.
    pub fn set_notice_handler(&self, handler: impl Fn(&str) + Send + Sync + 'static) {
        self.pool.services().notices.set_handler(handler);
    }

    /// The state of the pool. Its `Display` is the report of SHOW ENGINE PERDURA STATUS.
    pub fn status(&self) -> Status {
        Status::of(&self.pool)
    }

    /// Gives `visit` each transaction that has begun, oldest first, until it returns false. Nothing
    /// is locked meanwhile.
    pub fn each_transaction(&self, mut visit: impl FnMut(TransactionStatus) -> bool) {
        activity::each_transaction(&self.pool, &mut visit);
    }

    /// Gives `visit` the row locks that are in the lock table, those first that somebody waits for,
    /// until it returns false. Locks in place, which nobody waits for, are only counted
    /// ([`TransactionStatus::locks`]). Returns false if there were more than are listed. Nothing is
    /// locked meanwhile.
    pub fn each_lock(&self, mut visit: impl FnMut(LockStatus) -> bool) -> bool {
        activity::each_lock(&self.pool, &mut visit)
    }

    /// Gives `visit` each wait for a row lock with each of up to sixteen sessions that it waits
    /// for, holders first, until it returns false. Nothing is locked meanwhile.
    pub fn each_wait(&self, mut visit: impl FnMut(LockWait) -> bool) {
        activity::each_wait(&self.pool, &mut visit);
    }

    /// Gives `visit` the space of each table, the catalog first, then in the order of their names,
    /// until it returns false. It opens no table, and counts as no use of one.
    pub fn each_table(&self, mut visit: impl FnMut(TableSpace) -> bool) {
        if visit(self.pool.catalog.measure()) {
            self.pool.tables.measure(&mut visit);
        }
    }

    /// Gives `visit` the space of each index, in the order of the names of the tables, until it
    /// returns false. It opens no table, looks at a thousand leaves of an index, and waits for
    /// nobody.
    pub fn each_index(&self, mut visit: impl FnMut(IndexSpace) -> bool) {
        let mut session = self.session(Isolation::ReadCommitted);
        self.pool.tables.each(&mut |table| {
            let (definition, open, name) = (table.definition(), table.opened(), table.name());
            definition.indexes.iter().enumerate().all(|(position, index)| {
                visit(IndexSpace {
                    table: table.id,
                    name: name.to_string(),
                    position,
                    definition: *index,
                    entries: table.figures().counted_rows(),
                    measured: open.as_ref().and_then(|open| session.index(open, position).measure()),
                })
            })
        });
    }

    /// The id of a table. It does not open the table.
    ///
    /// # Errors
    /// NotFound.
    pub fn table_id(&self, name: &str) -> Result<u32> {
        self.pool.tables.find(name).map(|table| table.id)
    }

    /// Whether there is a table of this id.
    pub fn has_table(&self, id: u32) -> bool {
        self.pool.tables.find_id(id).is_some()
    }

    /// Times the stages of transactions in the log from now on; of several calls the first counts.
    /// For benchmarks: each transaction then reads `clock` at each of them.
    pub fn time_stages(&self, clock: StageClock) {
        self.pool.log.time_stages(clock);
    }

    /// The time that all transactions together have spent in each stage since
    /// [`Engine::time_stages`].
    pub fn stage_times(&self) -> StageTimes {
        self.pool.log.stage_times()
    }

    /// The work of the log's threads, where the caller has some for them
    /// ([`crate::Turns::Caller`]): each to be run by a thread beside those that commit. It ends
    /// after [`Engine::end_log_path`].
    pub fn log_path_bodies(&self) -> Vec<Box<dyn FnOnce() + Send>> {
        self.pool.log.path_bodies()
    }

    /// Has the work of [`Engine::log_path_bodies`] end, once nobody commits any more.
    pub fn end_log_path(&self) {
        self.pool.log.end_path();
    }

    /// The values of the server's status variables.
    pub fn counters(&self) -> Counters {
        Counters::of(&self.pool)
    }
}
