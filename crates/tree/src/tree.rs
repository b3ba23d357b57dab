//! The tree, as its readers use it.

use crate::arena::Arena;
use crate::descent::{self, Descent};
use crate::keys::Keys;
use crate::node::Changed;
use crate::trunk::Trunk;
use crate::writer::Writer;
use perdura_pmem::sync::Mutex;

/// Place of a key among the entries of a tree.
///
/// The object behind the reference may move to another, which replaces it in the tree. A reader of
/// it asks afterwards whether the place still [`holds`](Place::holds).
pub struct Place<'t> {
    descent: Descent<'t>,
    floor: Option<u64>,
    next: Option<u64>,
    is_clear: bool,
}

impl Place<'_> {
    /// The reference of the largest key at or below the key.
    #[inline]
    pub fn floor(&self) -> Option<u64> {
        self.floor
    }

    /// The reference of the smallest key above the key.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Whether the next key is known to lie above all keys that begin with the key, or there is
    /// none. It is found without a look at the next key, so it may be false where a look would say
    /// otherwise.
    #[inline]
    pub fn is_clear(&self) -> bool {
        self.is_clear
    }

    /// Whether the floor has been the same, under the same reference, all the while.
    #[inline]
    pub fn holds(&self) -> bool {
        self.descent.check().is_ok()
    }
}

/// An ordered index over keys that lie elsewhere. See the crate.
///
/// Thread-safety: any number of readers beside one writer. What a reader finds was so at some
/// moment during its call.
pub struct Tree<K> {
    trunk: Trunk<K>,
    arena: Mutex<Arena>,
}

impl<K: Keys> Tree<K> {
    /// An empty tree over `keys`.
    pub fn new(keys: K) -> Tree<K> {
        let mut arena = Arena::default();
        let root = arena.take();
        Tree { trunk: Trunk::new(keys, root), arena: Mutex::new(arena) }
    }

    /// Where the keys are.
    pub fn keys(&self) -> &K {
        &self.trunk.keys
    }

    /// Number of entries; a change that is on its way may be counted or not.
    pub fn len(&self) -> u64 {
        self.trunk.entries()
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// DRAM of its nodes, in bytes. It does not shrink: nodes that are free serve again. Waits for
    /// the writer.
    pub fn bytes(&self) -> usize {
        self.arena.lock().bytes()
    }

    /// The writer. Waits for another to end, so a thread may have only one.
    pub fn writer(&self) -> Writer<'_, K> {
        Writer::new(&self.trunk, self.arena.lock())
    }

    /// Repeats a read until no change comes between.
    #[inline]
    fn read<T>(&self, mut read: impl FnMut() -> Result<T, Changed>) -> T {
        loop {
            if let Ok(found) = read() {
                return found;
            }
        }
    }

