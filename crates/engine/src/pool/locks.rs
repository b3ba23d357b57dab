//! Row locks, in DRAM.
//!
//! A lock exists only while somebody holds it or waits for it. Waiters are served in order; one who already holds a
//! shared lock and wants it exclusive goes first. When a wait begins, the waits-for graph is searched from the new
//! waiter; a circle makes it the victim. Before that the lock table tells the server of each blocker, which the server
//! may make give way instead: parallel replication must commit in the primary's order. Lock order: `waiting`, a shard,
//! `owners`, then an owner's state or client.

use super::owner::{Description, Owner, RowKey, Wait};
use crate::config::Clock;
use perdura_pmem::sync::Mutex;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SHARDS: usize = 64;

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

struct Waiter {
    owner: Arc<Owner>,
    mode: LockMode,
}

#[derive(Default)]
struct RowLock {
    exclusive: bool,
    /// Almost always one: no allocation for each row that a large transaction locks.
    holders: SmallVec<[u64; 2]>,
    queue: VecDeque<Waiter>,
}

impl RowLock {
    fn admits(&self, owner: u64, mode: LockMode) -> bool {
        match mode {
            LockMode::Shared => !self.exclusive,
            // Planted: who holds a shared lock may raise it beside others.
            LockMode::Exclusive => {
                let raises = perdura_pmem::planted(63) && self.holders.contains(&owner);
                raises || self.holders.iter().all(|holder| *holder == owner)
            }
        }
    }

    fn grant(&mut self, owner: u64, mode: LockMode) {
        if !self.holders.contains(&owner) {
            self.holders.push(owner);
        }
        self.exclusive |= mode == LockMode::Exclusive;
    }

    /// Whom `waiter` waits for: holders and those before it in the queue. Nobody, if it is not in the queue.
    fn blockers(&self, waiter: u64) -> Vec<u64> {
        let Some(place) = self.queue.iter().position(|other| other.owner.id == waiter) else { return Vec::new() };
        let before = self.queue.iter().take(place).map(|other| other.owner.id);
        self.holders.iter().copied().chain(before).filter(|id| *id != waiter).collect()
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

/// A transaction of a deadlock, as it was when the deadlock was found.
#[derive(Clone, Debug)]
pub struct Deadlocked {
    /// Number of the session.
    pub session: u64,
    /// Whose it was and what it executed; `None` without a session.
    pub client: Option<Description>,
    /// The row it waited for.
    pub key: RowKey,
    /// Name of that row's table.
    pub table: String,
}

/// A deadlock, for the status report.
#[derive(Clone, Debug)]
pub struct Deadlock {
    /// Clock when it was found.
    pub found: Duration,
    /// The transactions of the circle, the victim first. Each waited for the next, the last for the first.
    pub circle: Vec<Deadlocked>,
}

/// A wait, for the status report.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) key: RowKey,
    /// Sessions that hold the row or come first.
    pub(crate) blockers: Vec<u64>,
}

/// The lock table.
pub struct LockTable {
    shards: Box<[Mutex<FxHashMap<RowKey, RowLock>>]>,
    waiting: Mutex<FxHashMap<u64, RowKey>>,
    owners: Mutex<FxHashMap<u64, Arc<Owner>>>,
    last_deadlock: Mutex<Option<Deadlock>>,
    clock: Clock,
    /// Waits begun.
    pub waits: AtomicU64,
    /// Deadlocks found.
    pub deadlocks: AtomicU64,
    /// Waits that timed out.
    pub timeouts: AtomicU64,
}

impl LockTable {
    /// A table without locks, whose reports go by `clock`.
    pub fn new(clock: Clock) -> LockTable {
        LockTable {
            shards: (0..SHARDS).map(|_| Mutex::new(FxHashMap::default())).collect(),
            waiting: Mutex::new(FxHashMap::default()),
            owners: Mutex::new(FxHashMap::default()),
            last_deadlock: Mutex::new(None),
            clock,
            waits: AtomicU64::new(0),
            deadlocks: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
        }
    }

    /// The clock of reports.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Registers an owner, so that whoever waits for it can ask whose it is.
    pub fn enter(&self, owner: &Arc<Owner>) {
        self.owners.lock().insert(owner.id, owner.clone());
    }

