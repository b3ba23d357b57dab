//! The end of a transaction: commit, prepare, rollback.
//!
//! A commit fences its versions, unless its record carries them, reserves log space, takes a CSN,
//! writes and fences its record, and waits for durable_csn. Then one store makes it visible, in
//! order; it stores its directory words, moves stored_csn, and acknowledges (I1, I4, I5). The words
//! are flushed before a checkpoint goes past them (`changes/deferred_flush.rs`). In two-phase
//! commit [`Session::prepare`] makes the redo records durable, and [`Session::commit_ordered`]
//! writes only the commit record.

use super::{Session, State};
use crate::error::{Error, ErrorKind, Result};
use crate::files::context::RedoForm;
use crate::pool::owner::Stage;
use crate::pool::prepared::Detached;
use perdura_log::Csn;
use perdura_pmem::Mutant;
use std::sync::atomic::Ordering;

impl Session {
    /// Commits the transaction: on return it is durable and visible. A transaction that wrote
    /// nothing gets the visible CSN.
    ///
    /// # Errors
    /// DeviceFull, LogFull, ReadOnlyPool. The transaction has been rolled back, with one exception:
    /// if the pool failed stop while an earlier commit was not durable yet, the next start decides
    /// the outcome.
    pub fn commit(&mut self) -> Result<Csn> {
        if self.is_read_only() {
            let csn = self.pool.log.visible_csn();
            self.writes.abandon();
            self.release_locks();
            self.reset();
            return Ok(csn);
        }
        self.owner.note_stage(Stage::Committing);
        self.begin_ending();
        let csn = match self.state {
            State::Ordered(csn) | State::Visible(csn) => csn,
            State::Prepared => self.commit_ordered(),
            State::Active => match self.order() {
                Ok(csn) => csn,
                Err(error) => {
                    self.roll_back();
                    return Err(error);
                }
            },
        };
        if self.state != State::Visible(csn) {
            self.state = State::Ordered(csn);
        }
        // Planted: a commit is published before all earlier ones are durable; its locks are
        // released before publication.
        if perdura_pmem::planted(Mutant::PublishBeforeEarlierDurable) {
            self.publish(csn);
            return Ok(csn);
        }
        if perdura_pmem::planted(Mutant::UnlockBeforePublication) {
            self.writes.commit(csn);
        }
        if self.pool.log.wait_durable(csn) {
            self.publish(csn);
            return Ok(csn);
        }
        // An earlier commit will never be durable, so nothing may be published (I4). The next start
        // decides.
        self.forget();
        self.pool.check_writable().map(|()| csn)
    }

    /// Prepares the transaction under the name `xid`, of up to 1024 bytes: from now on it can be
    /// committed at any time, even after a crash. A transaction that wrote nothing is not prepared.
    /// Nobody checks that the name is not taken.
    ///
    /// # Errors
    /// DeviceFull, LogFull, ReadOnlyPool. The transaction has then been rolled back, since parts of
    /// it may be in the log already. NotSupported, without any effect, if it is prepared already.
    pub fn prepare(&mut self, xid: &[u8]) -> Result<()> {
        if self.is_read_only() {
            return Ok(());
        }
        if self.state != State::Active {
            let what = "the transaction is prepared already; commit it or roll it back";
            return Err(Error::new(ErrorKind::NotSupported, what));
        }
        let _span = perdura_pmem::trace::span("prepared");
        self.begin_ending();
        if let Err(error) = self.log_prepare(xid) {
            self.roll_back();
            return Err(error);
        }
        self.state = State::Prepared;
        self.owner.note_stage(Stage::Prepared);
        // A prepared transaction reads no more and may stay for long: it must not hold purge back.
        self.snapshots.close(&self.pool);
        self.change.end(&self.pool, self.id);
        Ok(())
    }

    fn log_prepare(&mut self, xid: &[u8]) -> Result<()> {
        self.pool.check_writable()?;
        self.gather_records()?;
        self.pool.wait_published()?;
        self.redo.prepare(xid)
    }

