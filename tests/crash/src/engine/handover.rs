//! Transactions that change threads between two statements, as in a server that serves many
//! connections with few threads. The thread that commits has flushed none of what it commits. Tests
//! (I3).

use super::workload::Worker;
use perdura_engine::Isolation;
use perdura_pmem::sync::yield_now;
use perdura_pmem::trace;

const LABEL: &str = "handed_over";

impl Worker<'_> {
    /// Begins a transaction, leaves it to another thread after a statement or two, and waits until
    /// that one has ended it. So no later fence of this thread covers what it has flushed.
    pub(super) fn hand_over(&mut self) {
        {
            let _label = trace::span(LABEL);
            let mut session = self.engine.session(Isolation::ReadCommitted);
            std::mem::swap(&mut self.txn, &mut session);
            self.txn.start_statement();
            let is_bulk = self.random.one_in(2);
            let going = if is_bulk { self.insert_some(66, 20) } else { self.insert_some(1, 4) && self.update_some(2) };
            self.txn.end_statement();
            if !going || (is_bulk || self.random.one_in(2)) && !self.edit_in_vain() {
                self.give_up();
            }
            std::mem::swap(&mut self.txn, &mut session);
            self.handover.leave((session, std::mem::take(&mut self.writes)));
        }
        while !self.handover.is_free() {
            yield_now();
        }
    }

    /// Changes the last rows of the transaction in a statement that is rolled back to a savepoint
    /// once it has ended. Returns whether the transaction can go on.
    fn edit_in_vain(&mut self) -> bool {
        let (savepoint, writes) = (self.txn.savepoint(), self.writes.clone());
        let last: Vec<_> = writes.inserted.iter().rev().take(3).map(|(key, rid)| (*key, *rid)).collect();
        self.txn.start_statement();
        let going = last.into_iter().all(|(key, rid)| {
            let row = (!self.random.one_in(3)).then(|| self.row(key, 20));
            self.change(key, rid, row)
        });
        self.txn.end_statement();
        self.txn.rollback_to(&savepoint).expect("set in this transaction");
        self.writes = writes;
        going
    }

    /// Takes the transaction over that another thread leaves, at times writes more, and commits.
    pub(super) fn take_over(&mut self) {
        let (mut session, writes) = loop {
            match self.handover.take() {
                Some(left) => break left,
                None => yield_now(),
            }
        };
        std::mem::swap(&mut self.txn, &mut session);
        self.writes = writes;
        self.transaction(LABEL, |worker| !worker.random.one_in(3) || worker.insert_some(1, 3));
        std::mem::swap(&mut self.txn, &mut session);
        self.handover.end();
    }
}