    /// The reference of `key`.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        let found = self.floor(key)?;
        (self.keys().key(found) == key).then_some(found)
    }

    /// The reference of the largest key at or below `key`.
    #[inline]
    pub fn floor(&self, key: &[u8]) -> Option<u64> {
        self.read(|| Descent::to(&self.trunk, key, true)?.before())
    }

    /// The reference of the largest key below `key`.
    pub fn lower(&self, key: &[u8]) -> Option<u64> {
        self.read(|| Descent::to(&self.trunk, key, false)?.before())
    }

    /// The reference of the smallest key at or above `key`.
    pub fn ceiling(&self, key: &[u8]) -> Option<u64> {
        self.read(|| Descent::to(&self.trunk, key, false)?.behind())
    }

    /// The reference of the smallest key above `key`.
    pub fn higher(&self, key: &[u8]) -> Option<u64> {
        self.read(|| Descent::to(&self.trunk, key, true)?.behind())
    }

    /// The part of all entries that lie below `key`, from 0 to 1: an estimate, from the nodes on
    /// the way to the key.
    pub fn share_below(&self, key: &[u8]) -> f64 {
        self.read(|| descent::share_below(&self.trunk, key))
    }

    /// Number of entries above `from` and below `to`: exact if the tree has them in one node,
    /// otherwise an estimate as that of [`Tree::share_below`].
    pub fn between(&self, from: &[u8], to: &[u8]) -> u64 {
        let in_one_node = self.read(|| {
            let (first, last) = (Descent::to(&self.trunk, from, true)?, Descent::to(&self.trunk, to, false)?);
            first.entries_to(&last)
        });
        if let Some(entries) = in_one_node {
            return entries as u64;
        }
        let share = (self.share_below(to) - self.share_below(from)).max(0.0);
        (share * self.len() as f64).round() as u64
    }

    /// The place of `key` among the entries.
    #[inline]
    pub fn around(&self, key: &[u8]) -> Place<'_> {
        self.read(|| {
            let descent = Descent::to(&self.trunk, key, true)?;
            let is_clear = descent.ends_behind(key);
            let (floor, next) = (descent.before()?, descent.behind()?);
            Ok(Place { descent, floor, next, is_clear })
        })
    }

    /// Puts references of keys at or above `key` (above it, without `inclusive`) into `found`, in
    /// order: up to a leaf of them, and none only if there is none. To go on, ask for those above
    /// the last.
    pub fn page_from(&self, key: &[u8], inclusive: bool, found: &mut Vec<u64>) {
        self.read(|| {
            found.clear();
            let descent = Descent::to(&self.trunk, key, !inclusive)?;
            match descent.next_leaf()? {
                // The place is behind all entries of its leaf. If the next leaf has changed since,
                // or keys that must not change have, its first entry was there.
                Some(first) => {
                    let place = Descent::to(&self.trunk, self.keys().key(first), true);
                    if place.and_then(|place| place.page_with(first, found)).is_err() {
                        found.clear();
                        found.push(first);
                    }
                    Ok(())
                }
                None => descent.page_behind(found),
            }
        });
    }

    /// Puts references of keys at or below `key` (below it, without `inclusive`) into `found`, in
    /// descending order: up to a leaf of them, and none only if there is none.
    pub fn page_to(&self, key: &[u8], inclusive: bool, found: &mut Vec<u64>) {
        self.read(|| {
            found.clear();
            Descent::to(&self.trunk, key, inclusive)?.page_before(found)
        });
        found.reverse();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use std::sync::Arc;

    /// References are numbers, and their keys the last digits.
    struct Digits;

    impl Keys for Digits {
        fn key(&self, reference: u64) -> &[u8] {
            let digit = reference as usize % 10;
            &b"0123456789"[digit..=digit]
        }
    }

    fn key(number: u64) -> &'static [u8] {
        Digits.key(number).to_vec().leak()
    }

    /// Runs a change of a tree beside a read, in all orders with up to two switches. The tree has
    /// had `numbers` inserted, then `removed` removed.
    fn race(numbers: &'static [u64], removed: &'static [u64], change: fn(&Tree<Digits>), read: fn(&Tree<Digits>)) {
        let mut model = loom::model::Builder::new();
        (model.preemption_bound, model.max_branches) = (Some(2), 20_000);
        model.check(move || {
            let tree = Arc::new(Tree::new(Digits));
            for number in numbers {
                tree.writer().insert(key(*number), *number);
            }
            for number in removed {
                tree.writer().remove(key(*number));
            }
            let reader = {
                let tree = tree.clone();
                loom::thread::spawn(move || read(&tree))
            };
            change(&tree);
            reader.join().expect("what is there is found");
            assert_eq!(tree.audit(), Ok(()));
        });
    }

    #[test]
    fn a_split_of_the_root_hides_nothing() {
        let change = |tree: &Tree<Digits>| assert_eq!(tree.writer().insert(key(4), 4), None);
        race(&[1, 3, 5, 7], &[], change, |tree| assert_eq!(tree.get(key(7)), Some(7)));
        race(&[1, 3, 5, 7], &[], change, |tree| assert!(matches!(tree.lower(key(5)), Some(3 | 4))));
    }

    #[test]
    fn a_split_of_a_leaf_hides_nothing() {
        // The leaves are 1 2 3 7, and 8 9.
        let change = |tree: &Tree<Digits>| assert_eq!(tree.writer().insert(key(0), 0), None);
        race(&[7, 8, 9, 1, 2, 3], &[], change, |tree| assert_eq!(tree.get(key(7)), Some(7)));
        race(&[7, 8, 9, 1, 2, 3], &[], change, |tree| assert_eq!(tree.higher(key(3)), Some(7)));
    }

    /// The separator is two levels above its leaf.
    #[test]
    fn a_separator_high_up_that_moves_leaves_no_hole() {
        let change = |tree: &Tree<Digits>| assert_eq!(tree.writer().remove(key(6)), Some(6));
        race(&[9, 8, 7, 6, 5, 4, 3, 2, 1, 0], &[], change, |tree| assert!(matches!(tree.floor(key(6)), Some(5 | 6))));
    }

    #[test]
    fn a_separator_that_moves_leaves_no_hole() {
        // The leaves are 1 3, and 5 6 7.
        let change = |tree: &Tree<Digits>| assert_eq!(tree.writer().remove(key(5)), Some(5));
        race(&[1, 3, 5, 7, 6], &[], change, |tree| assert!(matches!(tree.floor(key(5)), Some(3 | 5))));
        race(&[1, 3, 5, 7, 6], &[], change, |tree| assert!(matches!(tree.higher(key(3)), Some(5 | 6))));
    }

    #[test]
    fn a_leaf_that_goes_leaves_no_hole() {
        // The leaves are 1 3 5, and 7.
        let change = |tree: &Tree<Digits>| assert_eq!(tree.writer().remove(key(7)), Some(7));
        race(&[1, 3, 5, 7, 8], &[8], change, |tree| assert!(matches!(tree.floor(key(9)), Some(5 | 7))));
        race(&[1, 3, 5, 7, 8], &[8], change, |tree| assert!(matches!(tree.higher(key(5)), None | Some(7))));
    }

    #[test]
    fn a_first_leaf_that_goes_leaves_no_hole() {
        // The leaves are 1, and 7 8 9: too many to be joined.
        let numbers = &[1, 5, 7, 9, 3, 8];
        let change = |tree: &Tree<Digits>| assert_eq!(tree.writer().remove(key(1)), Some(1));
        race(numbers, &[3, 5], change, |tree| assert_eq!(tree.ceiling(key(2)), Some(7)));
        race(numbers, &[3, 5], change, |tree| assert!(matches!(tree.lower(key(7)), None | Some(1))));
    }

    #[test]
    fn leaves_that_are_joined_hide_nothing() {
        // The leaves are 1 3, and 5 7.
        let change = |tree: &Tree<Digits>| assert_eq!(tree.writer().remove(key(3)), Some(3));
        race(&[1, 3, 5, 7, 6], &[6], change, |tree| assert_eq!(tree.get(key(7)), Some(7)));
    }

    #[test]
    fn a_reference_that_is_replaced_is_the_old_one_or_the_new() {
        // The leaves are 1 3, and 5 6 7: the separator is replaced as well.
        let change = |tree: &Tree<Digits>| assert_eq!(tree.writer().insert(key(5), 15), Some(5));
        race(&[1, 3, 5, 7, 6], &[], change, |tree| assert!(matches!(tree.higher(key(3)), Some(5 | 15))));
        race(&[1, 3, 5, 7, 6], &[], change, |tree| assert!(matches!(tree.floor(key(5)), Some(5 | 15))));
    }
}
