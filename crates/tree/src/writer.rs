//! The writer's way down, and the simple changes.

use crate::arena::Arena;
use crate::keys::{Keys, head_of};
use crate::node::{Entry, Node};
use crate::trunk::Trunk;
use perdura_pmem::Mutant;
use perdura_pmem::sync::MutexGuard;

/// The one writer of a tree.
pub struct Writer<'t, K> {
    pub(crate) trunk: &'t Trunk<K>,
    pub(crate) arena: MutexGuard<'t, Arena>,
}

/// A node on the way down, with the index of the child that the way goes on to.
#[derive(Clone, Copy)]
pub(crate) struct Step<'t> {
    pub(crate) node: &'t Node,
    pub(crate) index: usize,
}

/// The inner nodes on the way to a leaf, from the root.
pub(crate) type Path<'t> = Vec<Step<'t>>;

/// Depth in `path` of the node that has the separator before the path's end, and the separator's
/// index.
pub(crate) fn separator_before(path: &[Step<'_>]) -> Option<(usize, usize)> {
    let depth = path.iter().rposition(|step| step.index > 0)?;
    Some((depth, path[depth].index - 1))
}

/// Depth in `path` of the node that has the separator behind the path's end, and the separator's
/// index.
pub(crate) fn separator_behind(path: &[Step<'_>]) -> Option<(usize, usize)> {
    let depth = path.iter().rposition(|step| step.index < step.node.shape().count)?;
    Some((depth, path[depth].index))
}

/// The reference at a separator's place.
pub(crate) fn named_at(path: &[Step<'_>], place: Option<(usize, usize)>) -> Option<u64> {
    place.map(|(depth, index)| path[depth].node.entry(index).reference)
}

impl<'t, K: Keys> Writer<'t, K> {
    pub(crate) fn new(trunk: &'t Trunk<K>, arena: MutexGuard<'t, Arena>) -> Writer<'t, K> {
        Writer { trunk, arena }
    }

    pub(crate) fn root(&self) -> &'t Node {
        // SAFETY: nodes live as long as the tree, whose root is a node.
        unsafe { &*self.trunk.root() }
    }

    pub(crate) fn child(&self, node: &'t Node, index: usize) -> &'t Node {
        // SAFETY: as above; the caller goes down a node that the tree reaches.
        unsafe { &*node.child(index) }
    }

    pub(crate) fn take(&mut self) -> &'t Node {
        // SAFETY: as above.
        unsafe { &*self.arena.take() }
    }

    /// The entry of `reference` for a node that skips `skip` bytes.
    pub(crate) fn entry(&self, reference: u64, skip: usize) -> Entry {
        Entry { head: head_of(self.trunk.keys.key(reference), skip), reference }
    }

    /// Enters `reference` under `key`, which is its key. Returns the reference that it replaces.
    pub fn insert(&mut self, key: &[u8], reference: u64) -> Option<u64> {
        let keys = &self.trunk.keys;
        let (path, leaf) = self.way_to_room(key);
        let place = leaf.count_below(keys, key, false);
        let shape = leaf.shape();
        let entry = Entry { head: head_of(key, shape.skip), reference };
        let known = (place < shape.count).then(|| leaf.entry(place));
        let known = known.filter(|known| known.head == entry.head && keys.key(known.reference) == key);
        debug_assert!(keys.key(reference) == key, "reference {reference} is not of this key");
        let change = leaf.change();
        if let Some(known) = known {
            let named = separator_before(&path).filter(|_| place == 0);
            let named = named.map(|(depth, index)| (path[depth].node.change(), index));
            // Planted: a separator keeps a reference that was replaced in its leaf.
            if let Some((node, index)) =
                named.as_ref().filter(|_| !perdura_pmem::planted(Mutant::SeparatorKeepsReplaced))
            {
                node.set_entry(*index, Entry { reference, ..node.0.entry(*index) });
            }
            change.set_entry(place, entry);
            return Some(known.reference);
        }
        change.insert(place, entry, None);
        self.trunk.count(1);
        None
    }

    /// Removes `key`. Returns its reference.
    pub fn remove(&mut self, key: &[u8]) -> Option<u64> {
        let keys = &self.trunk.keys;
        let (path, leaf) = self.way_to(key);
        let place = leaf.count_below(keys, key, false);
        let count = leaf.shape().count;
        let found = (place < count).then(|| leaf.entry(place).reference).filter(|found| keys.key(*found) == key)?;
        if count == 1 && !path.is_empty() {
            self.unlink(&path, leaf);
        } else {
            self.remove_at(&path, leaf, place);
            self.shrink(&path, leaf);
        }
        self.trunk.count(-1);
        Some(found)
    }

    /// Goes down to the leaf of `key`.
    fn way_to(&self, key: &[u8]) -> (Path<'t>, &'t Node) {
        let mut path = Path::new();
        let mut node = self.root();
        while node.shape().level > 0 {
            let index = node.count_below(&self.trunk.keys, key, true);
            path.push(Step { node, index });
            node = self.child(node, index);
        }
        (path, node)
    }

    /// Removes an entry that is not the only one of its leaf. If it is the smallest, the separator
    /// before the leaf names the second from now on.
    fn remove_at(&mut self, path: &[Step<'t>], leaf: &'t Node, place: usize) {
        let Some((depth, index)) = separator_before(path).filter(|_| place == 0) else {
            return leaf.change().remove(place, None);
        };
        let second = leaf.entry(1).reference;
        self.widen(path, (depth, index), Some(second));
        let entry = self.entry(second, path[depth].node.shape().skip);
        let (named, change) = (path[depth].node.change(), leaf.change());
        // Planted: a separator keeps naming an entry that is removed.
        if !perdura_pmem::planted(Mutant::SeparatorNamesRemoved) {
            named.set_entry(index, entry);
        }
        change.remove(0, None);
    }
}