    /// Gives a prepared transaction its place in the commit order and fences its commit record; on
    /// a disk another thread's write may do that in its time. It cannot fail (I5).
    /// [`Session::commit`] publishes and acknowledges. A transaction that is not prepared gets the
    /// last CSN given out.
    pub fn commit_ordered(&mut self) -> Csn {
        if self.state == State::Prepared {
            self.begin_ending();
        }
        match self.state {
            State::Prepared => {
                self.redo.share_publication(&self.writes);
                let csn = self.redo.commit_prepared();
                self.state = State::Ordered(csn);
                csn
            }
            State::Ordered(csn) | State::Visible(csn) => csn,
            State::Active => self.pool.log.last_csn(),
        }
    }

    /// Makes an ordered transaction visible, if all earlier commits are durable;
    /// [`Session::commit`] does the rest and acknowledges. If the thread that orders a group calls
    /// it for each, their own threads need not wait for each other. Until [`Session::commit`]
    /// others may find a lock held that somebody had to wait for.
    pub fn show_ordered(&mut self) {
        if let State::Ordered(csn) = self.state
            && self.pool.log.durable_csn() >= csn
        {
            self.show(csn);
        }
    }

    fn order(&mut self) -> Result<Csn> {
        self.pool.check_writable()?;
        self.gather_records()?;
        self.pool.wait_published()?;
        self.redo.share_publication(&self.writes);
        let (writes, log) = (&mut self.writes, &self.pool.log);
        self.redo.commit(|| {
            // Planted: the transaction is visible before its record is durable.
            if perdura_pmem::planted(Mutant::BulkPagePublishedBeforeRecord) {
                writes.commit(log.last_csn());
            }
        })
    }

    /// Gathers the redo records. Unless they carry what is written, that is fenced before (I3).
    fn gather_records(&mut self) -> Result<()> {
        self.writes.settle();
        // A log is bounded, however long a transaction is: spilled words are logged by reference.
        if self.writes.logged() > self.pool.logged_at_most {
            self.writes.spill(0)?;
        }
        let form = self.pool.context.redo_form;
        if form.is_by_value() {
            if self.writes.is_small(self.pool.value_bytes_max) {
                // Planted: nobody flushes what a record carries before a checkpoint goes past it.
                let is_unflushed = perdura_pmem::planted(Mutant::ValuesUnflushedWithRecord);
                let form = if is_unflushed { RedoForm::UnflushedValues } else { form };
                return self.redo.gather(&self.pool, self.id, &self.writes, form);
            }
            self.writes.flush_waiting();
        }
        // Planted: what a large transaction has written is left to the fence of its record.
        if !form.is_by_value() || !perdura_pmem::planted(Mutant::LargeTransactionUnfenced) {
            self.fence_writes(true);
        }
        self.redo.gather(&self.pool, self.id, &self.writes, RedoForm::Checksums)
    }

    /// Makes the transaction visible by one store, once durable_csn covers it, unless the thread
    /// that wrote the commit record does.
    fn show(&mut self, csn: Csn) {
        if self.writes.commit_first(csn) {
            self.pool.log.publish(csn);
        }
        self.state = State::Visible(csn);
    }

    /// Publishes the transaction, once durable_csn covers it: it is visible, and its locks are
    /// free, so nobody waits for what follows. Then it stores its words page by page, and hands
    /// replaced versions to purge.
    fn publish(&mut self, csn: Csn) {
        let moves = self.writes.moves();
        if self.state != State::Visible(csn) {
            self.show(csn);
        }
        self.release_locks();
        self.writes.publish(csn, &self.pool.deferred);
        self.pool.log.stored(csn);
        self.writes.retire(self.pool.now().as_secs());
        let log = self.redo.take();
        // A move is no commit of a client, and is acknowledged to nobody.
        if !moves {
            self.pool.counters.commits.fetch_add(1, Ordering::Relaxed);
            // Planted: a commit is acknowledged before it is visible.
            let _ = perdura_pmem::planted(Mutant::AckBeforeVisible) || self.pool.log.wait_visible(csn);
        }
        drop(log);
        self.reset();
    }

