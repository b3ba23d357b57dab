//! How a transaction ends.
//!
//! Commit: versions fenced; log space reserved; CSN taken; record written and fenced; durable_csn waited for; directory words
//! published, flushed, fenced; visible_csn moved in order; acknowledged (I1, I4, I5). With two-phase commit the records are made
//! durable by [`Txn::prepare`], and [`Txn::commit_ordered`] only writes the commit record.

use crate::bulk::BulkInsert;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{RECORD_BYTES, Record};
use crate::purge::Superseded;
use crate::txn::{State, Txn};
use crate::writes::{MEMORY_KEPT, WriteSet};
use perdura_log::{Csn, LogTxn};
use std::sync::atomic::Ordering;

impl Txn {
    /// Commits. On return the transaction is durable and visible. On error it has been rolled back.
    pub fn commit(&mut self) -> Result<Csn> {
        if self.is_read_only() {
            let csn = self.engine.log.visible_csn();
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
        if self.engine.log.wait_durable(csn) {
            self.publish(csn);
            return Ok(csn);
        }
        // An earlier commit will never be durable: nothing may be published (I4); the next start decides.
        self.forget();
        self.engine.check_writable().map(|()| csn)
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
        self.close_snapshots();
        self.end_change();
        Ok(())
    }

    fn log_prepare(&mut self, xid: &[u8]) -> Result<()> {
        self.engine.check_writable()?;
        self.write_records()?;
        let log = self.log.as_mut().expect("write_records made it");
        Ok(log.prepare(xid, &self.records)?)
    }

    /// Gives a prepared transaction its place in the commit order and makes its commit durable. Cannot fail.
    /// [`Txn::commit`] does the rest. A transaction that wrote nothing gets the last CSN.
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
            _ => self.engine.log.last_csn(),
        }
    }

    fn order(&mut self) -> Result<Csn> {
        self.engine.check_writable()?;
        self.write_records()?;
        let log = self.log.as_mut().expect("write_records made it");
        let reservation = log.reserve(self.records.len())?;
        // Planted: the pages of a bulk insert are published before its record is durable.
        if perdura_pmem::planted(31) {
            self.bulk.iter().for_each(|bulk| bulk.publish(self.engine.log.last_csn()));
        }
        Ok(log.commit(reservation, &self.records))
    }

    /// Fences the versions, then gathers the redo records; what is more than one chunk goes to the log already.
    fn write_records(&mut self) -> Result<()> {
        for bulk in &mut self.bulk {
            bulk.settle();
        }
        self.skip_replaced()?;
        self.fence_writes();
        let log = match &mut self.log {
            Some(log) => log,
            slot => slot.insert(self.engine.log.begin(self.id)),
        };
        gather(&self.writes, &self.bulk, &mut self.records, log, self.engine.chunk_bytes)
    }

    /// Links rows written more than once to their committed version: own versions between are nobody's business, and soon free.
    fn skip_replaced(&mut self) -> Result<()> {
        // Planted: versions lead to own ones that are soon free.
        let skips =
            |write: &&crate::writes::Write| write.versions > 1 && !write.is_nothing() && !perdura_pmem::planted(37);
        for write in self.writes.entries().iter().filter(skips) {
            write.table.relink(write.head, write.rid, write.base)?;
            self.unfenced = true;
        }
        Ok(())
    }

    /// After all records up to the commit's are durable: publishes, waits until all of it is visible, acknowledges.
    fn publish(&mut self, csn: Csn) {
        // Planted: readers find no CSN in what was published.
        if !perdura_pmem::planted(33) {
            self.stamp(csn);
        }
        for write in self.writes.entries().iter().filter(|write| !write.is_nothing()) {
            let row = write.rid.row();
            write.table.directory.store(row, write.head);
            write.table.directory.flush(row);
        }
        for bulk in &mut self.bulk {
            bulk.collect_holes();
            bulk.publish(csn);
        }
        // Planted: said to be published before it is fenced.
        if perdura_pmem::planted(34) {
            self.engine.log.publish(csn);
        }
        self.engine.fence();
        self.engine.log.publish(csn);
        self.retire_versions(csn);
        for bulk in self.bulk.drain(..) {
            bulk.table().set_changed(self.engine.context.now());
            bulk.table().count_rows(bulk.rows());
            bulk.finish();
        }
        self.engine.counters.commits.fetch_add(1, Ordering::Relaxed);
        let log = self.log.take();
        self.release_locks();
        // Planted: acknowledged before it is visible.
        let _ = perdura_pmem::planted(35) || self.engine.log.wait_visible(csn);
        drop(log);
        self.reset();
    }

    /// Stores the CSN into the versions for readers of this run. Not flushed: after a restart nobody needs it.
    fn stamp(&self, csn: Csn) {
        let _unflushed = perdura_pmem::trace::span(perdura_pmem::trace::TRANSIENT);
        for write in self.writes.entries().iter().filter(|write| !write.is_nothing()) {
            if let Ok((region, at)) = write.table.locate(write.head) {
                region.store(at, csn);
            }
        }
    }

    /// Hands replaced versions to purge, frees those nobody but this transaction ever saw, and counts rows.
    fn retire_versions(&mut self, csn: Csn) {
        for (write, version) in self.writes.replaced() {
            write.table.free(version);
        }
        let now = self.engine.context.now();
        for write in self.writes.entries().iter().filter(|write| !write.void) {
            if write.is_nothing() {
                write.table.free(write.head);
                write.table.space.lock().put_rids([write.rid]);
                continue;
            }
            // Planted: what a commit replaced may go before the commit is covered.
            let csn = if perdura_pmem::planted(36) { csn - 1 } else { csn };
            write.table.set_changed(now);
            let was_row = !write.base.is_empty();
            write.table.count_rows(i64::from(!write.head.is_tombstone()) - i64::from(was_row));
            let mut superseded = write.table.superseded.lock();
            if was_row {
                superseded.push_back(Superseded { csn, rid: write.rid, word: write.base });
            }
            if write.head.is_tombstone() {
                superseded.push_back(Superseded { csn, rid: write.rid, word: write.head });
            }
        }
    }

    /// Rolls back, prepared or not.
    ///
    /// # Errors
    /// NotSupported after [`Txn::commit_ordered`]: the commit is durable and cannot be taken back. It stays to be completed by
    /// [`Txn::commit`], which others wait for.
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
            self.engine.log.fail_stop(&format!("a prepared transaction's rollback could not be logged: {error}"));
            // The log still names what it wrote: the next start finds it prepared.
            return self.forget();
        }
        if !self.is_read_only() {
            self.take_back();
            self.engine.counters.rollbacks.fetch_add(1, Ordering::Relaxed);
        }
        self.release_locks();
        self.reset();
    }

    /// Frees what the transaction wrote, and leaves no line of it dirty.
    fn take_back(&mut self) {
        self.undo_to(&crate::txn::Savepoint::default());
        self.fence_writes();
        for bulk in self.bulk.drain(..) {
            bulk.abandon();
        }
    }

    /// Leaves a prepared transaction to the pool: nothing is rolled back, nothing written.
    pub(crate) fn forget(&mut self) {
        self.log = None;
        self.bulk.clear();
        self.reset();
    }

    fn release_locks(&mut self) {
        self.engine.locks.unlock(&self.owner, self.locks.drain(..));
        self.locks.shrink_to(MEMORY_KEPT);
    }

    fn reset(&mut self) {
        self.release_locks();
        self.owner.end();
        self.close_snapshots();
        self.writes.clear();
        self.records.clear();
        self.xid.clear();
        self.taken_back = Vec::new();
        self.ended += 1;
        self.unfenced = false;
        self.state = State::Active;
        self.end_change();
        self.start_statement();
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        // The session ends: from here on nobody calls its client, not even while this waits.
        self.owner.set_client(None);
        match self.state {
            State::Prepared => self.engine.clone().keep_prepared(self),
            State::Ordered(_) => {
                // A pool that failed stop says so at the next call.
                let _ = self.commit();
            }
            State::Active => self.roll_back(),
        }
        self.engine.locks.leave(&self.owner);
        self.snapshots.release(&self.engine.snapshots);
    }
}

/// Encodes the records of a write set; chunks that are full go to the log.
fn gather(
    writes: &WriteSet,
    bulk: &[BulkInsert],
    records: &mut Vec<u8>,
    log: &mut LogTxn,
    chunk_bytes: usize,
) -> Result<()> {
    records.clear();
    let mut add = |record: Record| -> Result<()> {
        if records.len() + RECORD_BYTES > chunk_bytes {
            log.append_chunk(records)?;
            records.clear();
        }
        records.extend_from_slice(&record.encode());
        Ok(())
    };
    for write in writes.entries().iter().filter(|write| !write.is_nothing()) {
        let (_, _, header) = write.table.header(write.head, write.rid)?;
        add(Record::Row { table: write.table.id(), rid: write.rid, word: write.head, crc: header.crc })?;
    }
    for record in bulk.iter().flat_map(BulkInsert::records) {
        add(record)?;
    }
    Ok(())
}
