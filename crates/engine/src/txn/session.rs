//! A session: its transaction, statements and savepoints.
//!
//! READ COMMITTED takes a snapshot for each statement. REPEATABLE READ takes one for the
//! transaction, at its first consistent read; from then on the first updater wins. Before that, a
//! statement locks rows and works on their newest versions, so it meets no conflict. SERIALIZABLE
//! locks the tables that it reads, and then takes a snapshot for each statement. One thread uses a
//! session at a time.

mod ending;
mod reads;
mod writes;

use super::isolation::Isolation;
use super::lock::Locker;
use super::pool_change::PoolChange;
use super::redo_log::RedoLog;
use super::savepoints::{Savepoint, Savepoints};
use super::snapshots::Snapshots;
use crate::changes::write_set::WriteSet;
use crate::error::Result;
use crate::format::Rid;
use crate::pool::Pool;
use crate::pool::held_locks::HeldLocks;
use crate::pool::owner::{Client, Owner};
use crate::pool::prepared::Detached;
use perdura_log::Csn;
use perdura_pmem::Mutant;
use perdura_pmem::numa::Attachment;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Reading and writing.
    Active,
    /// Its redo records are durable: it can be committed at any time.
    Prepared,
    /// Its commit record is fenced under this CSN; publication is to follow.
    Ordered(Csn),
    /// As that, and others see it; its words are still to be stored.
    Visible(Csn),
}

/// A handle that interrupts a session's waits, from any thread.
pub struct Killer(Arc<Owner>);

impl Killer {
    /// Interrupts the wait that the session is in for a row lock or for the end of a backup. Until
    /// its next statement begins, further waits end at once. The interrupted call fails with
    /// [`ErrorKind::Killed`](crate::ErrorKind::Killed).
    pub fn kill(&self) {
        self.0.kill();
    }
}

/// A session runs one transaction after another, each from its first read or write to its commit or
/// rollback.
///
/// Dropping a session rolls its active transaction back, completes an ordered commit, and leaves a
/// prepared transaction to the pool, to be decided by name.
///
/// While the session lives, the thread that began it is pinned to the NUMA node of the pool's
/// memory, where there is something to choose ([`Config::numa`](crate::Config::numa)). Another
/// thread that takes the session over calls [`Session::enter_thread`].
pub struct Session {
    pool: Arc<Pool>,
    owner: Arc<Owner>,
    id: u64,
    lock_wait_timeout: Option<Duration>,
    snapshots: Snapshots,
    held: HeldLocks,
    writes: WriteSet,
    savepoints: Savepoints,
    change: PoolChange,
    redo: RedoLog,
    state: State,
    /// Index and row that an operation failed for because of a key.
    duplicate: Option<(usize, Rid)>,
    /// Of the thread that uses the session.
    attachment: Option<Attachment>,
}

impl Session {
    /// Begins a session and registers its owner with the lock table.
    pub(crate) fn new(pool: Arc<Pool>, isolation: Isolation) -> Session {
        let id = pool.next_session();
        let owner = Arc::new(Owner::new(id));
        pool.locks.enter(&owner);
        Session::with_owner(pool, isolation, id, owner)
    }

    fn with_owner(pool: Arc<Pool>, isolation: Isolation, id: u64, owner: Arc<Owner>) -> Session {
        let snapshots = Snapshots::new(&pool.snapshots, isolation);
        owner.set_slots(Some(snapshots.slots()));
        owner.note_isolation(isolation as u8);
        Session {
            owner,
            id,
            lock_wait_timeout: None,
            snapshots,
            held: HeldLocks::default(),
            writes: WriteSet::default(),
            savepoints: Savepoints::new(id),
            change: PoolChange::default(),
            redo: RedoLog::default(),
            state: State::Active,
            duplicate: None,
            attachment: Some(pool.services().locality().attach()),
            pool,
        }
    }

    /// Begins a session that takes over a detached prepared transaction, to commit it or roll it
    /// back.
    pub(crate) fn attach(pool: Arc<Pool>, detached: Detached) -> Session {
        let id = pool.next_session();
        let mut session = Session::with_owner(pool, Isolation::RepeatableRead, id, detached.owner);
        session.writes = detached.writes;
        session.held = detached.held;
        session.redo = RedoLog::prepared(detached.log, detached.xid);
        session.state = State::Prepared;
        session
    }

    /// Number of the session, as the status report shows it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Sets the isolation level. It applies to snapshots not yet taken.
    pub fn set_isolation(&mut self, isolation: Isolation) {
        self.snapshots.set_isolation(isolation);
        self.owner.note_isolation(isolation as u8);
    }

    /// The isolation level in force.
    pub fn isolation(&self) -> Isolation {
        self.snapshots.isolation()
    }

    /// Lets the thread off that used the session, and pins the calling one instead.
    pub fn enter_thread(&mut self) {
        self.attachment = Some(self.pool.services().locality().attach());
    }

    /// Lets the thread off that used the session: it has the affinity back that it had before,
    /// unless another session keeps it. Returns whether the session had one.
    pub fn leave_thread(&mut self) -> bool {
        self.attachment.take().is_some()
    }

    /// Overrides the pool's lock wait timeout for this session.
    pub fn set_lock_wait_timeout(&mut self, timeout: Duration) {
        self.lock_wait_timeout = Some(timeout);
    }

    /// Sets the client behind the session. Once this returns, or the session is dropped, nobody
    /// calls the previous client any more.
    pub fn set_client(&mut self, client: Option<Arc<dyn Client>>) {
        self.owner.set_client(client);
    }

