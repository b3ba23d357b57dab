//! Ordered maps in DRAM beside which an index of the engine is measured. They keep nothing, lock no
//! row and know no transaction.

use scc::{Guard, TreeIndex};
use std::collections::BTreeMap;
use std::sync::RwLock;

/// A key of so many bytes.
pub type Key<const BYTES: usize> = [u8; BYTES];

/// An ordered map from keys to numbers that several threads use at once.
pub trait Ordered<const BYTES: usize>: Sync {
    /// Inserts a key that is not there.
    fn insert(&self, key: &Key<BYTES>, number: u64);
    /// The number of a key that is there.
    fn find(&self, key: &Key<BYTES>) -> u64;
    /// The sum of the numbers of the first `length` keys from `start` on.
    fn sum_from(&self, start: &Key<BYTES>, length: usize) -> u64;
}

impl<const BYTES: usize> Ordered<BYTES> for TreeIndex<Key<BYTES>, u64> {
    fn insert(&self, key: &Key<BYTES>, number: u64) {
        assert!(self.insert_sync(*key, number).is_ok(), "the key is new");
    }

    fn find(&self, key: &Key<BYTES>) -> u64 {
        self.peek_with(key, |_, number| *number).expect("the key is there")
    }

    fn sum_from(&self, start: &Key<BYTES>, length: usize) -> u64 {
        let guard = Guard::new();
        self.range(*start.., &guard).take(length).fold(0, |sum, (_, number)| sum.wrapping_add(*number))
    }
}

impl<const BYTES: usize> Ordered<BYTES> for RwLock<BTreeMap<Key<BYTES>, u64>> {
    fn insert(&self, key: &Key<BYTES>, number: u64) {
        assert!(self.write().expect("nobody panics").insert(*key, number).is_none(), "the key is new");
    }

    fn find(&self, key: &Key<BYTES>) -> u64 {
        self.read().expect("nobody panics")[key]
    }

    fn sum_from(&self, start: &Key<BYTES>, length: usize) -> u64 {
        let map = self.read().expect("nobody panics");
        map.range(*start..).take(length).fold(0, |sum, (_, number)| sum.wrapping_add(*number))
    }
}

/// The peers by name, empty.
pub fn all<const BYTES: usize>() -> [(&'static str, Box<dyn Ordered<BYTES>>); 2] {
    [
        ("scc_treeindex", Box::new(TreeIndex::<Key<BYTES>, u64>::new())),
        ("std_btreemap", Box::new(RwLock::new(BTreeMap::<Key<BYTES>, u64>::new()))),
    ]
}
