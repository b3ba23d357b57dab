//! How a transaction ends.
//!
//! Commit: versions fenced; log space reserved; CSN taken; record written and fenced; durable_csn waited for; directory words
//! published, flushed, fenced; visible_csn moved in order; acknowledged (I1, I4, I5). With two-phase commit the records are made
//! durable by [`Session::prepare`], and [`Session::commit_ordered`] only writes the commit record.

use super::session::{Session, State};
use crate::changes::write_set::Position;
use crate::error::{Error, ErrorKind, Result};
use crate::pool::prepared::Detached;
use perdura_log::Csn;
use std::sync::atomic::Ordering;

impl Session {
    /// Commits. On return the transaction is durable and visible. On error it has been rolled back.
    pub fn commit(&mut self) -> Result<Csn> {
        if self.is_read_only() {
            let csn = self.pool.log.visible_csn();
            self.reset();
            return Ok(csn);
        }
        self.begin_ending();
        let csn = match self.state {
            State::Ordered(csn) => csn,
            State::Prepared => self.commit_ordered(),
            State::Active => match self.order() {
                Ok(csn) => csn,
                Err(error) => {
                    self.roll_back();
                    return Err(error);
                }
            },
        };
        self.state = State::Ordered(csn);
        // Planted: publication before all earlier commits are durable; locks let go of before it.
        if perdura_pmem::planted(30) {
            self.publish(csn);
            return Ok(csn);
        }
        if perdura_pmem::planted(32) {
            self.release_locks();
        }
        if self.pool.log.wait_durable(csn) {
            self.publish(csn);
            return Ok(csn);
        }
        // An earlier commit will never be durable: nothing may be published (I4); the next start decides.
        self.forget();
        self.pool.check_writable().map(|()| csn)
    }