    /// Marks the transaction as begun: reports count its age from now on instead of from its first
    /// lock or write.
    pub fn mark_begun(&mut self) {
        self.owner.begin(self.pool.locks.clock());
    }

    /// A handle that interrupts the session's waits from another thread.
    pub fn killer(&self) -> Killer {
        Killer(self.owner.clone())
    }

    /// Locks and unlocks rows and tables.
    #[inline]
    pub fn locks(&mut self) -> Locker<'_> {
        let timeout = self.lock_wait_timeout.unwrap_or_else(|| self.pool.lock_wait_timeout());
        Locker {
            pool: &self.pool,
            owner: &self.owner,
            snapshots: &mut self.snapshots,
            writes: &mut self.writes,
            held: &mut self.held,
            timeout,
        }
    }

    /// Whether the transaction has written nothing so far; writes rolled back to a savepoint count
    /// as well.
    pub fn is_read_only(&self) -> bool {
        self.writes.is_empty() && self.state == State::Active
    }

    /// Whether the transaction has neither written nor locked a table as a whole, so that it would
    /// not miss one that is dropped.
    pub fn keeps_no_table(&self) -> bool {
        self.is_read_only() && !self.held.reads_any()
    }

    /// Begins a statement: sets the position for [`Session::rollback_statement`], ends the effect
    /// of a kill, and closes the statement's snapshot, so that READ COMMITTED takes a new one at
    /// the next read.
    pub fn start_statement(&mut self) {
        if !self.writes.is_empty() {
            self.fence_writes(false);
            if !self.isolation().keeps_snapshot() {
                self.writes.forget_ahead();
            }
        }
        if self.savepoints.start_statement(self.writes.position()) {
            self.writes.forget_before(self.savepoints.statement().position());
        }
        self.owner.revive();
        self.snapshots.close_statement(&self.pool);
    }

    /// Ends a statement. Rows that it read are no longer valid. Its writes are fenced, because the
    /// next statement may run on another thread (I3).
    pub fn end_statement(&mut self) {
        self.note_memory();
        // Planted: a statement leaves the fence of its writes to the next one.
        if perdura_pmem::planted(Mutant::StatementLeavesUnfenced) {
            self.writes.flush_rest();
        }
        self.fence_writes(false);
        self.change.end(&self.pool, self.id);
        self.snapshots.close_statement(&self.pool);
    }

    /// Rolls back what was written since [`Session::start_statement`].
    pub fn rollback_statement(&mut self) {
        let statement = self.savepoints.statement().clone();
        self.undo_to(&statement);
    }

    /// A number that grows with every write of the session and every rollback to a savepoint. It
    /// tells two positions of a transaction apart.
    pub fn writes_so_far(&self) -> u64 {
        self.savepoints.sequence()
    }

    /// The present position, for [`Session::rollback_to`].
    pub fn savepoint(&mut self) -> Savepoint {
        self.savepoints.take(self.writes.position())
    }

    /// Rolls back what was written since `savepoint`, which stays valid. Locks stay. A prepared
    /// transaction stays as it is.
    ///
    /// # Errors
    /// NotFound, without any effect, if the savepoint belongs to another transaction or was itself
    /// rolled back.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        self.savepoints.check(savepoint)?;
        self.undo_to(savepoint);
        Ok(())
    }

    fn undo_to(&mut self, savepoint: &Savepoint) {
        if self.state == State::Active {
            self.savepoints.note_undone(savepoint);
            let is_within = self.change.is_within();
            self.begin_ending();
            self.writes.undo_to(savepoint.position(), self.pool.transaction_memory());
            // Planted: an undo leaves the fence of what it stored again to the next statement.
            if perdura_pmem::planted(Mutant::UndoLeavesUnfenced) {
                self.writes.flush_rest();
            }
            // The next statement may run on another thread.
            self.fence_writes(false);
            if !is_within {
                self.change.end(&self.pool, self.id);
            }
        }
    }

    /// Flushes what is left of what this thread has written, and fences if there was something, or
    /// if versions that are flushed already wait for it (I3).
    fn fence_writes(&mut self, has_flushed: bool) {
        if self.writes.flush_rest() || has_flushed {
            self.pool.fence();
        }
    }

    /// Begins a change that no kill interrupts (a commit, prepare, rollback or DDL), unless the
    /// session is within one.
    pub(crate) fn begin_ending(&mut self) {
        self.change.begin_ending(&self.pool, self.id);
    }

    /// Begins a change as a write of the statement does, so that others can write for it: while it
    /// lasts the pool cannot be held. It ends with the statement, or the transaction.
    ///
    /// # Errors
    /// Killed if the statement is killed while the pool is held.
    #[inline]
    pub fn enter_change(&mut self) -> Result<()> {
        self.change.enter(&self.pool, self.id, &self.owner)
    }

    /// Whether the session is within a change.
    pub fn is_in_change(&self) -> bool {
        self.change.is_within()
    }

    /// Has the session write for others, who are within a change whenever they use it
    /// ([`Session::enter_change`], [`Engine::within_change`](crate::Engine::within_change)). It
    /// never waits for a hold itself: the hold waits for them.
    pub fn set_within(&mut self) {
        self.change.set_covered();
    }

    /// Notes the DRAM of the write set, for reports.
    fn note_memory(&self) {
        if !self.writes.is_empty() {
            self.owner.note_memory(self.writes.bytes());
        }
    }
}
