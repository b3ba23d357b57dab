//! The lock table: locks of rows and of whole tables, in DRAM.
//!
//! Most locks are not here but in place, in the shadows of pages. Here is each row that somebody
//! waits for: a transaction that meets locks in place puts them here in their holders' names, then
//! waits. While a row is here nobody locks it in place. Tables are here only while somebody locks
//! them as a whole (`txn/table_lock.rs`): then all who write them are here as well.
//!
//! A lock exists only while an owner holds it or waits for it. Waiters are served in order, but an
//! owner that raises its shared lock to exclusive goes first. When a wait begins, the new waiter
//! searches the waits-for graph; if its wait closes a cycle, it is the victim. Before that, the
//! lock table reports each blocker to the server, which may make the blocker give way instead:
//! parallel replication must commit in the primary's order. Lock order: the page of a row,
//! `waiting`, a shard, `owners`, then the state or client of an owner.

mod list;

use super::owner::{Description, LockKey, Owner, Wait};
use crate::config::Clock;
use crate::shadow::page::Holder;
use crate::shadow::writer::Writer;
use perdura_pmem::Mutant;
use perdura_pmem::sync::Mutex;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Longest wait for a row that is being moved, for those who would not wait that long for a lock.
const MOVE_WAIT: Duration = Duration::from_secs(1);
const SHARDS: usize = 64;
/// Number of counters over which rows in the table are spread.
const COUNTS: usize = 4096;

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Other transactions may hold it shared as well.
    Shared,
    /// Of a table: its holder writes rows, each under a lock of its own. Other transactions may do
    /// so as well.
    Intention,
    /// No other transaction may hold it.
    Exclusive,
}

/// How a request for a lock was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// The transaction did not hold the lock before.
    New,
    /// The transaction held the lock before, perhaps in a weaker mode.
    Held,
}

/// Why a request for a lock was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockRefused {
    /// The wait exceeded its timeout.
    Timeout,
    /// The wait would have closed a cycle.
    Deadlock,
    /// A kill interrupted the wait.
    Killed,
    /// The lock is not free and the request did not allow a wait.
    WouldWait,
}

struct Waiter {
    owner: Arc<Owner>,
    mode: LockMode,
}

struct Lock {
    /// The mode of its holders.
    mode: LockMode,
    /// Its holder only moves the row elsewhere.
    moves: bool,
    /// Almost always one owner: a large transaction allocates nothing for each row that it locks.
    holders: SmallVec<[u64; 2]>,
    queue: VecDeque<Waiter>,
}

impl Default for Lock {
    fn default() -> Lock {
        Lock { mode: LockMode::Shared, moves: false, holders: SmallVec::new(), queue: VecDeque::new() }
    }
}

impl Lock {
    fn admits(&self, owner: u64, mode: LockMode) -> bool {
        // Planted: an owner may raise its shared lock beside other holders.
        let raises = perdura_pmem::planted(Mutant::SharedLockUpgradedBesideOthers) && self.holders.contains(&owner);
        let is_common = mode == self.mode && mode != LockMode::Exclusive;
        is_common || raises || self.holders.iter().all(|holder| *holder == owner)
    }

    /// Whether a holder has what `mode` asks for.
    fn covers(&self, mode: LockMode) -> bool {
        self.mode == mode || self.mode == LockMode::Exclusive
    }

    fn grant(&mut self, owner: u64, mode: LockMode) {
        // The two modes that are not exclusive shut each other out, so who has both has the lock
        // alone.
        self.mode = if self.holders.is_empty() || mode == self.mode { mode } else { LockMode::Exclusive };
        if !self.holders.contains(&owner) {
            self.holders.push(owner);
        }
    }

    fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.queue.is_empty()
    }

    /// Whether a request that is not granted now will be as soon as the row has been moved. A
    /// request in the queue before it counts as granted, unless both are for a shared lock.
    fn waits_for_move_only(&self, mode: LockMode) -> bool {
        let is_shared = |waiter: &Waiter| mode == LockMode::Shared && waiter.mode == LockMode::Shared;
        self.moves && self.queue.iter().all(is_shared)
    }

    /// Forgets a holder.
    fn release(&mut self, owner: u64) {
        self.holders.retain(|holder| *holder != owner);
        self.moves &= !self.holders.is_empty();
    }

    /// The owners that `waiter` waits for: the holders and those before it in the queue. None if it
    /// is not in the queue. The server has to know of those before it, who hold the lock next. A
    /// search for cycles would find as many among the holders alone: whoever is before a waiter
    /// waits for holders of the same lock, and for nothing else.
    fn blockers(&self, waiter: u64) -> Vec<u64> {
        let Some(place) = self.queue.iter().position(|other| other.owner.id == waiter) else { return Vec::new() };
        // Planted: those before a waiter in the queue are not in its way.
        let place = if perdura_pmem::planted(Mutant::QueuedAheadNotInWay) { 0 } else { place };
        let before = self.queue.iter().take(place).map(|other| other.owner.id);
        self.holders.iter().copied().chain(before).filter(|id| *id != waiter).collect()
    }

    /// Grants requests from the front of the queue until one must wait.
    fn advance(&mut self) {
        while let Some(waiter) = self.queue.front() {
            // Planted: the first in the queue gets a lock that others hold shared.
            let beside = perdura_pmem::planted(Mutant::QueueHeadIgnoresShared) && self.mode == LockMode::Shared;
            if !self.admits(waiter.owner.id, waiter.mode) && !beside {
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

/// A transaction in a deadlock, as it was when the deadlock was found.
#[derive(Clone, Debug)]
pub struct Deadlocked {
    /// Number of its session.
    pub session: u64,
    /// Client of the transaction and the statement it executed; `None` without a client.
    pub client: Option<Description>,
    /// The row or table it waited for.
    pub key: LockKey,
    /// Name of that table, or of the row's.
    pub table: String,
}

/// A deadlock, for the status report.
#[derive(Clone, Debug)]
pub struct Deadlock {
    /// Time at which it was found.
    pub found: Duration,
    /// The transactions in the cycle, the victim first. Each waited for the next, the last for the
    /// first.
    pub circle: Vec<Deadlocked>,
}

type Shard = FxHashMap<LockKey, Lock>;

/// The lock table.
pub(crate) struct LockTable {
    shards: Box<[Mutex<Shard>]>,
    /// By a hash of the key: how many such keys are in the table.
    counts: Box<[AtomicU32]>,
    waiting: Mutex<FxHashMap<u64, LockKey>>,
    owners: Mutex<FxHashMap<u64, Arc<Owner>>>,
    last_deadlock: Mutex<Option<Deadlock>>,
    clock: Clock,
    /// Waits begun since the pool was opened.
    pub waits: AtomicU64,
    /// Waits refused as deadlocks.
    pub deadlocks: AtomicU64,
    /// Waits that timed out.
    pub timeouts: AtomicU64,
}

impl LockTable {
    /// An empty lock table, whose reports take the time from `clock`.
    pub(crate) fn new(clock: Clock) -> LockTable {
        LockTable {
            shards: (0..SHARDS).map(|_| Mutex::new(FxHashMap::default())).collect(),
            counts: (0..COUNTS).map(|_| AtomicU32::new(0)).collect(),
            waiting: Mutex::new(FxHashMap::default()),
            owners: Mutex::new(FxHashMap::default()),
            last_deadlock: Mutex::new(None),
            clock,
            waits: AtomicU64::new(0),
            deadlocks: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
        }
    }

    /// The clock that reports take the time from.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Registers an owner, so that reports and those who wait for it can reach its client.
    pub(crate) fn enter(&self, owner: &Arc<Owner>) {
        self.owners.lock().insert(owner.id, owner.clone());
    }

    /// Forgets an owner, which must hold no lock and wait for none.
    pub(crate) fn leave(&self, owner: &Owner) {
        self.owners.lock().remove(&owner.id);
    }

    fn hash(key: LockKey) -> usize {
        let mut hasher = FxHasher::default();
        key.hash(&mut hasher);
        (hasher.finish() >> 40) as usize
    }

    fn shard(&self, key: LockKey) -> &Mutex<Shard> {
        &self.shards[LockTable::hash(key) % SHARDS]
    }

    fn count(&self, key: LockKey) -> &AtomicU32 {
        &self.counts[LockTable::hash(key) / SHARDS % COUNTS]
    }

    /// Whether the row may be in the table; if not, it may be locked in place. The caller has the
    /// page of the row locked, as everybody has who puts a row here.
    #[inline]
    pub(crate) fn may_have(&self, key: LockKey) -> bool {
        self.count(key).load(Ordering::Acquire) > 0
    }

    /// The lock on `key`, made now if there is none.
    fn lock_of<'s>(&self, shard: &'s mut Shard, key: LockKey) -> &'s mut Lock {
        shard.entry(key).or_insert_with(|| {
            self.count(key).fetch_add(1, Ordering::AcqRel);
            Lock::default()
        })
    }

    /// Forgets the lock on `key` if nobody holds it or waits for it.
    fn forget_idle(&self, shard: &mut Shard, key: LockKey) {
        if shard.get(&key).is_some_and(Lock::is_idle) {
            shard.remove(&key);
            self.count(key).fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Enters `writer`, which has written rows of the table `key` or locked them in place, as one
    /// who holds the table for that. The caller has the page of such a row locked, so either the
    /// writer has released its locks, or it will release this one with them.
    pub(crate) fn enter_writer(&self, key: LockKey, writer: &Writer) {
        let mut shard = self.shard(key).lock();
        let lock = self.lock_of(&mut shard, key);
        // Planted: a writer is entered that has released its locks.
        let releases = || writer.table_lock(key) || perdura_pmem::planted(Mutant::ReleasedWriterEntered);
        if !lock.holders.contains(&writer.owner()) && releases() {
            debug_assert!(lock.holders.is_empty() || lock.mode == LockMode::Intention, "a writer beside a reader");
            lock.grant(writer.owner(), LockMode::Intention);
        }
        self.forget_idle(&mut shard, key);
    }

    /// Locks a row or table for `owner`, waiting up to `timeout`. With `None` it does not wait but
    /// refuses with WouldWait. A row that is only being moved counts as free: whoever waits for
    /// nothing else waits up to [`MOVE_WAIT`] at least. `holders` have locked the row in place.
    /// `page` keeps the page of the row locked until the request is in the table.
    pub(crate) fn lock<G>(
        &self,
        owner: &Arc<Owner>,
        key: LockKey,
        mode: LockMode,
        timeout: Option<Duration>,
        holders: &[Holder],
        page: G,
    ) -> Result<LockOutcome, LockRefused> {
        // Planted: a holder's lock is put here after it may have released all such locks.
        let is_early = perdura_pmem::planted(Mutant::ReleasedLockEntersTable);
        let early: SmallVec<[bool; 1]> =
            holders.iter().map(|holder| is_early && holder.writer.table_lock(key)).collect();
        let (held, timeout, giving_way) = {
            let mut shard = self.shard(key).lock();
            let lock = self.lock_of(&mut shard, key);
            // A holder takes its list of such locks before it releases them, and needs this shard
            // for that: so either it has released the row already, or it will.
            for (Holder { writer, is_exclusive }, is_entered) in holders.iter().zip(early) {
                if is_entered || !is_early && !lock.holders.contains(&writer.owner()) && writer.table_lock(key) {
                    lock.grant(writer.owner(), if *is_exclusive { LockMode::Exclusive } else { LockMode::Shared });
                    lock.moves = writer.moves();
                }
            }
            let held = lock.holders.contains(&owner.id);
            if held && lock.covers(mode) {
                return Ok(LockOutcome::Held);
            }
            if lock.admits(owner.id, mode) && (held || lock.queue.is_empty()) {
                lock.grant(owner.id, mode);
                return Ok(if held { LockOutcome::Held } else { LockOutcome::New });
            }
            let timeout = match lock.waits_for_move_only(mode) {
                true => timeout.unwrap_or_default().max(MOVE_WAIT),
                false => timeout.ok_or(LockRefused::WouldWait)?,
            };
            owner.note_wait(self.clock);
            *owner.wait.lock() = Wait::Waiting(key);
            let waiter = Waiter { owner: owner.clone(), mode };
            if held {
                lock.queue.push_front(waiter)
            } else {
                lock.queue.push_back(waiter)
            }
            (held, timeout, self.report_conflicts(owner, lock))
        };
        drop(page);
        self.wait_for_grant(owner, key, timeout, giving_way)?;
        Ok(if held { LockOutcome::Held } else { LockOutcome::New })
    }

    /// Waits until the request of `owner`, which is in the queue, is granted or refused, and takes
    /// it out of the queue. The server makes the transactions `giving_way` end.
    fn wait_for_grant(
        &self,
        owner: &Arc<Owner>,
        key: LockKey,
        timeout: Duration,
        giving_way: FxHashSet<u64>,
    ) -> Result<(), LockRefused> {
        self.waits.fetch_add(1, Ordering::Relaxed);
        let outcome = if self.closes_cycle(owner, key, giving_way) {
            Err(LockRefused::Deadlock)
        } else {
            self.wait(owner, timeout)
        };
        self.waiting.lock().remove(&owner.id);
        if self.leave_queue(owner, key) {
            return Ok(());
        }
        match outcome {
            Err(LockRefused::Timeout) => self.timeouts.fetch_add(1, Ordering::Relaxed),
            Err(LockRefused::Deadlock) => self.deadlocks.fetch_add(1, Ordering::Relaxed),
            Err(LockRefused::Killed | LockRefused::WouldWait) | Ok(()) => 0,
        };
        outcome
    }

    /// Reports each blocker of the new waiter to the server. Returns those that the server makes
    /// give way. The caller has the shard locked, so no blocker can release the row, and so none
    /// can end its transaction meanwhile.
    fn report_conflicts(&self, waiter: &Owner, lock: &Lock) -> FxHashSet<u64> {
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

    /// Ends a wait and takes the owner out of the queue. Returns whether the lock was granted after
    /// all.
    fn leave_queue(&self, owner: &Owner, key: LockKey) -> bool {
        let mut shard = self.shard(key).lock();
        let ended = std::mem::replace(&mut *owner.wait.lock(), Wait::Idle);
        if ended == Wait::Granted {
            return true;
        }
        if let Some(lock) = shard.get_mut(&key) {
            lock.queue.retain(|waiter| waiter.owner.id != owner.id);
            lock.advance();
            self.forget_idle(&mut shard, key);
        }
        false
    }

    /// Registers that `owner` waits for `key`. Returns whether that closes a cycle that avoids the
    /// owners in `seen`.
    fn closes_cycle(&self, owner: &Owner, key: LockKey, mut seen: FxHashSet<u64>) -> bool {
        let mut waiting = self.waiting.lock();
        waiting.insert(owner.id, key);
        let mut path = vec![(owner.id, key)];
        let found = self.search(&waiting, owner.id, &mut path, &mut seen);
        if found {
            // The others in the cycle still wait, so each still executes the statement that waits.
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

    /// Describes the session behind an owner; `None` if it has none.
    pub(crate) fn describe(&self, owner: u64) -> Option<Description> {
        self.owner(owner).and_then(|owner| owner.with_client(|client| client.describe()))
    }

    /// Fills in the table names that the last deadlock lacks: the lock table knows only ids.
    pub(crate) fn name_deadlock(&self, name: impl Fn(u32) -> String) {
        if let Some(deadlock) = self.last_deadlock.lock().as_mut() {
            for one in deadlock.circle.iter_mut().filter(|one| one.table.is_empty()) {
                one.table = name(one.key.table());
            }
        }
    }

    fn search(
        &self,
        waiting: &FxHashMap<u64, LockKey>,
        target: u64,
        path: &mut Vec<(u64, LockKey)>,
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
                // Planted: only cycles of two are found.
                if !perdura_pmem::planted(Mutant::OnlyShortCyclesFound) && self.search(waiting, target, path, seen) {
                    return true;
                }
                path.pop();
            }
        }
        false
    }

    /// The owners that `waiter` waits for at `key`. None if it has been granted the lock meanwhile.
    fn blockers(&self, waiter: u64, key: LockKey) -> Vec<u64> {
        let shard = self.shard(key).lock();
        shard.get(&key).map_or_else(Vec::new, |lock| lock.blockers(waiter))
    }

    /// Releases the locks of an owner on `keys`, and grants those that waited for them.
    pub(crate) fn unlock(&self, owner: &Owner, keys: impl IntoIterator<Item = LockKey>) {
        for key in keys {
            let mut shard = self.shard(key).lock();
            let Some(lock) = shard.get_mut(&key) else { continue };
            lock.release(owner.id);
            lock.advance();
            self.forget_idle(&mut shard, key);
            give_back_memory(&mut shard);
        }
    }

    /// Number of locks held now, in place or here, and of transactions that wait now.
    pub(crate) fn counts(&self) -> (u64, usize) {
        let held = self.owners.lock().values().map(|owner| owner.counts().0).sum();
        (held, self.waiting.lock().len())
    }

    /// Owners with an active transaction, with its age: oldest first, those of one age by number.
    pub(crate) fn active(&self, now: Duration) -> Vec<(Duration, Arc<Owner>)> {
        let owners: Vec<_> = self.owners.lock().values().cloned().collect();
        let mut active: Vec<_> = owners.into_iter().filter_map(|owner| Some((owner.age(now)?, owner))).collect();
        active.sort_by_key(|(age, owner)| (std::cmp::Reverse(*age), owner.id));
        active
    }

    /// The last deadlock since the pool was opened.
    pub(crate) fn last_deadlock(&self) -> Option<Deadlock> {
        self.last_deadlock.lock().clone()
    }
}

/// Shrinks a shard that has become nearly empty, so that a large transaction leaves no memory
/// behind.
fn give_back_memory(shard: &mut Shard) {
    const KEPT: usize = 32;
    if shard.capacity() > KEPT && shard.len() * 8 < shard.capacity() {
        shard.shrink_to((shard.len() * 2).max(KEPT / 2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Rid;
    use perdura_pmem::sim::{Body, Scheduler};
    use std::sync::atomic::AtomicBool;

    const KEY: LockKey = LockKey::row(2, Rid::NO_ROW);
    const SHORT: Duration = Duration::from_millis(1);

    /// A row that transaction 1 is moving, and sessions 1 to 3.
    struct Moved {
        locks: LockTable,
        mover: Arc<Writer>,
        owners: [Arc<Owner>; 3],
    }

    impl Moved {
        fn new() -> Moved {
            let owners = [1, 2, 3].map(|id| Arc::new(Owner::new(id)));
            Moved { locks: LockTable::new(|| Duration::ZERO), mover: Arc::new(Writer::mover(1)), owners }
        }

        /// Session `owner` finds the row locked in place and waits. Others do not find it there
        /// once the move is committed.
        fn meet(&self, owner: usize, mode: LockMode) -> Result<LockOutcome, LockRefused> {
            let mover = Holder { writer: self.mover.clone(), is_exclusive: true };
            self.locks.lock(&self.owners[owner - 1], KEY, mode, Some(SHORT), &[mover], ())
        }

        fn lock(&self, mode: LockMode, timeout: Option<Duration>) -> Result<LockOutcome, LockRefused> {
            self.locks.lock(&self.owners[2], KEY, mode, timeout, &[], ())
        }

        fn end(&self) {
            self.locks.unlock(&self.owners[0], self.mover.release_tabled());
        }

        fn await_waiters(&self, count: usize) {
            while self.locks.counts().1 != count {}
        }
    }

    /// Hazard: a row that somebody waits for is refused although it is only being moved.
    #[test]
    fn a_moved_row_in_the_table_counts_as_free() {
        for (seed, timeout) in (0..20).flat_map(|seed| [(seed, None), (seed, Some(SHORT))]) {
            let row = Moved::new();
            // The session that put the row here has given up.
            row.owners[1].kill();
            assert_eq!(row.meet(2, LockMode::Exclusive), Err(LockRefused::Killed));
            let bodies: Vec<Body<'_>> = vec![
                Box::new(|| assert_eq!(row.lock(LockMode::Exclusive, timeout), Ok(LockOutcome::New), "seed {seed}")),
                Box::new(|| {
                    row.await_waiters(1);
                    row.end();
                }),
            ];
            Scheduler::new(seed).run(bodies);
            // Now somebody holds it who does not move it.
            row.owners[1].revive();
            let refused = row.locks.lock(&row.owners[1], KEY, LockMode::Shared, None, &[], ());
            assert_eq!(refused, Err(LockRefused::WouldWait));
        }
    }

    /// Hazard: whoever would not wait waits for those who wait for a move, or is refused a lock
    /// that it could share with them.
    #[test]
    fn behind_others_only_a_shared_lock_counts_as_free() {
        for seed in 0..20 {
            let (row, refused) = (Moved::new(), AtomicBool::new(false));
            let bodies: Vec<Body<'_>> = vec![
                Box::new(|| assert_eq!(row.meet(2, LockMode::Shared), Ok(LockOutcome::New), "seed {seed}")),
                Box::new(|| {
                    row.await_waiters(1);
                    assert_eq!(row.lock(LockMode::Exclusive, None), Err(LockRefused::WouldWait));
                    assert_eq!(row.lock(LockMode::Exclusive, Some(SHORT)), Err(LockRefused::Timeout));
                    assert_eq!(row.locks.counts().1, 1, "seed {seed}: it has waited as long as for a move");
                    refused.store(true, Ordering::Relaxed);
                    assert_eq!(row.lock(LockMode::Shared, None), Ok(LockOutcome::New), "seed {seed}");
                }),
                Box::new(|| {
                    while !refused.load(Ordering::Relaxed) {
                        row.locks.counts();
                    }
                    row.await_waiters(2);
                    row.await_waiters(2);
                    row.end();
                }),
            ];
            Scheduler::new(seed).run(bodies);
        }
    }
}
