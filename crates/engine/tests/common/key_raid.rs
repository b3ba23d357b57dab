//! Sessions that change and delete each other's rows and take each other's keys. Nothing of what
//! they commit may get lost, and at every snapshot the indexes have the keys of the rows.

use super::keyed::{Fields, Keyed, Rows, is_conflict};
use perdura_engine::{Engine, ErrorKind, Isolation, Rid, Session};
use perdura_pmem::sim::Random;
use perdura_pmem::sync::{Mutex, yield_now};
use std::collections::BTreeMap;

type Changes = BTreeMap<Rid, Option<Vec<u8>>>;

/// A table that all sessions write to, and what they have committed.
pub struct KeyRaid {
    /// The table of the raid.
    pub keyed: Keyed,
    /// Numbers from which keys are made: below it.
    bound: u64,
    known: Mutex<Vec<Rid>>,
    committed: Mutex<Vec<(u64, Changes)>>,
}

impl KeyRaid {
    /// A raid on an empty table.
    pub fn new(keyed: Keyed, bound: u64) -> KeyRaid {
        KeyRaid { keyed, bound, known: Mutex::default(), committed: Mutex::default() }
    }

    /// Runs transactions that insert rows and change anybody's. Returns how many keys were taken.
    pub fn take_part(&self, txn: &mut Session, transactions: u32, random: &mut Random) -> u32 {
        let mut taken = 0;
        for _ in 0..transactions {
            let mut changes = Changes::new();
            txn.start_statement();
            let steps = if random.one_in(12) { 60 } else { 1 + random.below(6) };
            let going = (0..steps).all(|_| self.step(txn, &mut changes, random, &mut taken));
            txn.end_statement();
            if !going || txn.is_read_only() || random.one_in(8) {
                txn.rollback().unwrap();
                continue;
            }
            let csn = txn.commit().unwrap_or_else(|error| panic!("{error}"));
            self.known.lock().extend(changes.iter().filter(|(_, row)| row.is_some()).map(|(rid, _)| *rid));
            self.committed.lock().push((csn, changes));
        }
        taken
    }

    /// Runs transactions that delete rows, those that came one after the other together.
    pub fn clear_out(&self, txn: &mut Session, transactions: u32, random: &mut Random) {
        for _ in 0..transactions {
            let some: Vec<Rid> = {
                let known = self.known.lock();
                let first = random.below(known.len().max(1) as u64) as usize;
                known.iter().skip(first).take(30).copied().collect()
            };
            let mut changes = Changes::new();
            txn.start_statement();
            let going = some.into_iter().all(|rid| match self.keyed.delete(txn, rid) {
                Ok(()) => changes.insert(rid, None).is_none(),
                Err(error) => error.kind() == ErrorKind::NotFound,
            });
            txn.end_statement();
            if !going || txn.is_read_only() {
                txn.rollback().unwrap();
                continue;
            }
            let csn = txn.commit().unwrap_or_else(|error| panic!("{error}"));
            self.committed.lock().push((csn, changes));
        }
    }

    fn pick(&self, random: &mut Random) -> Option<Rid> {
        let known = self.known.lock();
        let latest = &known[known.len().saturating_sub(150)..];
        latest.get(random.below(latest.len().max(1) as u64) as usize).copied()
    }

    /// One write. Returns whether the transaction can go on.
    fn step(&self, txn: &mut Session, changes: &mut Changes, random: &mut Random, taken: &mut u32) -> bool {
        let fields = Fields::random(random, self.bound);
        let rid = if random.one_in(3) { None } else { self.pick(random) };
        let row = (rid.is_none() || !random.one_in(3)).then(|| fields.row());
        let savepoint = random.one_in(8).then(|| (txn.savepoint(), changes.clone()));
        match self.keyed.put(txn, rid, row.as_deref()) {
            Ok(Some(rid)) => {
                changes.insert(rid, row);
            }
            Ok(None) => unreachable!("it was a row"),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) if error.kind() == ErrorKind::DuplicateKey => {
                let (index, holder) = txn.duplicate().expect("some row has the key");
                assert!(index < self.keyed.kinds.len() && Some(holder) != rid, "index {index} row {:#x}", holder.row());
                *taken += 1;
            }
            // Under many changes of one key its leaf has no room for more of them, until purge
            // comes round.
            Err(error) if is_conflict(&error) || error.kind() == ErrorKind::TableFull => return false,
            Err(error) => panic!("{error}"),
        }
        if let Some((savepoint, before)) = savepoint {
            txn.rollback_to(&savepoint).unwrap();
            *changes = before;
        }
        true
    }

    /// Compares the indexes with the table as one session sees them, twice at one snapshot.
    pub fn look(&self, engine: &Engine, random: &mut Random) {
        let repeatable = random.one_in(2);
        let mut txn = engine.session(if repeatable { Isolation::RepeatableRead } else { Isolation::ReadCommitted });
        txn.start_statement();
        // Either of the two may take the snapshot.
        if random.one_in(2) {
            txn.take_snapshot();
        }
        let rows = self.keyed.check_seen(&mut txn, "a reader");
        if repeatable {
            txn.end_statement();
            (0..random.below(20)).for_each(|_| yield_now());
            txn.start_statement();
            assert!(rows == self.keyed.check_seen(&mut txn, "a reader, again"), "a snapshot moved");
        }
        self.keyed.find_all(&mut txn, &rows, perdura_engine::ReadView::Snapshot, "a reader");
        txn.end_statement();
    }

    /// Compares table and indexes with what was committed, once nobody writes any more.
    pub fn check(&self, engine: &Engine) {
        let mut committed = std::mem::take(&mut *self.committed.lock());
        committed.sort_by_key(|(csn, _)| *csn);
        let mut expected = Rows::new();
        for (rid, row) in committed.into_iter().flat_map(|(_, changes)| changes) {
            match row {
                Some(row) => expected.insert(rid, row),
                None => expected.remove(&rid),
            };
        }
        let found = self.keyed.check(engine);
        let text = |row: Option<&Vec<u8>>| row.map(|row| Fields::of_row(row));
        for rid in expected.keys().chain(found.keys()) {
            let (wanted, seen) = (text(expected.get(rid)), text(found.get(rid)));
            assert_eq!(wanted, seen, "row {:#x}: wanted, seen", rid.to_u64());
        }
    }
}
