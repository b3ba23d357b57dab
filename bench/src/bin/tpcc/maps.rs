//! The peer: ordered maps of the standard library in DRAM, rows changed where they lie. No log, no
//! concurrency, and nothing is taken back.

use crate::database::{Conflict, Database, Tried};
use crate::keys::{self, Name};
use crate::rows::{Row, Tables};

/// The tables, with one user.
#[derive(Default)]
pub struct Maps {
    tables: Tables,
}

impl Database for Maps {
    const TAKES_BACK: bool = false;

    fn read<R: Row>(&mut self, keys: &[u64], mut visit: impl FnMut(usize, Option<&R>)) -> Tried<()> {
        let map = R::map(&self.tables);
        keys.iter().enumerate().for_each(|(number, key)| visit(number, map.get(key)));
        Ok(())
    }

    fn read_range<R: Row>(&mut self, from: u64, to: u64, visit: impl FnMut(&R)) -> Tried<()> {
        R::map(&self.tables).range(from..to).map(|(_, row)| row).for_each(visit);
        Ok(())
    }

    fn each<R: Row>(&mut self, visit: impl FnMut(&R)) {
        R::map(&self.tables).values().for_each(visit);
    }

    fn change<R: Row, T>(&mut self, key: u64, edit: impl FnOnce(&mut R) -> T) -> Tried<T> {
        R::map_mut(&mut self.tables).get_mut(&key).map(edit).ok_or(Conflict)
    }

    fn change_range<R: Row>(&mut self, from: u64, to: u64, edit: impl FnMut(&mut R)) -> Tried<()> {
        R::map_mut(&mut self.tables).range_mut(from..to).map(|(_, row)| row).for_each(edit);
        Ok(())
    }

    fn insert<R: Row>(&mut self, row: R) -> Tried<()> {
        row.enter(&mut self.tables);
        let map = R::map_mut(&mut self.tables);
        let key = if R::INDEXES == 0 { map.len() as u64 } else { row.key() };
        let before = map.insert(key, row);
        assert!(before.is_none(), "the key {key:#x} is new");
        Ok(())
    }

    fn remove<R: Row>(&mut self, key: u64) -> Tried<()> {
        R::map_mut(&mut self.tables).remove(&key).map(drop).ok_or(Conflict)
    }

    fn first_key<R: Row>(&mut self, from: u64, to: u64) -> Tried<Option<u64>> {
        Ok(R::map(&self.tables).range(from..to).next().map(|(key, _)| *key))
    }

    fn named(&mut self, from: &Name, to: &Name, found: &mut Vec<u32>) -> Tried<()> {
        found.extend(self.tables.by_name.range(*from..*to).map(|(key, ())| keys::named(key)));
        Ok(())
    }

    fn last_order(&mut self, from: u64, to: u64) -> Tried<Option<u32>> {
        Ok(self.tables.by_customer.range(from..to).next_back().map(|(key, ())| *key as u32))
    }

    fn commit(&mut self) -> Tried<()> {
        Ok(())
    }

    fn roll_back(&mut self) {
        unreachable!("nothing is begun that is going to be rolled back");
    }
}
