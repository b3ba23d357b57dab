//! An owner of row locks: a session as the lock table and the status report know it. An owner says
//! what it waits for, how to interrupt it, and who the client behind it is.
//!
//! The client of a session may end while others look at it. They reach it only under the owner's
//! mutex, which the end of the session takes as well ([`Owner::set_client`]). Lock order: a shard
//! of the lock table, then an owner's client.

use super::snapshot_list::{Live, SlotId, SnapshotList};
use crate::config::Clock;
pub use crate::shadow::writer::LockKey;
use perdura_pmem::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// Owner of a transaction, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// Number of the connection, as the server shows it.
    pub connection: u64,
    /// User of the connection.
    pub user: String,
    /// The statement that the connection executes, cut to a reasonable length; empty if it executes
    /// none, or if the server cannot tell now.
    pub statement: String,
}

/// The server's side of a session.
///
/// The engine calls it under locks of the lock table: no method may call the engine, or wait for
/// somebody who does.
pub trait Client: Send + Sync {
    /// The word by which [`Client::conflict`] of another session is told of this one.
    fn context(&self) -> usize;

    /// Tells that this session begins to wait for a row that the session `holder` has locked, or
    /// will lock before it. The holder cannot end its transaction while this runs. Returns whether
    /// the server makes the holder give way.
    fn conflict(&self, holder: usize) -> bool;

    /// Says whose session it is and what it executes. Any thread may call it.
    fn describe(&self) -> Description;
}

/// How far a transaction has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It reads and writes, or waits for its next statement.
    Running,
    /// It is prepared, to be committed or rolled back at any time.
    Prepared,
    /// It is being committed.
    Committing,
    /// It is being rolled back.
    RollingBack,
}

impl Stage {
    fn of(number: u8) -> Stage {
        [Stage::Running, Stage::Prepared, Stage::Committing, Stage::RollingBack][usize::from(number)]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Idle,
    Waiting(LockKey),
    Granted,
    Killed,
}

/// An owner of row locks.
pub(crate) struct Owner {
    pub(crate) id: u64,
    pub(crate) wait: Mutex<Wait>,
    pub(crate) wake: Condvar,
    /// A kill has come, perhaps between two waits: further waits end at once.
    pub(crate) killed: AtomicBool,
    client: Mutex<Option<Arc<dyn Client>>>,
    /// Time at which the transaction began, in milliseconds, plus one; 0 while none is active.
    begun: AtomicU64,
    /// Time at which the last wait began, in milliseconds.
    waits_since: AtomicU64,
    locks: AtomicU64,
    changes: AtomicU64,
    /// DRAM of the write set, in bytes, as it was noted last.
    memory: AtomicU64,
    /// A [`Stage`].
    stage: AtomicU8,
    isolation: AtomicU8,
    /// The slots of the session's snapshots; none once the session has ended.
    slots: Mutex<Option<[SlotId; 2]>>,
}

impl Owner {
    /// A new owner. No other owner of the pool may have `id`.
    pub(crate) fn new(id: u64) -> Owner {
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
            memory: AtomicU64::new(0),
            stage: AtomicU8::new(Stage::Running as u8),
            isolation: AtomicU8::new(0),
            slots: Mutex::new(None),
        }
    }