    /// Rolls the transaction back, prepared or not.
    ///
    /// # Errors
    /// NotSupported after [`Session::commit_ordered`]: the commit is durable. [`Session::commit`]
    /// must complete it, since later commits wait for it.
    pub fn rollback(&mut self) -> Result<()> {
        if let State::Ordered(csn) | State::Visible(csn) = self.state {
            let what =
                format!("commit {csn} is durable and cannot be rolled back; commit the transaction to complete it");
            return Err(Error::new(ErrorKind::NotSupported, what));
        }
        self.roll_back();
        Ok(())
    }

    /// Rolls back a transaction that has no CSN yet.
    fn roll_back(&mut self) {
        if !self.is_read_only() || self.redo.is_begun() {
            self.owner.note_stage(Stage::RollingBack);
            self.begin_ending();
        }
        // Planted: what a prepared transaction wrote is freed before the log forgets the
        // transaction.
        if perdura_pmem::planted(Mutant::PreparedCellsFreedEarly) && !self.is_read_only() {
            self.undo_all();
        }
        // The log forgets a prepared transaction first: others may reuse what it wrote right after
        // this (I8).
        if let Some(log) = self.redo.take()
            && let Err(error) = log.rollback()
        {
            self.pool.log.fail_stop(&format!("a prepared transaction's rollback could not be logged: {error}"));
            // The log still names what it wrote, so the next start finds it prepared.
            return self.forget();
        }
        if !self.is_read_only() {
            self.undo_all();
            if !self.writes.moves() {
                self.pool.counters.rollbacks.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.release_locks();
        self.reset();
    }

    /// Frees what the transaction wrote. Every line of it is flushed and fenced, so none is written
    /// back later.
    fn undo_all(&mut self) {
        self.fence_writes(false);
        self.writes.abandon();
    }

    /// Ends the transaction without publishing or rolling back: the next start decides it.
    fn forget(&mut self) {
        drop(self.redo.take());
        self.writes.forget();
        self.release_locks();
        self.reset();
    }

    /// Releases all locks.
    fn release_locks(&mut self) {
        let tabled = self.writes.known_writer().map(|writer| writer.release_tabled()).unwrap_or_default();
        self.held.release(&self.pool.locks, &self.owner, tabled);
    }

    /// Ends the transaction, whose locks are released: snapshots, write set and change. The session
    /// is then ready for its next one.
    fn reset(&mut self) {
        self.writes.abandon();
        self.owner.end();
        self.snapshots.close(&self.pool);
        self.writes.clear();
        self.redo.clear();
        self.savepoints.end_transaction();
        self.state = State::Active;
        self.change.end(&self.pool, self.id);
        self.start_statement();
    }

    /// Gives the slots of the snapshots back, of which reports know by the owner.
    fn release_snapshots(&self) {
        self.owner.set_slots(None);
        self.snapshots.release(&self.pool.snapshots);
    }

    /// Moves the prepared transaction, with its locks, to the pool's list until it is decided by
    /// name.
    fn detach(&mut self) {
        // A write that it refused may have begun one, which nobody else would end.
        self.change.end(&self.pool, self.id);
        self.release_snapshots();
        self.pool.prepared.add(Detached {
            xid: self.redo.take_xid(),
            writes: std::mem::take(&mut self.writes),
            log: self.redo.take().expect("a prepared transaction has a prepare record"),
            owner: self.owner.clone(),
            held: std::mem::take(&mut self.held),
        });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Nobody calls the client of a session that ends, not even while this waits.
        self.owner.set_client(None);
        match self.state {
            State::Prepared => return self.detach(),
            State::Ordered(_) | State::Visible(_) => {
                // If the pool failed stop, the next call on it reports that.
                let _ = self.commit();
            }
            State::Active => self.roll_back(),
        }
        self.pool.locks.leave(&self.owner);
        self.release_snapshots();
    }
}
