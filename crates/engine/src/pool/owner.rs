//! A transaction as the lock table and the status report know it: what it waits for, how to interrupt it, and whose it
//! is.
//!
//! The session behind a transaction may end while others look at it. They reach it only under the owner's mutex, which
//! the end of the session takes too ([`Owner::set_client`]). Lock order: a shard of the lock table, then an owner's
//! client.

use crate::config::Clock;
use crate::format::Rid;
use perdura_pmem::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowKey {
    /// Table id.
    pub table: u32,
    /// Row.
    pub rid: Rid,
}

/// Who a transaction belongs to, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Number of the connection, as the server shows it.
    pub connection: u64,
    /// Its user.
    pub user: String,
    /// The statement it executes, cut to a reasonable length; empty if it executes none, or if the server cannot tell
    /// now.
    pub statement: String,
}

/// The session behind a transaction.
///
/// Called under locks of the lock table: neither method may call the engine, or wait for somebody who does.
pub trait Client: Send + Sync {
    /// What stands for the session in [`Client::conflict`].
    fn context(&self) -> usize;

    /// This session begins to wait for a row that the session `holder` has locked, or will lock first. The holder cannot end its
    /// transaction while this runs. Returns whether it will be made to give way.
    fn conflict(&self, holder: usize) -> bool;

    /// Whose session it is, and what it does. From any thread.
    fn describe(&self) -> Description;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Idle,
    Waiting(RowKey),
    Granted,
    Killed,
}

/// A transaction as the lock table knows it.
pub struct Owner {
    pub(crate) id: u64,
    pub(crate) wait: Mutex<Wait>,
    pub(crate) wake: Condvar,
    /// Killed, perhaps between two waits: no further wait begins.
    pub(crate) killed: AtomicBool,
    client: Mutex<Option<Arc<dyn Client>>>,
    /// Clock when the transaction began, in milliseconds, plus one; 0 while none is active.
    begun: AtomicU64,
    /// Clock when the wait began, in milliseconds.
    waits_since: AtomicU64,
    locks: AtomicU64,
    changes: AtomicU64,
}

impl Owner {
    /// An owner; `id` is unique among the living.
    pub fn new(id: u64) -> Owner {
        Owner {
            id,
            wait: Mutex::new(Wait::Idle),
            wake: Condvar::new(),
            killed: AtomicBool::new(false),
            client: Mutex::new(None),
            begun: AtomicU64::new(0),
            waits_since: AtomicU64::new(0),
            locks: AtomicU64::new(0),
            changes: AtomicU64::new(0),
        }
    }

    /// Interrupts the wait the owner is in, and lets it begin none until [`Owner::revive`].
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        let mut wait = self.wait.lock();
        if matches!(*wait, Wait::Waiting(_)) {
            *wait = Wait::Killed;
            self.wake.notify_all();
        }
    }

    /// Whether the statement was killed.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Ends the effect of a kill: a new statement begins.
    pub fn revive(&self) {
        self.killed.store(false, Ordering::Relaxed);
    }

    /// Sets whose transaction it is. Once this returns nobody calls the previous client any more.
    pub fn set_client(&self, client: Option<Arc<dyn Client>>) {
        *self.client.lock() = client;
    }

    /// Runs `body` on the session behind it, which cannot end meanwhile.
    pub(crate) fn with_client<T>(&self, body: impl FnOnce(&dyn Client) -> T) -> Option<T> {
        self.client.lock().as_deref().map(body)
    }

    /// The session behind it. Only the session's own thread may call this: the session cannot end under it.
    pub(crate) fn own_client(&self) -> Option<Arc<dyn Client>> {
        self.client.lock().clone()
    }

    /// A transaction begins, unless one has.
    pub(crate) fn begin(&self, clock: Clock) {
        if self.begun.load(Ordering::Relaxed) == 0 {
            self.begun.store(millis(clock()) + 1, Ordering::Relaxed);
        }
    }

    /// The transaction has ended.
    pub(crate) fn end(&self) {
        self.begun.store(0, Ordering::Relaxed);
        self.locks.store(0, Ordering::Relaxed);
        self.changes.store(0, Ordering::Relaxed);
    }

    /// Notes how many rows it has locked. By its own thread.
    pub(crate) fn count_locks(&self, locks: usize) {
        self.locks.store(locks as u64, Ordering::Relaxed);
    }

    /// Counts a row written. By its own thread.
    pub(crate) fn count_change(&self) {
        self.changes.store(self.changes.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn note_wait(&self, clock: Clock) {
        self.waits_since.store(millis(clock()), Ordering::Relaxed);
    }

    /// How long its wait has taken so far.
    pub(crate) fn waited(&self, now: Duration) -> Duration {
        now.saturating_sub(Duration::from_millis(self.waits_since.load(Ordering::Relaxed)))
    }

    /// How long its transaction has been active; `None` without one.
    pub(crate) fn age(&self, now: Duration) -> Option<Duration> {
        let begun = self.begun.load(Ordering::Relaxed).checked_sub(1)?;
        Some(now.saturating_sub(Duration::from_millis(begun)))
    }

    /// Rows locked, and writes.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.locks.load(Ordering::Relaxed), self.changes.load(Ordering::Relaxed))
    }
}

fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}
