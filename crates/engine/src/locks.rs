//! Row locks, in DRAM.
//!
//! A lock exists only while somebody holds it or waits for it. Waiters are served in order; one who already holds a shared lock and
//! wants it exclusive goes first. When a wait begins, the waits-for graph is searched from the new waiter; a circle makes
//! it the victim. Lock order: `waiting`, then a shard, then a waiter's state.

use crate::format::Rid;
use perdura_pmem::sync::{Condvar, Mutex};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SHARDS: usize = 64;

/// A row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowKey {
    /// Table id.
    pub table: u32,
    /// Row.
    pub rid: Rid,
}

/// How a row is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Others may lock it shared too.
    Shared,
    /// Nobody else may lock it.
    Exclusive,
}

/// Outcome of a request that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// The transaction did not hold the lock before.
    New,
    /// It held it already, or holds it in a stronger way now.
    Held,
}

/// Why a request was not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockRefused {
    /// The wait took longer than allowed.
    Timeout,
    /// The wait would never have ended.
    Deadlock,
    /// The wait was interrupted.
    Killed,
    /// Somebody holds it and the request was not to wait.
    WouldWait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Idle,
    Waiting(RowKey),
    Granted,
    Killed,
}

/// A transaction as the lock table knows it.
pub struct Owner {
    id: u64,
    wait: Mutex<Wait>,
    wake: Condvar,
    /// Killed, perhaps between two waits: no further wait begins.
    killed: AtomicBool,
}

impl Owner {
    /// An owner; `id` is unique among the living.
    pub fn new(id: u64) -> Owner {
        Owner { id, wait: Mutex::new(Wait::Idle), wake: Condvar::new(), killed: AtomicBool::new(false) }
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
}

impl Owner {
    /// Whether the statement was killed.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Ends the effect of a kill: a new statement begins.
    pub fn revive(&self) {
        self.killed.store(false, Ordering::Relaxed);
    }
}

struct Waiter {
    owner: Arc<Owner>,
    mode: LockMode,
}

#[derive(Default)]
struct RowLock {
    exclusive: bool,
    holders: Vec<u64>,
    queue: VecDeque<Waiter>,
}

impl RowLock {
    fn admits(&self, owner: u64, mode: LockMode) -> bool {
        match mode {
            LockMode::Shared => !self.exclusive,
            LockMode::Exclusive => self.holders.iter().all(|holder| *holder == owner),
        }
    }

    fn grant(&mut self, owner: u64, mode: LockMode) {
        if !self.holders.contains(&owner) {
            self.holders.push(owner);
        }
        self.exclusive |= mode == LockMode::Exclusive;
    }

    /// Grants from the front of the queue what can be granted.
    fn advance(&mut self) {
        while let Some(waiter) = self.queue.front() {
            if !self.admits(waiter.owner.id, waiter.mode) {
                return;
            }
            let waiter = self.queue.pop_front().expect("just seen");
            let mut wait = waiter.owner.wait.lock();
            if matches!(*wait, Wait::Waiting(_)) {
                *wait = Wait::Granted;
                self.grant(waiter.owner.id, waiter.mode);
                waiter.owner.wake.notify_all();
            }
        }
    }
}

/// A deadlock, for the status report.
#[derive(Clone, Debug)]
pub struct Deadlock {
    /// The transactions of the circle, the victim first, and the row each waits for.
    pub circle: Vec<(u64, RowKey)>,
}

/// The lock table.
pub struct LockTable {
    shards: Box<[Mutex<FxHashMap<RowKey, RowLock>>]>,
    waiting: Mutex<FxHashMap<u64, RowKey>>,
    last_deadlock: Mutex<Option<Deadlock>>,
    /// Waits begun.
    pub waits: AtomicU64,
    /// Deadlocks found.
    pub deadlocks: AtomicU64,
    /// Waits that timed out.
    pub timeouts: AtomicU64,
}

impl Default for LockTable {
    fn default() -> Self {
        LockTable {
            shards: (0..SHARDS).map(|_| Mutex::new(FxHashMap::default())).collect(),
            waiting: Mutex::new(FxHashMap::default()),
            last_deadlock: Mutex::new(None),
            waits: AtomicU64::new(0),
            deadlocks: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
        }
    }
}

impl LockTable {
    fn shard(&self, key: RowKey) -> &Mutex<FxHashMap<RowKey, RowLock>> {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        &self.shards[(hasher.finish() >> 40) as usize % SHARDS]
    }

