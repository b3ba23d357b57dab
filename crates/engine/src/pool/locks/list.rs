//! Lists locks and waits for monitoring.
//!
//! A list is copied shard by shard, and given to its reader with nothing locked. It takes bounded
//! time and DRAM: of a shard it shows a bounded number of locks, those that somebody waits for
//! before all others. So it is of no single moment, and may be incomplete.

use super::{Lock, LockMode, LockTable};
use crate::pool::owner::{LockKey, Owner};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Most locks of a shard that a list shows beside those that somebody waits for: copied in some
/// fifty microseconds.
const SHARD_LOCKS_MAX: usize = 1024;

/// A lock on a row or table, or a request for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) key: LockKey,
    pub(crate) owner: u64,
    pub(crate) mode: LockMode,
    /// The owner waits for the lock.
    pub(crate) waits: bool,
}

/// A wait for a lock.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) key: LockKey,
    pub(crate) mode: LockMode,
    /// Owners that hold the lock or are before the waiter in the queue; the holders first.
    pub(crate) blockers: Vec<u64>,
}

impl Lock {
    fn list(&self, key: LockKey, list: &mut Vec<Listed>) {
        let mode = self.mode;
        list.extend(self.holders.iter().map(|owner| Listed { key, owner: *owner, mode, waits: false }));
        let waiters = self.queue.iter();
        list.extend(waiters.map(|waiter| Listed { key, owner: waiter.owner.id, mode: waiter.mode, waits: true }));
    }
}

impl LockTable {
    /// Gives `visit` the locks in the table, first those that somebody waits for, until it returns
    /// false. Returns false if there were more than a list shows.
    pub(crate) fn each_lock(&self, visit: &mut dyn FnMut(Listed) -> bool) -> bool {
        let waited_for: FxHashSet<LockKey> = self.waiting.lock().values().copied().collect();
        let mut list = Vec::new();
        for key in &waited_for {
            if let Some(lock) = self.shard(*key).lock().get(key) {
                lock.list(*key, &mut list);
            }
            if !list.drain(..).all(&mut *visit) {
                return true;
            }
        }
        let mut is_complete = true;
        for shard in &self.shards {
            for (key, lock) in shard.lock().iter().filter(|(key, _)| !waited_for.contains(key)) {
                if list.len() >= SHARD_LOCKS_MAX {
                    is_complete = false;
                    break;
                }
                lock.list(*key, &mut list);
            }
            if !list.drain(..).all(&mut *visit) {
                return true;
            }
        }
        is_complete
    }

    /// The owners that wait, in the order of their numbers.
    pub(crate) fn waiters(&self) -> Vec<u64> {
        let mut waiters: Vec<u64> = self.waiting.lock().keys().copied().collect();
        waiters.sort_unstable();
        waiters
    }

    /// The lock that an owner waits for, if it waits.
    pub(crate) fn wait_of(&self, owner: u64) -> Option<Waiting> {
        let key = *self.waiting.lock().get(&owner)?;
        let shard = self.shard(key).lock();
        let lock = shard.get(&key)?;
        let mode = lock.queue.iter().find(|waiter| waiter.owner.id == owner)?.mode;
        Some(Waiting { key, mode, blockers: lock.blockers(owner) })
    }

    /// An owner that is registered, by its number.
    pub(crate) fn owner(&self, id: u64) -> Option<Arc<Owner>> {
        self.owners.lock().get(&id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Rid;
    use std::time::Duration;

    fn owner(locks: &LockTable, id: u64) -> Arc<Owner> {
        let owner = Arc::new(Owner::new(id));
        locks.enter(&owner);
        owner
    }

    fn key(row: u64) -> LockKey {
        LockKey::row(2, Rid::new(row, 0))
    }

    fn share(locks: &LockTable, owner: &Arc<Owner>, row: u64) {
        locks.lock(owner, key(row), LockMode::Shared, None, &[], ()).expect("nobody is in the way");
    }

    /// Hazard: beside a transaction that shares millions of rows, a list takes memory without
    /// bound, or leaves out the one row that matters.
    #[test]
    fn a_list_is_bounded_and_begins_with_what_is_waited_for() {
        let locks = LockTable::new(|| Duration::ZERO);
        let (reader, writer) = (owner(&locks, 1), owner(&locks, 2));
        let rows = 2 * (64 * SHARD_LOCKS_MAX) as u64;
        (1..=rows).for_each(|row| share(&locks, &reader, row));
        std::thread::scope(|scope| {
            scope.spawn(|| locks.lock(&writer, key(rows), LockMode::Exclusive, Some(Duration::from_secs(60)), &[], ()));
            while locks.waiters().is_empty() {
                std::thread::yield_now();
            }
            let mut listed = Vec::new();
            let is_complete = locks.each_lock(&mut |lock| {
                listed.push(lock);
                true
            });
            let held = Listed { key: key(rows), owner: 1, mode: LockMode::Shared, waits: false };
            let wanted = Listed { owner: 2, mode: LockMode::Exclusive, waits: true, ..held };
            assert_eq!(listed[..2], [held, wanted]);
            assert!(!is_complete && listed.len() <= 64 * SHARD_LOCKS_MAX + 2, "{} listed", listed.len());
            let wait = locks.wait_of(2).expect("it waits");
            assert_eq!((wait.key, wait.mode, wait.blockers), (key(rows), LockMode::Exclusive, vec![1]));
            writer.kill();
        });
        assert!(locks.waiters().is_empty() && locks.wait_of(2).is_none());
    }

    #[test]
    fn a_list_ends_when_its_reader_has_enough() {
        let locks = LockTable::new(|| Duration::ZERO);
        let reader = owner(&locks, 1);
        (1..=100).for_each(|row| share(&locks, &reader, row));
        let mut left = 10;
        locks.each_lock(&mut |_| {
            left -= 1;
            left > 0
        });
        assert_eq!(left, 0);
        let mut count = 0;
        assert!(locks.each_lock(&mut |_| {
            count += 1;
            true
        }));
        assert_eq!(count, 100);
    }
}
