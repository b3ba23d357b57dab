//! The snapshots that a session holds open.

use super::isolation::Isolation;
use crate::pool::Pool;
use crate::pool::snapshot_list::{SlotId, SnapshotList};
use perdura_log::Csn;
use perdura_pmem::Mutant;

/// A slot in the pool's snapshot list, and the CSN that it reads at while it is open.
struct OpenSnapshot {
    slot: SlotId,
    csn: Option<Csn>,
}

impl OpenSnapshot {
    fn new(list: &SnapshotList) -> OpenSnapshot {
        OpenSnapshot { slot: list.acquire_slot(), csn: None }
    }

    fn close(&mut self, list: &SnapshotList) {
        if self.csn.take().is_some() {
            list.close(self.slot);
        }
    }
}

/// The snapshots of a transaction. Whatever it reads, one of them sees it, so purge does not
/// reclaim it; or else the transaction has locked the row, so nobody replaces the version.
pub(super) struct Snapshots {
    isolation: Isolation,
    /// The statement's snapshot. READ COMMITTED and SERIALIZABLE read at it; REPEATABLE READ finds
    /// the rows to lock at it.
    statement: OpenSnapshot,
    /// Earlier snapshots of the statement, which hold the rows that it has read at them.
    renewed: Vec<OpenSnapshot>,
    /// The transaction's snapshot, under REPEATABLE READ, from its first consistent read on.
    transaction: OpenSnapshot,
    /// The transaction's snapshot was taken above visible_csn: the first read waits for it.
    unseen: bool,
    /// Newest commit of which the transaction has read a row under its lock. A snapshot taken later
    /// must not be older.
    read: Csn,
}

impl Snapshots {
    /// None so far, of a session at `isolation`.
    pub(super) fn new(list: &SnapshotList, isolation: Isolation) -> Snapshots {
        Snapshots {
            isolation,
            statement: OpenSnapshot::new(list),
            renewed: Vec::new(),
            transaction: OpenSnapshot::new(list),
            unseen: false,
            read: 0,
        }
    }

    /// The isolation level in force.
    pub(super) fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Sets the isolation level of snapshots not yet taken.
    pub(super) fn set_isolation(&mut self, isolation: Isolation) {
        self.isolation = isolation;
    }

    /// Whether one is open, which keeps purge off what the session looks at.
    pub(super) fn is_any_open(&self) -> bool {
        self.statement.csn.is_some() || self.transaction.csn.is_some()
    }

    /// Notes that the transaction has read a row of commit `csn` under its lock.
    pub(super) fn note_read(&mut self, csn: Csn) {
        self.read = self.read.max(csn);
    }

    /// The slots of the two snapshots in the pool's list.
    pub(super) fn slots(&self) -> [SlotId; 2] {
        [self.statement.slot, self.transaction.slot]
    }

    /// Returns the slots to the pool's list.
    pub(super) fn release(&self, list: &SnapshotList) {
        list.release_slot(self.statement.slot);
        list.release_slot(self.transaction.slot);
    }

    /// The statement's snapshot, taken now if there is none.
    pub(super) fn statement(&mut self, pool: &Pool) -> Csn {
        if let Some(csn) = self.statement.csn {
            return csn;
        }
        self.wait_for_read(pool);
        *self.statement.csn.insert(pool.snapshots.open(self.statement.slot, pool.now(), || pool.log.visible_csn()))
    }

    /// Has the statement's further reads take a new snapshot. What it has read stays valid.
    pub(super) fn renew_statement(&mut self, pool: &Pool) {
        if self.statement.csn.is_some() {
            let next = OpenSnapshot::new(&pool.snapshots);
            self.renewed.push(std::mem::replace(&mut self.statement, next));
        }
    }

    /// Waits until a new snapshot would see the rows that the transaction has locked: their commit
    /// may be durable but not visible yet. A commit that has to become visible waits for no lock,
    /// so this wait ends.
    fn wait_for_read(&self, pool: &Pool) {
        pool.log.wait_visible(self.read);
    }

    /// The transaction's snapshot, if it has taken one.
    pub(super) fn transaction(&self) -> Option<Csn> {
        self.transaction.csn
    }

    /// The snapshot that the transaction is bound to: from then on a row with a newer version is a
    /// conflict.
    pub(super) fn bound_to(&self) -> Option<Csn> {
        self.transaction().filter(|_| self.isolation == Isolation::RepeatableRead)
    }

    /// The snapshot of consistent reads, if it is taken.
    pub(super) fn reads_at(&self) -> Option<Csn> {
        if self.isolation.keeps_snapshot() { self.transaction.csn } else { self.statement.csn }
    }

    /// The snapshot at which rows to be locked are found: the one that the transaction is bound to,
    /// or the statement's.
    pub(super) fn for_locking(&mut self, pool: &Pool) -> Csn {
        match self.bound_to() {
            Some(_) => self.consistent(pool),
            None => self.statement(pool),
        }
    }

    /// The snapshot of consistent reads, taken now if there is none.
    pub(super) fn consistent(&mut self, pool: &Pool) -> Csn {
        if !self.isolation.keeps_snapshot() {
            return self.statement(pool);
        }
        if let Some(csn) = self.transaction.csn {
            // Planted: a snapshot ahead of what is visible is read at once.
            if std::mem::take(&mut self.unseen) && !perdura_pmem::planted(Mutant::SnapshotAheadOfVisible) {
                pool.log.wait_visible(csn);
            }
            return csn;
        }
        self.wait_for_read(pool);
        *self.transaction.csn.insert(pool.snapshots.open(self.transaction.slot, pool.now(), || pool.log.visible_csn()))
    }

    /// Takes the transaction's snapshot at the last CSN given out, unless it has one or keeps none.
    /// The first read waits until that CSN is visible.
    pub(super) fn take_ahead(&mut self, pool: &Pool) {
        if self.isolation.keeps_snapshot() && self.transaction.csn.is_none() {
            self.transaction.csn = Some(pool.snapshots.open(self.transaction.slot, pool.now(), || pool.log.last_csn()));
            self.unseen = true;
        }
    }

    /// Closes the statement's snapshots: purge may go past them.
    pub(super) fn close_statement(&mut self, pool: &Pool) {
        self.statement.close(&pool.snapshots);
        if !self.renewed.is_empty() {
            self.close_renewed(pool);
        }
    }

    #[cold]
    fn close_renewed(&mut self, pool: &Pool) {
        for earlier in self.renewed.drain(..) {
            pool.snapshots.release_slot(earlier.slot);
        }
    }

    /// Closes all snapshots, at the end of a transaction or after prepare.
    pub(super) fn close(&mut self, pool: &Pool) {
        self.close_statement(pool);
        self.transaction.close(&pool.snapshots);
        self.unseen = false;
        self.read = 0;
    }
}
