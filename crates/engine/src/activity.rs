//! Activity of a pool: its transactions, locks and waits, given to a reader one after the other.
//!
//! Nothing is locked while the reader looks at one. So a list is of no single moment: what ends
//! meanwhile may be missing.

use crate::pool::Pool;
use crate::pool::locks::LockMode;
use crate::pool::owner::{Description, LockKey, Owner, Stage};
use crate::txn::isolation::Isolation;
use rustc_hash::FxHashMap;
use std::time::Duration;

/// Most blockers that are listed for one wait.
const BLOCKERS_LISTED: usize = 16;

/// A session, and who is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// Number of the session.
    pub session: u64,
    /// Client of the session and the statement it executes; `None` if it has ended, or has no
    /// client.
    pub client: Option<Description>,
}

impl SessionStatus {
    fn of(pool: &Pool, session: u64) -> SessionStatus {
        SessionStatus { session, client: pool.locks.describe(session) }
    }

    /// Number of the connection, if there is one.
    pub fn connection(&self) -> Option<u64> {
        self.client.as_ref().map(|client| client.connection)
    }
}

/// A wait for a lock.
#[derive(Clone, Debug)]
pub struct WaitStatus {
    /// Name of the table, or of the row's.
    pub table: String,
    /// Locked row or table.
    pub key: LockKey,
    /// How long the session has waited.
    pub waited: Duration,
    /// Sessions that hold the lock or wait before this one, each with its connection if it has one.
    pub blockers: Vec<(u64, Option<u64>)>,
}

/// A snapshot that a transaction has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// The last commit that it sees.
    pub csn: u64,
    /// Time since it was taken.
    pub age: Duration,
}

/// A transaction that has begun.
#[derive(Clone, Debug)]
pub struct TransactionStatus {
    /// Number of the session.
    pub session: u64,
    /// Client of the transaction and the statement it executes; `None` once its session has ended.
    pub client: Option<Description>,
    /// Time since the transaction began; of a prepared one that recovery has found, since then.
    pub age: Duration,
    /// How far it has come.
    pub stage: Stage,
    /// Its isolation level.
    pub isolation: Isolation,
    /// Locks held, of rows and of whole tables.
    pub locks: u64,
    /// Writes so far; a row counts as often as it was written.
    pub changes: u64,
    /// Estimated DRAM of its write set, in bytes, as of the end of a statement or a thousand
    /// writes.
    pub memory: u64,
    /// The oldest of the snapshots that it has open.
    pub snapshot: Option<SnapshotStatus>,
    /// The lock it waits for.
    pub wait: Option<WaitStatus>,
}

impl TransactionStatus {
    pub(crate) fn of(pool: &Pool, owner: &Owner, age: Duration, wait: Option<WaitStatus>, now: Duration) -> Self {
        let (locks, changes) = owner.counts();
        let live = owner.oldest_snapshot(&pool.snapshots);
        TransactionStatus {
            session: owner.id,
            client: owner.with_client(|client| client.describe()),
            age,
            stage: owner.stage(),
            isolation: Isolation::of(owner.isolation()),
            locks,
            changes,
            memory: owner.memory(),
            snapshot: live.map(|live| SnapshotStatus { csn: live.csn, age: now.saturating_sub(live.taken) }),
            wait,
        }
    }
}

/// The wait that an owner is in, with its first `most` blockers.
pub(crate) fn wait_of(pool: &Pool, owner: &Owner, now: Duration, most: usize) -> Option<WaitStatus> {
    let wait = pool.locks.wait_of(owner.id)?;
    let connection = |blocker| pool.locks.describe(blocker).map(|client| client.connection);
    Some(WaitStatus {
        table: pool.name_of(wait.key.table()),
        key: wait.key,
        waited: owner.waited(now),
        blockers: wait.blockers.into_iter().take(most).map(|blocker| (blocker, connection(blocker))).collect(),
    })
}

/// Gives `visit` each transaction that has begun, oldest first, until it returns false. Its wait
/// names no blockers: [`each_wait`] does.
pub(crate) fn each_transaction(pool: &Pool, visit: &mut dyn FnMut(TransactionStatus) -> bool) {
    let now = pool.now();
    for (age, owner) in pool.locks.active(now) {
        if !visit(TransactionStatus::of(pool, &owner, age, wait_of(pool, &owner, now, 0), now)) {
            return;
        }
    }
}

/// A lock in the lock table, or a request for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockStatus {
    /// Number of the session that holds or wants it.
    pub session: u64,
    /// Its connection, if it has one.
    pub connection: Option<u64>,
    /// Name of the table, or of the row's.
    pub table: String,
    /// Locked row or table.
    pub key: LockKey,
    /// Mode of the lock.
    pub mode: LockMode,
    /// The session waits for it.
    pub waits: bool,
}

/// Gives `visit` the locks in the lock table, those first that somebody waits for, until it returns
/// false. Returns false if there were more than are listed.
pub(crate) fn each_lock(pool: &Pool, visit: &mut dyn FnMut(LockStatus) -> bool) -> bool {
    let (mut connections, mut tables) = (FxHashMap::default(), FxHashMap::default());
    pool.locks.each_lock(&mut |lock| {
        let connection = || pool.locks.describe(lock.owner).map(|client| client.connection);
        let connection = *connections.entry(lock.owner).or_insert_with(connection);
        let table: &String = tables.entry(lock.key.table()).or_insert_with(|| pool.name_of(lock.key.table()));
        visit(LockStatus {
            session: lock.owner,
            connection,
            table: table.clone(),
            key: lock.key,
            mode: lock.mode,
            waits: lock.waits,
        })
    })
}

/// A session that waits for a lock, and one that it waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// The session that waits.
    pub waiter: SessionStatus,
    /// A session that holds the lock or waits before it.
    pub blocker: SessionStatus,
    /// Number of such sessions, those not listed included.
    pub blockers: usize,
    /// Name of the table, or of the row's.
    pub table: String,
    /// Locked row or table.
    pub key: LockKey,
    /// Mode of the lock that is waited for.
    pub mode: LockMode,
    /// How long the session has waited.
    pub waited: Duration,
}

/// Gives `visit` each wait with each of its blockers, holders first, until it returns false. Of one
/// wait it lists sixteen.
pub(crate) fn each_wait(pool: &Pool, visit: &mut dyn FnMut(LockWait) -> bool) {
    let now = pool.now();
    for waiter in pool.locks.waiters() {
        let (Some(wait), Some(owner)) = (pool.locks.wait_of(waiter), pool.locks.owner(waiter)) else { continue };
        let (table, waiter) = (pool.name_of(wait.key.table()), SessionStatus::of(pool, waiter));
        for blocker in wait.blockers.iter().take(BLOCKERS_LISTED) {
            let found = LockWait {
                waiter: waiter.clone(),
                blocker: SessionStatus::of(pool, *blocker),
                blockers: wait.blockers.len(),
                table: table.clone(),
                key: wait.key,
                mode: wait.mode,
                waited: owner.waited(now),
            };
            if !visit(found) {
                return;
            }
        }
    }
}