    /// Forgets an owner; it holds no lock and waits for none.
    pub fn leave(&self, owner: &Owner) {
        self.owners.lock().remove(&owner.id);
    }

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
        let (held, giving_way) = {
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
            owner.note_wait(self.clock);
            *owner.wait.lock() = Wait::Waiting(key);
            let waiter = Waiter { owner: owner.clone(), mode };
            if held {
                lock.queue.push_front(waiter)
            } else {
                lock.queue.push_back(waiter)
            }
            (held, self.report_conflicts(owner, lock))
        };
        self.waits.fetch_add(1, Ordering::Relaxed);
        let outcome = if self.closes_circle(owner, key, giving_way) {
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

    /// Tells the server of each transaction that the new waiter waits for; returns those that the server will make give
    /// way. The shard is locked, so none of them can let go of the row, and end its transaction, meanwhile.
    fn report_conflicts(&self, waiter: &Owner, lock: &RowLock) -> FxHashSet<u64> {
        let Some(client) = waiter.own_client() else { return FxHashSet::default() };
        let gives_way = |blocker: &u64| {
            let blocker = self.owners.lock().get(blocker).cloned();
            blocker.and_then(|blocker| blocker.with_client(|holder| client.conflict(holder.context()))) == Some(true)
        };
        lock.blockers(waiter.id).into_iter().filter(gives_way).collect()
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

    /// Registers that `owner` waits for `key`, and searches for a circle through it that avoids `seen`.
    fn closes_circle(&self, owner: &Owner, key: RowKey, mut seen: FxHashSet<u64>) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.insert(owner.id, key);
        let mut path = vec![(owner.id, key)];
        let found = self.search(&waiting, owner.id, &mut path, &mut seen);
        if found {
            // The others of the circle wait, so each still executes the statement that waits.
            let circle = path.into_iter().map(|(session, key)| Deadlocked {
                session,
                client: self.describe(session),
                key,
                table: String::new(),
            });
            *self.last_deadlock.lock() = Some(Deadlock { found: (self.clock)(), circle: circle.collect() });
        }
        found
    }

    /// Whose the transaction of an owner is.
    pub(crate) fn describe(&self, owner: u64) -> Option<Description> {
        let owner = self.owners.lock().get(&owner).cloned();
        owner.and_then(|owner| owner.with_client(|client| client.describe()))
    }

    /// Fills in the table names that the last deadlock lacks.
    pub(crate) fn name_deadlock(&self, name: impl Fn(u32) -> String) {
        if let Some(deadlock) = self.last_deadlock.lock().as_mut() {
            for one in deadlock.circle.iter_mut().filter(|one| one.table.is_empty()) {
                one.table = name(one.key.table);
            }
        }
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
        shard.get(&key).map_or_else(Vec::new, |lock| lock.blockers(waiter))
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
                give_back_memory(&mut shard);
            }
        }
    }

    /// Rows locked now, and transactions waiting now.
    pub fn counts(&self) -> (usize, usize) {
        (self.shards.iter().map(|shard| shard.lock().len()).sum(), self.waiting.lock().len())
    }

    /// Owners with an active transaction and its age, oldest first, and by number among those of one age.
    pub(crate) fn active(&self, now: Duration) -> Vec<(Duration, Arc<Owner>)> {
        let owners: Vec<_> = self.owners.lock().values().cloned().collect();
        let mut active: Vec<_> = owners.into_iter().filter_map(|owner| Some((owner.age(now)?, owner))).collect();
        active.sort_by_key(|(age, owner)| (std::cmp::Reverse(*age), owner.id));
        active
    }

    /// What an owner waits for.
    pub(crate) fn wait_of(&self, owner: u64) -> Option<Waiting> {
        let key = *self.waiting.lock().get(&owner)?;
        Some(Waiting { key, blockers: self.blockers(owner, key) })
    }

    /// The last deadlock found.
    pub fn last_deadlock(&self) -> Option<Deadlock> {
        self.last_deadlock.lock().clone()
    }
}

/// Shrinks a shard that held many more rows before, so that a large transaction leaves no memory behind.
fn give_back_memory(shard: &mut FxHashMap<RowKey, RowLock>) {
    const KEPT: usize = 32;
    if shard.capacity() > KEPT && shard.len() * 8 < shard.capacity() {
        shard.shrink_to((shard.len() * 2).max(KEPT / 2));
    }
}
