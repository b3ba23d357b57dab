//! Sessions that change and delete each other's rows. The rows left at the end must follow from
//! what each session committed, in CSN order.

use super::try_rows;
use perdura_engine::{Engine, Error, ErrorKind, Isolation, Rid, Session, Table};
use perdura_pmem::sim::Random;
use perdura_pmem::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

type Changes = BTreeMap<Rid, Option<Vec<u8>>>;

/// A table that all sessions write to, and what they have committed.
pub struct Raid {
    /// The table of the raid.
    pub table: Arc<Table>,
    /// RIDs of all rows ever inserted, deleted ones included: nobody may find another row under
    /// them.
    known: Mutex<Vec<Rid>>,
    committed: Mutex<Vec<(u64, Changes)>>,
}

impl Raid {
    /// A raid on an empty table.
    pub fn new(table: Arc<Table>) -> Raid {
        Raid { table, known: Mutex::default(), committed: Mutex::default() }
    }

    /// Runs transactions that insert rows and change anybody's.
    pub fn take_part(&self, txn: &mut Session, session: u32, transactions: u32, random: &mut Random) {
        for number in 0..transactions {
            txn.start_statement();
            let mut changes = Changes::new();
            let (mut row, inserts) = (number * 1000, if random.one_in(8) { 80 } else { random.below(4) });
            let mut next = |random: &mut Random| {
                row += 1;
                format!("{session} {row:07} {}", "-".repeat(random.below(60) as usize)).into_bytes()
            };
            for _ in 0..inserts {
                let row = next(random);
                let rid = txn.insert(&self.table, &row).unwrap();
                assert!(changes.insert(rid, Some(row)).is_none(), "a RID given twice in one transaction");
            }
            let going = (0..random.below(5)).all(|_| {
                let Some(rid) = self.pick(random) else { return true };
                let row = (!random.one_in(3)).then(|| next(random));
                self.change(txn, rid, row, &mut changes)
            });
            if !going || txn.is_read_only() || random.one_in(8) {
                txn.rollback().unwrap();
                continue;
            }
            let csn = txn.commit().unwrap_or_else(|error| panic!("{error}"));
            self.known.lock().extend(changes.iter().filter(|(_, row)| row.is_some()).map(|(rid, _)| *rid));
            self.committed.lock().push((csn, changes));
        }
    }

    fn pick(&self, random: &mut Random) -> Option<Rid> {
        let known = self.known.lock();
        let latest = &known[known.len().saturating_sub(100)..];
        latest.get(random.below(latest.len().max(1) as u64) as usize).copied()
    }

    /// Changes or deletes a row. Returns whether the transaction can go on.
    fn change(&self, txn: &mut Session, rid: Rid, row: Option<Vec<u8>>, changes: &mut Changes) -> bool {
        let outcome = match &row {
            Some(row) => txn.update(&self.table, rid, row),
            None => txn.delete(&self.table, rid),
        };
        match outcome.map_err(|error: Error| (error.kind(), error)) {
            Ok(()) => {
                changes.insert(rid, row);
                true
            }
            Err((ErrorKind::NotFound, _)) => true,
            Err((ErrorKind::Deadlock | ErrorKind::LockWaitTimeout | ErrorKind::RecordChanged, _)) => false,
            Err((_, error)) => panic!("a change of row {:#x}: {error}", rid.to_u64()),
        }
    }

    /// Compares the table with what was committed, once nobody writes any more.
    pub fn check(&self, engine: &Engine) {
        let mut committed = std::mem::take(&mut *self.committed.lock());
        committed.sort_by_key(|(csn, _)| *csn);
        let mut expected = BTreeMap::new();
        for (rid, row) in committed.into_iter().flat_map(|(_, changes)| changes) {
            match row {
                Some(row) => expected.insert(rid, row),
                None => expected.remove(&rid),
            };
        }
        let mut txn = engine.session(Isolation::ReadCommitted);
        let found: BTreeMap<_, _> = try_rows(&mut txn, &self.table).unwrap().into_iter().collect();
        for rid in expected.keys().chain(found.keys()) {
            let text =
                |rows: &BTreeMap<Rid, Vec<u8>>| rows.get(rid).map(|row| String::from_utf8_lossy(row).into_owned());
            let (wanted, seen) = (text(&expected), text(&found));
            assert_eq!(wanted, seen, "row {:#x}: wanted, seen", rid.to_u64());
        }
    }
}
