//! Growth: the way down to a leaf that has room, and splits.
//!
//! Full nodes are split on the way down, so each split finds room for its separator in the node
//! above.

use crate::keys::{Keys, common};
use crate::node::{Change, Node, Shape};
use crate::writer::{Path, Step, Writer, named_at, separator_before, separator_behind};
use perdura_pmem::Mutant;

impl<'t, K: Keys> Writer<'t, K> {
    /// Goes down to the leaf of `key`, which then has room for one entry more.
    pub(crate) fn way_to_room(&mut self, key: &[u8]) -> (Path<'t>, &'t Node) {
        if self.root().shape().is_full() {
            self.grow(key);
        }
        let mut path = Path::new();
        let mut node = self.root();
        while node.shape().level > 0 {
            let index = node.count_below(&self.trunk.keys, key, true);
            path.push(Step { node, index });
            let full = self.child(node, index);
            if full.shape().is_full() {
                let (above, below) = (node.change(), full.change());
                self.split(&path, &above, &below, key);
                drop((above, below));
                // One of both halves: another child may be full, if keys that must not change have.
                let is_right = self.trunk.keys.key(node.entry(index).reference) <= key;
                path.last_mut().expect("just pushed").index = index + usize::from(is_right);
            }
            node = self.child(node, path.last().expect("just pushed").index);
        }
        (path, node)
    }

    /// Puts a new root above the full one, and splits that.
    fn grow(&mut self, key: &[u8]) {
        let (old, new) = (self.root(), self.take());
        let (above, below) = (new.change(), old.change());
        above.set_shape(Shape { level: old.shape().level + 1, count: 0, skip: 0 });
        above.set_child(0, old);
        self.split(&[Step { node: new, index: 0 }], &above, &below, key);
        self.trunk.set_root(new);
    }

    /// Moves the upper part of `below`, the full child at the end of `path`, to a new node behind
    /// it.
    fn split(&mut self, path: &[Step<'t>], above: &Change<'_>, below: &Change<'t>, key: &[u8]) {
        let node = below.0;
        let shape = node.shape();
        let is_append =
            separator_behind(path).is_none() && node.count_below(&self.trunk.keys, key, true) == shape.count;
        // Keys that come in order fill their nodes.
        let middle = if is_append { shape.count - 1 } else { shape.count / 2 };
        let separator = node.entry(middle).reference;
        let entry = self.entry(separator, above.0.shape().skip);
        let taken = self.take();
        let right = taken.change();
        right.set_shape(Shape { count: 0, ..shape });
        if shape.level == 0 {
            right.append(node, middle);
        } else {
            // The separator goes up; the child behind it is the first of the new node.
            right.append(node, middle + 1);
        }
        below.set_count(middle);
        let index = path.last().expect("the way to the child").index;
        let (low, high) = (named_at(path, separator_before(path)), named_at(path, separator_behind(path)));
        above.insert(index, entry, Some(taken));
        self.sharpen(below, low, Some(separator));
        self.sharpen(&right, Some(separator), high);
    }

    /// Has a node between the separators `low` and `high` skip what their keys have in common, if
    /// its heads need that.
    fn sharpen(&self, node: &Change<'_>, low: Option<u64>, high: Option<u64>) {
        let (Some(low), Some(high)) = (low, high) else { return };
        let heads = |index| node.0.entry(index).head;
        if (1..node.0.shape().count).all(|index| heads(index - 1) != heads(index)) {
            return;
        }
        // Planted: a node skips what its own keys have in common, instead of those that may be
        // looked for in it.
        let high = if perdura_pmem::planted(Mutant::HighKeyOfLastEntry) {
            node.0.entry(node.0.shape().count - 1).reference
        } else {
            high
        };
        let keys = &self.trunk.keys;
        node.skip(keys, common(keys.key(low), keys.key(high)));
    }
}
