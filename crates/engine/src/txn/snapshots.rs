//! The snapshots a session holds.

use super::isolation::Isolation;
use crate::pool::Pool;
use crate::pool::snapshot_list::{SlotId, SnapshotList};
use perdura_log::Csn;

/// One snapshot a transaction may hold: its slot in the pool's list, and what it reads at while it is open.
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

/// The snapshots of a transaction. One of them is at or below whatever it reads, so purge does not free that.
pub struct OpenSnapshots {
    /// Of the statement: under READ COMMITTED what it reads; under REPEATABLE READ where it finds the rows that it locks.
    statement: OpenSnapshot,
    /// Of the transaction, under REPEATABLE READ, from its first consistent read on.
    transaction: OpenSnapshot,
    /// The transaction's is above what was visible when it was taken: the first read waits for it.
    unseen: bool,
    /// Newest commit whose rows the transaction has locked and seen. A snapshot taken later must not be older.
    met: Csn,
}

impl OpenSnapshots {
    pub fn new(list: &SnapshotList) -> OpenSnapshots {
        OpenSnapshots {
            statement: OpenSnapshot::new(list),
            transaction: OpenSnapshot::new(list),
            unseen: false,
            met: 0,
        }
    }

    /// Notes that the transaction has read a row of commit `csn` under its lock.
    pub fn has_met(&mut self, csn: Csn) {
        self.met = self.met.max(csn);
    }

    /// Gives the slots back.
    pub fn release(&self, list: &SnapshotList) {
        list.release_slot(self.statement.slot);
        list.release_slot(self.transaction.slot);
    }

    /// The snapshot of this statement, taken now if there is none.
    pub fn statement(&mut self, pool: &Pool) -> Csn {
        if let Some(csn) = self.statement.csn {
            return csn;
        }
        self.wait_for_met(pool);
        *self.statement.csn.insert(pool.snapshots.open(self.statement.slot, || pool.log.visible_csn()))
    }

    /// Waits until a snapshot sees the rows that the transaction has locked: they may be of a commit that is durable and not
    /// visible yet. Whoever is to make that visible waits for nobody's locks.
    fn wait_for_met(&self, pool: &Pool) {
        pool.log.wait_visible(self.met);
    }

    /// The snapshot of the transaction, if it has taken one.
    pub fn transaction(&self) -> Option<Csn> {
        self.transaction.csn
    }

    /// The snapshot consistent reads see, taken now if there is none.
    pub fn consistent(&mut self, pool: &Pool, isolation: Isolation) -> Csn {
        if isolation == Isolation::ReadCommitted {
            return self.statement(pool);
        }
        if let Some(csn) = self.transaction.csn {
            // Planted: a snapshot ahead of what is visible is read at once.
            if std::mem::take(&mut self.unseen) && !perdura_pmem::planted(57) {
                pool.log.wait_visible(csn);
            }
            return csn;
        }
        self.wait_for_met(pool);
        *self.transaction.csn.insert(pool.snapshots.open(self.transaction.slot, || pool.log.visible_csn()))
    }

    /// Takes the transaction's snapshot, unless it has one, at the last CSN given out; the first read waits until all of it is
    /// visible.
    pub fn take_ahead(&mut self, pool: &Pool) {
        if self.transaction.csn.is_none() {
            self.transaction.csn = Some(pool.snapshots.open(self.transaction.slot, || pool.log.last_csn()));
            self.unseen = true;
        }
    }

    /// Closes the statement's snapshot.
    pub fn close_statement(&mut self, pool: &Pool) {
        self.statement.close(&pool.snapshots);
    }

    /// Closes both.
    pub fn close(&mut self, pool: &Pool) {
        self.close_statement(pool);
        self.transaction.close(&pool.snapshots);
        self.unseen = false;
        self.met = 0;
    }
}