    /// Makes the transaction able to commit at any time, even after a crash, under the name `xid`.
    ///
    /// # Errors
    /// DeviceFull, LogFull, ReadOnlyPool; the transaction has then been rolled back: parts of it may be in the log already.
    pub fn prepare(&mut self, xid: &[u8]) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        let _span = perdura_pmem::trace::span("prepared");
        self.begin_ending();
        if let Err(error) = self.log_prepare(xid) {
            self.roll_back();
            return Err(error);
        }
        self.xid = xid.to_vec();
        self.state = State::Prepared;
        // It reads nothing any more, and may stay so for long: purge does not wait for it.
        self.snapshots.close(&self.pool);
        self.end_change();
        Ok(())
    }

    fn log_prepare(&mut self, xid: &[u8]) -> Result<()> {
        self.pool.check_writable()?;
        self.write_records()?;
        let log = self.log.as_mut().expect("write_records made it");
        Ok(log.prepare(xid, &self.records)?)
    }

    /// Gives a prepared transaction its place in the commit order and makes its commit durable. Cannot fail.
    /// [`Session::commit`] does the rest. A transaction that wrote nothing gets the last CSN.
    pub fn commit_ordered(&mut self) -> Csn {
        if self.state == State::Prepared {
            self.begin_ending();
        }
        match (self.state, self.log.as_mut()) {
            (State::Prepared, Some(log)) => {
                let csn = log.commit_prepared();
                self.state = State::Ordered(csn);
                csn
            }
            (State::Ordered(csn), _) => csn,
            _ => self.pool.log.last_csn(),
        }
    }

    fn order(&mut self) -> Result<Csn> {
        self.pool.check_writable()?;
        self.write_records()?;
        let log = self.log.as_mut().expect("write_records made it");
        let reservation = log.reserve(self.records.len())?;
        // Planted: the pages of a bulk insert are published before its record is durable.
        if perdura_pmem::planted(31) {
            self.writes.publish_pages(self.pool.log.last_csn());
        }
        Ok(log.commit(reservation, &self.records))
    }

    /// Fences the versions, then gathers the redo records; what is more than one chunk goes to the log already.
    fn write_records(&mut self) -> Result<()> {
        self.unfenced |= self.writes.settle()?;
        self.fence_writes();
        let log = match &mut self.log {
            Some(log) => log,
            slot => slot.insert(self.pool.log.begin(self.id)),
        };
        self.writes.log(&mut self.records, log, self.pool.chunk_bytes)
    }

    /// After all records up to the commit's are durable: publishes, waits until all of it is visible, acknowledges.
    fn publish(&mut self, csn: Csn) {
        // Planted: readers find no CSN in what was published.
        if !perdura_pmem::planted(33) {
            self.writes.stamp(csn);
        }
        self.writes.publish(csn);
        // Planted: said to be published before it is fenced.
        if perdura_pmem::planted(34) {
            self.pool.log.publish(csn);
        }
        self.pool.fence();
        self.pool.log.publish(csn);
        self.writes.retire(csn, self.pool.context.now());
        self.pool.counters.commits.fetch_add(1, Ordering::Relaxed);
        let log = self.log.take();
        self.release_locks();
        // Planted: acknowledged before it is visible.
        let _ = perdura_pmem::planted(35) || self.pool.log.wait_visible(csn);
        drop(log);
        self.reset();
    }

    /// Rolls back, prepared or not.
    ///
    /// # Errors
    /// NotSupported after [`Session::commit_ordered`]: the commit is durable and cannot be taken back. It stays to be completed by
    /// [`Session::commit`], which others wait for.
    pub fn rollback(&mut self) -> Result<()> {
        if let State::Ordered(csn) = self.state {
            let what =
                format!("commit {csn} is durable and cannot be rolled back; commit the transaction to complete it");
            return Err(Error::new(ErrorKind::NotSupported, what));
        }
        self.roll_back();
        Ok(())
    }

    /// Rolls back what was not ordered yet.
    fn roll_back(&mut self) {
        if !self.is_read_only() || self.log.is_some() {
            self.begin_ending();
        }
        // Planted: what a prepared transaction wrote is given away before the log forgets it.
        if perdura_pmem::planted(38) && !self.is_read_only() {
            self.take_back();
        }
        // The log forgets a prepared transaction first: what it wrote may be used again right after this (I8).
        if let Some(log) = self.log.take()
            && let Err(error) = log.rollback()
        {
            self.pool.log.fail_stop(&format!("a prepared transaction's rollback could not be logged: {error}"));
            // The log still names what it wrote: the next start finds it prepared.
            return self.forget();
        }
        if !self.is_read_only() {
            self.take_back();
            self.pool.counters.rollbacks.fetch_add(1, Ordering::Relaxed);
        }
        self.release_locks();
        self.reset();
    }

    /// Frees what the transaction wrote, and leaves no line of it dirty.
    fn take_back(&mut self) {
        self.writes.undo_to(&Position::default());
        self.fence_writes();
        self.writes.abandon();
    }

    /// Leaves a prepared transaction to the pool: nothing is rolled back, nothing written.
    fn forget(&mut self) {
        self.log = None;
        self.reset();
    }

    /// Leaves the prepared transaction to the pool, with its locks, until it is decided by name.
    fn detach(&mut self) {
        self.snapshots.release(&self.pool.snapshots);
        self.pool.prepared.add(Detached {
            xid: std::mem::take(&mut self.xid),
            writes: std::mem::take(&mut self.writes),
            log: self.log.take().expect("a prepared transaction has a prepare record"),
            owner: self.owner.clone(),
            locks: std::mem::take(&mut self.locks),
        });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The session ends: from here on nobody calls its client, not even while this waits.
        self.owner.set_client(None);
        match self.state {
            State::Prepared => return self.detach(),
            State::Ordered(_) => {
                // A pool that failed stop says so at the next call.
                let _ = self.commit();
            }
            State::Active => self.roll_back(),
        }
        self.pool.locks.leave(&self.owner);
        self.snapshots.release(&self.pool.snapshots);
    }
}
