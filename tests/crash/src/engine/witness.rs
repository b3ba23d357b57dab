//! Transactions that watch the engine from inside a scenario: they lock, hold a snapshot over many
//! commits, or change the rows that their own scan is about to reach.

use super::history::{Key, key_of, stamp_of};
use super::old_snapshot::OldSnapshot;
use super::workload::{Worker, is_conflict};
use perdura_engine::{Isolation, LockMode, ReadView, Rid};
use perdura_pmem::{sync, trace};
use std::collections::BTreeSet;

impl Worker<'_> {
    /// Takes a snapshot to be held over the next transactions; the next time looks at it again, and
    /// often lets it go.
    pub(super) fn watch(&mut self) {
        match &mut self.old {
            None => self.old = Some(OldSnapshot::take(&self.engine, &self.table)),
            Some(old) => {
                old.look_again(&self.table, &mut self.random);
                if self.random.one_in(2) {
                    self.old = None;
                }
            }
        }
    }

    /// A transaction that locks rows, some of them from a commit that has not returned yet, and
    /// writes nothing.
    pub(super) fn lock_some(&mut self) {
        let _label = trace::span("locks");
        self.txn.start_statement();
        let mut locked = Vec::new();
        for _ in 0..1 + self.random.below(4) {
            let found = if self.random.one_in(2) { self.newest_row() } else { self.any_row() };
            let Some((_, rid)) = found else { continue };
            let mode = if self.random.one_in(3) { LockMode::Shared } else { LockMode::Exclusive };
            match self.txn.locks().lock_row(&self.table, rid, mode) {
                Ok(outcome) => locked.push((rid, outcome)),
                Err(error) if is_conflict(&error) => break,
                Err(error) => panic!("a lock of row {:#x}: {error}", rid.to_u64()),
            }
        }
        if self.txn.isolation() == Isolation::ReadCommitted {
            let seen: Vec<_> = locked.iter().map(|(rid, _)| self.newest(*rid)).collect();
            for _ in 0..self.random.below(30) {
                sync::yield_now();
            }
            for ((rid, outcome), before) in locked.iter().zip(seen) {
                let now = self.newest(*rid);
                assert!(
                    now == before,
                    "row {:#x} changed under a lock ({outcome:?}): {before:?}, now {now:?}",
                    rid.to_u64()
                );
            }
        }
        if self.random.one_in(2) {
            self.txn.commit().expect("a transaction without writes");
        } else {
            self.give_up();
        }
    }

    /// The newest committed version of a row that the transaction has locked.
    fn newest(&mut self, rid: Rid) -> Option<Vec<u8>> {
        let found = self.txn.read(&self.table, rid, ReadView::Newest);
        let found = found.unwrap_or_else(|error| panic!("row {:#x} under its lock: {error}", rid.to_u64()));
        // SAFETY: the statement is not over.
        found.map(|row| unsafe { row.bytes() }.to_vec())
    }

    /// Scans, and changes, deletes or inserts a row at many steps of the scan. The scan must see
    /// the rows as they were when it began, each once. Returns whether the transaction can go on.
    pub(super) fn change_while_scanning(&mut self) -> bool {
        if self.random.one_in(2) {
            self.insert_some(1, 70);
        }
        let (known, table) = (self.writes.clone(), self.table.clone());
        let mut met = BTreeSet::<Key>::new();
        let mut scan = self.txn.scan(&table);
        while let Some((rid, row)) = scan.next(&self.txn).unwrap_or_else(|error| panic!("a scan: {error}")) {
            // SAFETY: the statement is not over.
            let row = unsafe { row.bytes() };
            let (key, stamp) = (key_of(row), stamp_of(row));
            assert!(met.insert(key), "a scan met key {key:#x} twice");
            match known.rows.get(&key) {
                Some(own) => assert!(own.as_deref() == Some(row), "a scan saw a later state of own key {key:#x}"),
                None => {
                    let later = self.writes.rows.get(&key).is_some_and(|own| own.as_deref() == Some(row));
                    assert!(!later, "a scan saw its own change of key {key:#x}, stamp {stamp}");
                }
            }
            if self.random.one_in(6) && !self.change_one(key, rid) {
                return false;
            }
        }
        let missed = known.rows.iter().find(|(key, row)| row.is_some() && !met.contains(key));
        assert!(missed.is_none(), "a scan missed own key {:#x}", missed.map_or(0, |(key, _)| *key));
        true
    }

    /// Inserts a row, or changes this one or one that the transaction has written already.
    pub(super) fn change_one(&mut self, key: Key, rid: Rid) -> bool {
        let own = self.writes.inserted.iter().next_back().map(|(key, rid)| (*key, *rid));
        let own = own.filter(|(key, _)| self.writes.rows.get(key).is_some_and(Option::is_some));
        let pick = self.random.below(4);
        let (key, rid) = if pick == 0 { own.unwrap_or((key, rid)) } else { (key, rid) };
        let row = self.row(key, 12);
        match pick {
            1 => self.insert_some(1, 2),
            2 => self.change(key, rid, None),
            _ => self.change(key, rid, Some(row)),
        }
    }
}
