//! Transactions that only tables with indexes see: keys that change hands, and walks over an index
//! whose entries change meanwhile.

use super::history::{Key, key_of};
use super::keys;
use super::workload::{Worker, is_conflict, is_refusal};
use perdura_engine::{Direction, ErrorKind, ReadView, Rid};
use std::ops::Bound;

impl Worker<'_> {
    /// Takes keys from rows and gives them to new ones, and takes them back at times. Returns
    /// whether the transaction can go on.
    pub(super) fn move_keys(&mut self) -> bool {
        for _ in 0..1 + self.random.below(3) {
            let Some((key, rid)) = self.any_row() else { continue };
            let row = match keys::newest(&mut self.txn, &self.table, rid) {
                Ok(Some(row)) => row,
                Ok(None) => continue,
                Err(error) if is_conflict(&error) => return false,
                Err(error) => panic!("row {:#x} is locked for its keys: {error}", rid.to_u64()),
            };
            let Some(number) = keys::common_number(&row) else { continue };
            if !self.change(key, rid, None) {
                return false;
            }
            if !self.insert_numbered(number) {
                return false;
            }
        }
        true
    }

    /// Inserts a row with that unique key, which is free. Returns whether the transaction can go
    /// on.
    fn insert_numbered(&mut self, number: u64) -> bool {
        let key = self.next_key();
        let row = self.numbered_row(key, number);
        match keys::insert(&mut self.txn, &self.table, &row) {
            Ok(rid) => {
                self.writes.rows.insert(key, Some(row));
                self.writes.inserted.insert(key, rid);
                true
            }
            Err(error) if error.kind() == ErrorKind::DuplicateKey => {
                let holder = self.txn.duplicate().map(|(index, rid)| (index, rid.to_u64()));
                panic!("key {number} was deleted by this transaction and is taken by {holder:x?}")
            }
            Err(error) if is_refusal(&error) || error.kind() == ErrorKind::DeviceFull => false,
            Err(error) => panic!("an insert: {error}"),
        }
    }

    /// Walks over an index, and changes, deletes or inserts a row at many steps. The walk must meet
    /// the entries as they were when it began, each once, also if it turns. Returns whether the
    /// transaction can go on.
    pub(super) fn change_while_walking(&mut self) -> bool {
        let table = self.table.clone();
        let index = self.random.below(table.indexes() as u64) as usize;
        let mut directions = [Direction::Forward, Direction::Backward];
        if self.random.one_in(2) {
            directions.reverse();
        }
        let [direction, back] = directions;
        let rows = self.seen_rows();
        let key_of_row = |rid: Rid| rows.iter().find(|(other, _)| *other == rid).map(|(_, row)| key_of(row));
        let mut expected = keys::expected(index, &rows);
        if direction == Direction::Backward {
            expected.reverse();
        }
        let mut scan = self.txn.index(&table, index).scan(ReadView::Snapshot);
        scan.seek(&self.txn, Bound::Unbounded, direction).unwrap_or_else(|error| panic!("a seek: {error}"));
        let mut place = 0;
        let mut turned = false;
        loop {
            turned = place > 1 && !turned && self.random.one_in(5);
            place -= if turned { 2 } else { 0 };
            let found = keys::step(&mut scan, &self.txn, if turned { back } else { direction });
            let found = found.unwrap_or_else(|error| panic!("a walk over index {index}: {error}"));
            let found = found.map(|rid| (scan.key().to_vec(), rid));
            assert!(
                found.as_ref() == expected.get(place),
                "a walk over index {index} met row {:x?} as entry {place} instead of {:x?}",
                found.map(|(_, rid)| rid.to_u64()),
                expected.get(place).map(|(_, rid)| rid.to_u64())
            );
            let Some((_, rid)) = found else { return true };
            place += 1;
            let read = self.txn.read(&table, rid, ReadView::Snapshot).unwrap_or_else(|error| panic!("a read: {error}"));
            // SAFETY: the statement is not over.
            let read = read.map(|row| (rid.to_u64(), unsafe { row.bytes() }.to_vec()));
            let met = keys::row_of(&mut scan, &mut self.txn).unwrap_or_else(|error| panic!("a row: {error}"));
            assert!(met == read, "a walk over index {index} met row {:x} with other bytes", rid.to_u64());
            let key: Option<Key> = key_of_row(rid);
            if self.random.one_in(6) && !self.change_one(key.expect("it is one of the rows"), rid) {
                return false;
            }
        }
    }
}
