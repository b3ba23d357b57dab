//! A session: its transaction, statements and savepoints.
//!
//! READ COMMITTED takes a snapshot for each statement. REPEATABLE READ takes one for the
//! transaction, at its first consistent read; from then on the first updater wins. Before that, a
//! statement locks rows and works on their newest versions, so it meets no conflict. SERIALIZABLE
//! locks the tables that it reads, and then takes a snapshot for each statement. One thread uses a
//! session at a time.

use super::isolation::Isolation;
use super::snapshots::OpenSnapshots;
use crate::changes::write_set::{Position, WriteSet};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Rid;
use crate::pool::Pool;
use crate::pool::owner::{Client, LockKey, Owner};
use crate::pool::prepared::Detached;
use crate::table::Table;
use crate::table::whole_reader::WholeReader;
use perdura_log::{Csn, LogTxn};
use perdura_pmem::Mutant;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Number of locks that a session's list keeps room for between transactions, so that a large one
/// leaves no memory behind.
const LOCKS_KEPT: usize = 1024;

/// Number of writes of a session after which reports learn anew what DRAM its write set takes.
const WRITES_PER_NOTE: u64 = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Reading and writing.
    Active,
    /// Its redo records are durable: it can be committed at any time.
    Prepared,
    /// Its commit record is fenced under this CSN; publication is to follow.
    Ordered(Csn),
    /// As that, and others see it; its words are still to be stored.
    Visible(Csn),
}

/// A position in a transaction that it can roll back to.
#[derive(Clone, Debug, Default)]
pub struct Savepoint {
    /// Number of the session that set it; sessions count from 1.
    session: u64,
    /// Number of the transaction in its session.
    transaction: u64,
    /// Number of writes of the session before it.
    sequence: u64,
    position: Position,
}

/// A handle that interrupts a session's waits, from any thread.
pub struct Killer(Arc<Owner>);

impl Killer {
    /// Interrupts the wait that the session is in for a row lock or for the end of a backup. Until
    /// its next statement begins, further waits end at once. The interrupted call fails with
    /// [`ErrorKind::Killed`].
    pub fn kill(&self) {
        self.0.kill();
    }
}

