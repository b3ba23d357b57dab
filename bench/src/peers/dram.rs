//! The standard library's B-tree in DRAM. It keeps nothing and shows the least cost of an ordered
//! map on this machine.

use crate::keys::Key;
use crate::store::{Store, looked_at};
use std::collections::BTreeMap;

/// A map in DRAM. Each value is a separate allocation.
#[derive(Default)]
pub struct Dram(BTreeMap<Key, Box<[u8]>>);

impl Store for Dram {
    fn insert(&mut self, keys: &[Key], value: &[u8], _batch: usize) {
        for key in keys {
            self.0.insert(*key, value.into());
        }
    }

    fn read(&self, keys: &[Key]) -> u64 {
        keys.iter().map(|key| looked_at(&self.0[key])).sum()
    }

    fn delete(&mut self, keys: &[Key], _batch: usize) {
        for key in keys {
            self.0.remove(key).expect("the key is there");
        }
    }
}