    /// Locks a row. `timeout` of `None` does not wait at all.
    pub fn lock(
        &self,
        owner: &Arc<Owner>,
        key: RowKey,
        mode: LockMode,
        timeout: Option<Duration>,
    ) -> Result<LockOutcome, LockRefused> {
        let held = {
            let mut shard = self.shard(key).lock();
            let lock = shard.entry(key).or_default();
            let held = lock.holders.contains(&owner.id);
            if held && (lock.exclusive || mode == LockMode::Shared) {
                return Ok(LockOutcome::Held);
            }
            if lock.admits(owner.id, mode) && (held || lock.queue.is_empty()) {
                lock.grant(owner.id, mode);
                return Ok(if held { LockOutcome::Held } else { LockOutcome::New });
            }
            if timeout.is_none() {
                return Err(LockRefused::WouldWait);
            }
            *owner.wait.lock() = Wait::Waiting(key);
            let waiter = Waiter { owner: owner.clone(), mode };
            if held {
                lock.queue.push_front(waiter)
            } else {
                lock.queue.push_back(waiter)
            }
            held
        };
        self.waits.fetch_add(1, Ordering::Relaxed);
        let outcome = if self.closes_circle(owner, key) {
            Err(LockRefused::Deadlock)
        } else {
            self.wait(owner, timeout.unwrap_or_default())
        };
        self.waiting.lock().remove(&owner.id);
        let granted = self.leave_queue(owner, key);
        match outcome {
            Err(refused) if !granted => {
                match refused {
                    LockRefused::Timeout => self.timeouts.fetch_add(1, Ordering::Relaxed),
                    LockRefused::Deadlock => self.deadlocks.fetch_add(1, Ordering::Relaxed),
                    LockRefused::Killed | LockRefused::WouldWait => 0,
                };
                Err(refused)
            }
            _ => Ok(if held { LockOutcome::Held } else { LockOutcome::New }),
        }
    }

    fn wait(&self, owner: &Owner, timeout: Duration) -> Result<(), LockRefused> {
        let mut wait = owner.wait.lock();
        if owner.killed.load(Ordering::Acquire) && matches!(*wait, Wait::Waiting(_)) {
            return Err(LockRefused::Killed);
        }
        loop {
            match *wait {
                Wait::Granted => return Ok(()),
                Wait::Killed => return Err(LockRefused::Killed),
                Wait::Idle | Wait::Waiting(_) => {}
            }
            let woken = owner.wake.wait_for(&mut wait, timeout);
            if !woken && matches!(*wait, Wait::Waiting(_)) {
                return Err(LockRefused::Timeout);
            }
        }
    }

    /// Ends a wait: out of the queue if still in it. Returns whether the lock was granted after all.
    fn leave_queue(&self, owner: &Owner, key: RowKey) -> bool {
        let mut shard = self.shard(key).lock();
        let ended = std::mem::replace(&mut *owner.wait.lock(), Wait::Idle);
        if ended == Wait::Granted {
            return true;
        }
        if let Some(lock) = shard.get_mut(&key) {
            lock.queue.retain(|waiter| waiter.owner.id != owner.id);
            lock.advance();
            if lock.holders.is_empty() && lock.queue.is_empty() {
                shard.remove(&key);
            }
        }
        false
    }

    /// Registers that `owner` waits for `key`, and searches for a circle through it.
    fn closes_circle(&self, owner: &Owner, key: RowKey) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.insert(owner.id, key);
        let mut seen = FxHashSet::default();
        let mut path = vec![(owner.id, key)];
        let found = self.search(&waiting, owner.id, &mut path, &mut seen);
        if found {
            *self.last_deadlock.lock() = Some(Deadlock { circle: path });
        }
        found
    }

    fn search(
        &self,
        waiting: &FxHashMap<u64, RowKey>,
        target: u64,
        path: &mut Vec<(u64, RowKey)>,
        seen: &mut FxHashSet<u64>,
    ) -> bool {
        let &(waiter, key) = path.last().expect("starts with the new waiter");
        for blocker in self.blockers(waiter, key) {
            if blocker == target {
                return true;
            }
            if let Some(&next) = waiting.get(&blocker)
                && seen.insert(blocker)
            {
                path.push((blocker, next));
                if self.search(waiting, target, path, seen) {
                    return true;
                }
                path.pop();
            }
        }
        false
    }

    /// Whom `waiter` waits for at `key`: holders and those before it in the queue. Nobody, if it was granted the lock meanwhile.
    fn blockers(&self, waiter: u64, key: RowKey) -> Vec<u64> {
        let shard = self.shard(key).lock();
        let Some(lock) = shard.get(&key) else { return Vec::new() };
        let Some(place) = lock.queue.iter().position(|other| other.owner.id == waiter) else { return Vec::new() };
        let before = lock.queue.iter().take(place).map(|other| other.owner.id);
        lock.holders.iter().copied().chain(before).filter(|id| *id != waiter).collect()
    }

    /// Unlocks rows of an owner.
    pub fn unlock(&self, owner: &Owner, keys: impl IntoIterator<Item = RowKey>) {
        for key in keys {
            let mut shard = self.shard(key).lock();
            let Some(lock) = shard.get_mut(&key) else { continue };
            lock.holders.retain(|holder| *holder != owner.id);
            if lock.holders.is_empty() {
                lock.exclusive = false;
            }
            lock.advance();
            if lock.holders.is_empty() && lock.queue.is_empty() {
                shard.remove(&key);
            }
        }
    }

    /// Rows locked now, and transactions waiting now.
    pub fn counts(&self) -> (usize, usize) {
        (self.shards.iter().map(|shard| shard.lock().len()).sum(), self.waiting.lock().len())
    }

    /// Who waits for which row.
    pub fn waiters(&self) -> Vec<(u64, RowKey)> {
        let mut waiters: Vec<_> = self.waiting.lock().iter().map(|(owner, key)| (*owner, *key)).collect();
        waiters.sort_unstable_by_key(|(owner, _)| *owner);
        waiters
    }

    /// The last deadlock found.
    pub fn last_deadlock(&self) -> Option<Deadlock> {
        self.last_deadlock.lock().clone()
    }
}