    /// Interrupts the wait that the owner is in. Until [`Owner::revive`] its further waits end at
    /// once.
    pub(crate) fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        let mut wait = self.wait.lock();
        if matches!(*wait, Wait::Waiting(_)) {
            *wait = Wait::Killed;
            self.wake.notify_all();
        }
    }

    /// Whether a kill has come since the last [`Owner::revive`].
    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Ends the effect of a kill, when a new statement begins.
    pub(crate) fn revive(&self) {
        self.killed.store(false, Ordering::Relaxed);
    }

    /// Replaces the client. Once this returns, nobody calls the previous client any more.
    pub(crate) fn set_client(&self, client: Option<Arc<dyn Client>>) {
        *self.client.lock() = client;
    }

    /// Runs `body` on the client, which cannot end meanwhile; `None` without a client.
    pub(crate) fn with_client<T>(&self, body: impl FnOnce(&dyn Client) -> T) -> Option<T> {
        self.client.lock().as_deref().map(body)
    }

    /// The client. Only the session's own thread may call this, so that the client cannot end under
    /// it.
    pub(crate) fn own_client(&self) -> Option<Arc<dyn Client>> {
        self.client.lock().clone()
    }

    /// Notes that a transaction begins, unless one is active.
    pub(crate) fn begin(&self, clock: Clock) {
        if self.begun.load(Ordering::Relaxed) == 0 {
            self.begun.store(millis(clock()) + 1, Ordering::Relaxed);
        }
    }

    /// Notes that the transaction has ended.
    pub(crate) fn end(&self) {
        self.begun.store(0, Ordering::Relaxed);
        self.locks.store(0, Ordering::Relaxed);
        self.changes.store(0, Ordering::Relaxed);
        self.memory.store(0, Ordering::Relaxed);
        self.note_stage(Stage::Running);
    }

    /// Notes how far the transaction has come.
    #[inline]
    pub(crate) fn note_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Relaxed);
    }

    /// How far the transaction has come.
    pub(crate) fn stage(&self) -> Stage {
        Stage::of(self.stage.load(Ordering::Relaxed))
    }

    /// Notes the isolation level of the session's transactions, as a number of the session's.
    #[inline]
    pub(crate) fn note_isolation(&self, isolation: u8) {
        self.isolation.store(isolation, Ordering::Relaxed);
    }

    /// The isolation level that was noted last.
    pub(crate) fn isolation(&self) -> u8 {
        self.isolation.load(Ordering::Relaxed)
    }

    /// Notes the DRAM that the transaction's write set takes, in bytes.
    pub(crate) fn note_memory(&self, bytes: usize) {
        self.memory.store(bytes as u64, Ordering::Relaxed);
    }

    /// DRAM of the transaction's write set, in bytes, as it was noted last.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// Sets the slots of the session's snapshots; `None` before they are given to another.
    pub(crate) fn set_slots(&self, slots: Option<[SlotId; 2]>) {
        *self.slots.lock() = slots;
    }

    /// The oldest snapshot that the session has open in `list`.
    pub(crate) fn oldest_snapshot(&self, list: &SnapshotList) -> Option<Live> {
        // While the slots are locked nobody else gets them.
        let slots = self.slots.lock();
        slots.iter().flatten().filter_map(|slot| list.live_in(*slot)).min_by_key(|live| live.csn)
    }

    /// Notes how many rows the transaction has locked. Only its own thread may call this.
    pub(crate) fn count_locks(&self, locks: usize) {
        self.locks.store(locks as u64, Ordering::Relaxed);
    }

    /// Counts a write. Only the transaction's own thread may call this.
    pub(crate) fn count_change(&self) {
        self.changes.store(self.changes.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Notes that a wait begins.
    pub(crate) fn note_wait(&self, clock: Clock) {
        self.waits_since.store(millis(clock()), Ordering::Relaxed);
    }

    /// How long the present wait has taken so far.
    pub(crate) fn waited(&self, now: Duration) -> Duration {
        now.saturating_sub(Duration::from_millis(self.waits_since.load(Ordering::Relaxed)))
    }

    /// How long the transaction has been active; `None` if none is.
    pub(crate) fn age(&self, now: Duration) -> Option<Duration> {
        let begun = self.begun.load(Ordering::Relaxed).checked_sub(1)?;
        Some(now.saturating_sub(Duration::from_millis(begun)))
    }

    /// Number of rows locked, and of writes.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.locks.load(Ordering::Relaxed), self.changes.load(Ordering::Relaxed))
    }
}

fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}