/// A session runs one transaction after another, each from its first read or write to its commit or
/// rollback.
///
/// Dropping a session rolls its active transaction back, completes an ordered commit, and leaves a
/// prepared transaction to the pool, to be decided by name.
pub struct Session {
    pub(super) pool: Arc<Pool>,
    pub(super) owner: Arc<Owner>,
    pub(super) id: u64,
    isolation: Isolation,
    pub(super) lock_wait_timeout: Option<Duration>,
    pub(super) snapshots: OpenSnapshots,
    pub(super) log: Option<LogTxn>,
    pub(super) writes: WriteSet,
    /// Number of writes so far, and of rollbacks to savepoints.
    pub(super) sequence: u64,
    /// Locks held through the lock table.
    pub(super) locks: Vec<LockKey>,
    /// The tables that it has locked as a whole.
    pub(super) reading: Vec<WholeReader>,
    /// Number of row locks held in place.
    pub(super) locks_in_place: usize,
    /// A savepoint was taken in the transaction: what lies behind statements that have ended may be
    /// undone.
    has_savepoint: bool,
    statement: Savepoint,
    /// Number of transactions that the session has ended.
    ended: u64,
    /// Ranges of sequence numbers whose writes were rolled back, in ascending order: savepoints
    /// within them are gone. There are no more ranges than writes.
    undone: Vec<RangeInclusive<u64>>,
    /// This thread has flushed versions that it has not fenced yet.
    pub(super) unfenced: bool,
    /// The session is within a change (`pool/hold.rs`), so the pool cannot be held.
    pub(super) changing: bool,
    /// Whoever uses the session is within a change all the time, so it needs none of its own.
    is_within: bool,
    pub(super) state: State,
    pub(super) xid: Vec<u8>,
    pub(super) records: Vec<u8>,
    /// Index and row that an operation failed for because of a key.
    pub(super) duplicate: Option<(usize, Rid)>,
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
        let snapshots = OpenSnapshots::new(&pool.snapshots);
        owner.set_slots(Some(snapshots.slots()));
        owner.note_isolation(isolation as u8);
        Session {
            owner,
            id,
            isolation,
            lock_wait_timeout: None,
            snapshots,
            log: None,
            writes: WriteSet::default(),
            sequence: 0,
            locks: Vec::new(),
            reading: Vec::new(),
            locks_in_place: 0,
            has_savepoint: false,
            statement: Savepoint::default(),
            ended: 0,
            undone: Vec::new(),
            unfenced: false,
            changing: false,
            is_within: false,
            state: State::Active,
            xid: Vec::new(),
            records: Vec::new(),
            duplicate: None,
            pool,
        }
    }

    /// Begins a session that takes over a detached prepared transaction, to commit it or roll it
    /// back.
    pub(crate) fn attach(pool: Arc<Pool>, detached: Detached) -> Session {
        let id = pool.next_session();
        let mut session = Session::with_owner(pool, Isolation::RepeatableRead, id, detached.owner);
        session.writes = detached.writes;
        session.locks = detached.locks;
        session.reading = detached.reading;
        session.log = Some(detached.log);
        session.xid = detached.xid;
        session.state = State::Prepared;
        session
    }

    /// Number of the session, as the status report shows it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Sets the isolation level. It applies to snapshots not yet taken.
    pub fn set_isolation(&mut self, isolation: Isolation) {
        self.isolation = isolation;
        self.owner.note_isolation(isolation as u8);
    }

    /// The isolation level in force.
    pub fn isolation(&self) -> Isolation {
        self.isolation
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

    /// Whether the transaction has written nothing so far; writes rolled back to a savepoint count
    /// as well.
    pub fn is_read_only(&self) -> bool {
        self.writes.is_empty() && self.state == State::Active
    }

    /// Whether the transaction has neither written nor locked a table as a whole, so that it would
    /// not miss one that is dropped.
    pub fn keeps_no_table(&self) -> bool {
        self.is_read_only() && self.reading.is_empty()
    }

    /// Refuses a table of another pool: this session's snapshots and locks would not hold its rows.
    #[inline]
    pub(super) fn check_own(&self, table: &Table) -> Result<()> {
        if !Arc::ptr_eq(table.chain().context(), &self.pool.context) {
            return Err(another_pool(table));
        }
        if table.is_altered() {
            let what = format!("the indexes of table {} were altered since it was looked up", table.name());
            return Err(Error::new(ErrorKind::DefinitionChanged, what));
        }
        Ok(())
    }

    /// Begins a statement: sets the position for [`Session::rollback_statement`], ends the effect
    /// of a kill, and closes the statement's snapshot, so that READ COMMITTED takes a new one at
    /// the next read.
    pub fn start_statement(&mut self) {
        if !self.writes.is_empty() {
            self.fence_writes();
        }
        self.statement = self.position();
        // Planted: what a savepoint may bring back is forgotten with the statement that replaced
        // it.
        if !self.has_savepoint || perdura_pmem::planted(Mutant::SavepointVersionsFreed) {
            self.writes.forget_before(&self.statement.position);
        }
        self.owner.revive();
        self.snapshots.close_statement(&self.pool);
    }

    /// Ends a statement. Rows that it read are no longer valid. Its writes are fenced, because the
    /// next statement may run on another thread (I3).
    pub fn end_statement(&mut self) {
        self.note_memory();
        self.fence_writes();
        self.end_change();
        self.snapshots.close_statement(&self.pool);
    }

    /// Rolls back what was written since [`Session::start_statement`].
    pub fn rollback_statement(&mut self) {
        let statement = std::mem::take(&mut self.statement);
        self.undo_to(&statement);
        self.statement = statement;
    }

    /// A number that grows with every write of the session and every rollback to a savepoint. It
    /// tells two positions of a transaction apart.
    pub fn writes_so_far(&self) -> u64 {
        self.sequence
    }

    /// The present position, for [`Session::rollback_to`].
    pub fn savepoint(&mut self) -> Savepoint {
        self.has_savepoint = true;
        self.position()
    }

    fn position(&mut self) -> Savepoint {
        Savepoint {
            session: self.id,
            transaction: self.ended,
            sequence: self.sequence,
            position: self.writes.position(),
        }
    }

    /// Rolls back what was written since `savepoint`, which stays valid. Locks stay. A prepared
    /// transaction stays as it is.
    ///
    /// # Errors
    /// NotFound, without any effect, if the savepoint belongs to another transaction or was itself
    /// rolled back.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        let gone = self.undone.iter().any(|range| range.contains(&savepoint.sequence));
        let own = (savepoint.session, savepoint.transaction) == (self.id, self.ended);
        if !own || gone {
            return Err(Error::new(
                ErrorKind::NotFound,
                "the savepoint belongs to another transaction or was rolled back",
            ));
        }
        self.undo_to(savepoint);
        Ok(())
    }

    fn undo_to(&mut self, savepoint: &Savepoint) {
        if self.state == State::Active {
            self.undone.retain(|range| *range.start() <= savepoint.sequence);
            if self.sequence > savepoint.sequence {
                self.sequence += 1;
                self.undone.push(savepoint.sequence + 1..=self.sequence - 1);
            }
            let within = self.changing;
            self.begin_ending();
            self.writes.undo_to(&savepoint.position, self.pool.transaction_memory());
            // The next statement may run on another thread.
            self.fence_writes();
            if !within {
                self.end_change();
            }
        }
    }

    /// Flushes and fences what this thread has written (I3).
    pub(super) fn fence_writes(&mut self) {
        self.unfenced |= self.writes.flush_rest();
        if std::mem::take(&mut self.unfenced) {
            self.pool.fence();
        }
    }

    /// Begins a change that no kill interrupts (a commit, prepare, rollback or DDL), unless the
    /// session is within one.
    pub(crate) fn begin_ending(&mut self) {
        // Planted: a commit or rollback goes on while the pool is held.
        if !self.changing && !self.is_within && !perdura_pmem::planted(Mutant::CommitDuringHold) {
            self.changing = self.pool.hold.enter(self.id, || false);
        }
    }

    /// Begins a change as a write of the statement does, so that others can write for it: while it
    /// lasts the pool cannot be held. It ends with the statement, or the transaction.
    ///
    /// # Errors
    /// Killed if the statement is killed while the pool is held.
    #[inline]
    pub fn enter_change(&mut self) -> Result<()> {
        if self.changing || self.is_within { Ok(()) } else { self.begin_change() }
    }

    /// Whether the session is within a change.
    pub fn is_in_change(&self) -> bool {
        self.changing
    }

    /// Has the session write for others, who are within a change whenever they use it
    /// ([`Session::enter_change`], [`Engine::within_change`](crate::Engine::within_change)). It
    /// never waits for a hold itself: the hold waits for them.
    pub fn set_within(&mut self) {
        self.is_within = true;
    }

    /// Ends the change, if the session is within one.
    pub(super) fn end_change(&mut self) {
        if std::mem::take(&mut self.changing) {
            self.pool.hold.leave(self.id);
        }
    }

    /// Begins a change. Fails with Killed if the statement is killed while the pool is held.
    #[cold]
    pub(super) fn begin_change(&mut self) -> Result<()> {
        let owner = &self.owner;
        self.changing = self.pool.hold.enter(self.id, || owner.is_killed());
        if self.changing {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Killed, "the pool was held for a backup when the statement was killed"))
    }

    /// Counts a write, for reports and for [`Session::writes_so_far`].
    #[inline]
    pub(super) fn count_write(&mut self) {
        self.owner.count_change();
        self.sequence += 1;
        self.writes.note_written();
        if self.sequence.is_multiple_of(WRITES_PER_NOTE) {
            self.note_memory();
        }
    }

    /// Notes the DRAM of the write set, for reports.
    fn note_memory(&self) {
        if !self.writes.is_empty() {
            self.owner.note_memory(self.writes.bytes());
        }
    }

    /// Releases all locks, and most of the list's memory.
    pub(super) fn release_locks(&mut self) {
        let tabled = self.writes.known_writer().map(|writer| writer.release_tabled()).unwrap_or_default();
        if !self.locks.is_empty() || !tabled.is_empty() {
            self.pool.locks.unlock(&self.owner, self.locks.drain(..).chain(tabled));
        }
        self.locks.shrink_to(LOCKS_KEPT);
        self.reading.clear();
    }

    /// Ends the transaction, whose locks are released: snapshots, write set and change. The session
    /// is then ready for its next one.
    pub(super) fn reset(&mut self) {
        self.writes.abandon();
        self.owner.end();
        self.snapshots.close(&self.pool);
        self.writes.clear();
        self.locks_in_place = 0;
        self.has_savepoint = false;
        self.records.clear();
        self.xid.clear();
        self.undone = Vec::new();
        self.ended += 1;
        self.unfenced = false;
        self.state = State::Active;
        self.end_change();
        self.start_statement();
    }
}

#[cold]
fn another_pool(table: &Table) -> Error {
    let what = format!("table {} belongs to another pool; use a session of its engine", table.name());
    Error::new(ErrorKind::Configuration, what)
}
