//! A session: its transaction, statements, savepoints.
//!
//! Snapshot isolation. READ COMMITTED takes a snapshot per statement. REPEATABLE READ takes one per transaction, at its first
//! consistent read; from then on the first updater wins. Before it, a statement locks rows and works on their newest versions, so
//! it conflicts with nobody. One thread uses a session at a time.

use super::isolation::Isolation;
use super::snapshots::OpenSnapshots;
use crate::changes::row_writes::MEMORY_KEPT;
use crate::changes::write_set::{Position, WriteSet};
use crate::error::{Error, ErrorKind, Result};
use crate::pool::Pool;
use crate::pool::owner::{Client, Owner, RowKey};
use crate::pool::prepared::Detached;
use perdura_log::{Csn, LogTxn};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Reading and writing.
    Active,
    /// Prepared: it can be committed at any time.
    Prepared,
    /// Its commit record has this CSN; publication is to follow.
    Ordered(Csn),
}

/// A position in a transaction to roll back to.
#[derive(Clone, Debug, Default)]
pub struct Savepoint {
    /// Which of the session's transactions.
    transaction: u64,
    /// Sequence number of the next write.
    sequence: u64,
    position: Position,
}

/// Interrupts lock waits of a transaction, from any thread.
pub struct Killer(Arc<Owner>);

impl Killer {
    /// Interrupts the lock wait the transaction is in, and any that would begin before its next statement: the call fails with
    /// [`ErrorKind::Killed`].
    pub fn kill(&self) {
        self.0.kill();
    }
}

/// A session: it runs one transaction after another, each from its first read or write to its commit or rollback.
///
/// Dropped, it rolls an active transaction back; one that is prepared stays so in the pool.
pub struct Session {
    pub(super) pool: Arc<Pool>,
    pub(super) owner: Arc<Owner>,
    pub(super) id: u64,
    isolation: Isolation,
    pub(super) lock_wait_timeout: Option<Duration>,
    pub(super) snapshots: OpenSnapshots,
    pub(super) log: Option<LogTxn>,
    pub(super) writes: WriteSet,
    /// Number of the next write: later ones are not seen by scans begun before.
    pub(super) sequence: u64,
    pub(super) locks: Vec<RowKey>,
    statement: Savepoint,
    /// Transactions that the session has ended.
    ended: u64,
    /// Sequence numbers of what was rolled back to savepoints, in order: savepoints of these are gone. No more ranges than writes.
    taken_back: Vec<RangeInclusive<u64>>,
    /// Versions were flushed by this thread and not fenced yet.
    pub(super) unfenced: bool,
    /// Within a change (`pool/hold.rs`), which keeps the pool from being held.
    pub(super) changing: bool,
    pub(super) state: State,
    pub(super) xid: Vec<u8>,
    pub(super) records: Vec<u8>,
}

impl Session {
    /// A session of `pool`.
    pub(crate) fn new(pool: Arc<Pool>, isolation: Isolation) -> Session {
        let id = pool.next_session();
        let owner = Arc::new(Owner::new(id));
        pool.locks.enter(&owner);
        Session::with_owner(pool, isolation, id, owner)
    }

    fn with_owner(pool: Arc<Pool>, isolation: Isolation, id: u64, owner: Arc<Owner>) -> Session {
        Session {
            owner,
            id,
            isolation,
            lock_wait_timeout: None,
            snapshots: OpenSnapshots::new(&pool.snapshots),
            log: None,
            writes: WriteSet::default(),
            sequence: 0,
            locks: Vec::new(),
            statement: Savepoint::default(),
            ended: 0,
            taken_back: Vec::new(),
            unfenced: false,
            changing: false,
            state: State::Active,
            xid: Vec::new(),
            records: Vec::new(),
            pool,
        }
    }

    /// A session for a prepared transaction that had none, which it is to commit or to roll back.
    pub(crate) fn attach(pool: Arc<Pool>, detached: Detached) -> Session {
        let id = pool.next_session();
        let mut session = Session::with_owner(pool, Isolation::RepeatableRead, id, detached.owner);
        session.writes = detached.writes;
        session.locks = detached.locks;
        session.log = Some(detached.log);
        session.xid = detached.xid;
        session.state = State::Prepared;
        session
    }

    /// Number of the session, as the status report shows it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Sets the isolation of this transaction. Effective for snapshots not yet taken.
    pub fn set_isolation(&mut self, isolation: Isolation) {
        self.isolation = isolation;
    }

    /// The isolation in force.
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Sets how long this session waits for a row lock, instead of the pool's setting.
    pub fn set_lock_wait_timeout(&mut self, timeout: Duration) {
        self.lock_wait_timeout = Some(timeout);
    }

    /// Sets whose session it is. Nobody calls a client any more once this has set another, or the transaction was
    /// dropped.
    pub fn set_client(&mut self, client: Option<Arc<dyn Client>>) {
        self.owner.set_client(client);
    }

    /// Marks the transaction as begun: reports count its age from here, or else from its first lock or write.
    pub fn mark_begun(&mut self) {
        self.owner.begin(self.pool.locks.clock());
    }

    /// A handle to interrupt its lock waits.
    pub fn killer(&self) -> Killer {
        Killer(self.owner.clone())
    }

    /// Whether it wrote nothing so far.
    pub fn is_read_only(&self) -> bool {
        self.writes.is_empty() && self.state == State::Active
    }

    /// Begins a statement: a place to roll back to, and under READ COMMITTED a new snapshot when something is read.
    pub fn start_statement(&mut self) {
        self.statement = self.savepoint();
        self.owner.revive();
        self.snapshots.close_statement(&self.pool);
    }

    /// Ends a statement: rows read by it are no longer valid. Its writes are handed over fenced (I3).
    pub fn end_statement(&mut self) {
        self.fence_writes();
        self.end_change();
        self.snapshots.close_statement(&self.pool);
    }

    /// Takes back what was written since [`Session::start_statement`].
    pub fn rollback_statement(&mut self) {
        let statement = std::mem::take(&mut self.statement);
        self.take_back_to(&statement);
        self.statement = statement;
    }

    /// Writes of this transaction so far, those taken back included: names a position in it.
    pub fn writes_so_far(&self) -> u64 {
        self.sequence
    }

    /// A position to roll back to.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { transaction: self.ended, sequence: self.sequence, position: self.writes.position() }
    }

    /// Takes back what was written since `savepoint`, which stays. Locks stay. A prepared transaction stays as it is.
    ///
    /// # Errors
    /// NotFound if the savepoint is of another transaction, or was itself taken back; nothing is taken back then.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        let gone = self.taken_back.iter().any(|range| range.contains(&savepoint.sequence));
        if savepoint.transaction != self.ended || gone {
            return Err(Error::new(ErrorKind::NotFound, "the savepoint is of another transaction or was rolled back"));
        }
        self.take_back_to(savepoint);
        Ok(())
    }

    fn take_back_to(&mut self, savepoint: &Savepoint) {
        if self.state == State::Active {
            self.taken_back.retain(|range| *range.start() <= savepoint.sequence);
            if self.sequence > savepoint.sequence {
                let last = self.next_sequence();
                self.taken_back.push(savepoint.sequence + 1..=last);
            }
            let within = self.changing;
            self.begin_ending();
            self.writes.undo_to(&savepoint.position);
            // The next statement may run on another thread.
            self.fence_writes();
            if !within {
                self.end_change();
            }
        }
    }

    /// Flushes and fences what this thread wrote (I3).
    pub(super) fn fence_writes(&mut self) {
        self.unfenced |= self.writes.flush_rest();
        if std::mem::take(&mut self.unfenced) {
            self.pool.fence();
        }
    }

    /// Begins a change that no kill interrupts (a commit, prepare, rollback or DDL), unless the transaction is within
    /// one.
    pub(crate) fn begin_ending(&mut self) {
        if !self.changing {
            self.changing = self.pool.hold.enter(self.id, || false);
        }
    }

    /// Ends the change, if the transaction is within one.
    pub(super) fn end_change(&mut self) {
        if std::mem::take(&mut self.changing) {
            self.pool.hold.leave(self.id);
        }
    }

    /// Begins a change, unless the statement is killed while the pool is held.
    #[cold]
    pub(super) fn begin_change(&mut self) -> Result<()> {
        let owner = &self.owner;
        self.changing = self.pool.hold.enter(self.id, || owner.is_killed());
        if self.changing {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Killed, "the pool was held for a backup when the statement was killed"))
    }

    /// The sequence number of the write that follows.
    pub(super) fn next_sequence(&mut self) -> u64 {
        self.owner.begin(self.pool.locks.clock());
        self.owner.count_change();
        self.sequence += 1;
        self.sequence - 1
    }

    /// Lets go of all row locks.
    pub(super) fn release_locks(&mut self) {
        self.pool.locks.unlock(&self.owner, self.locks.drain(..));
        self.locks.shrink_to(MEMORY_KEPT);
    }

    /// Makes the session ready for its next transaction.
    pub(super) fn reset(&mut self) {
        self.release_locks();
        self.owner.end();
        self.snapshots.close(&self.pool);
        self.writes.clear();
        self.records.clear();
        self.xid.clear();
        self.taken_back = Vec::new();
        self.ended += 1;
        self.unfenced = false;
        self.state = State::Active;
        self.end_change();
        self.start_statement();
    }
}
