//! Shrinking: what a removal does to the shape.
//!
//! A node that has nothing left is unlinked at once. One that has little is joined with a neighbour
//! if both together leave room; if not, it stays. A root with one child makes room for it.

use crate::keys::{Keys, common};
use crate::node::Node;
use crate::writer::{Step, Writer, named_at, separator_before, separator_behind};
use perdura_pmem::Mutant;

impl<'t, K: Keys> Writer<'t, K> {
    /// Prepares the nodes before the separator at `place` for keys up to `high`, which will take
    /// its place; `None` if no separator will. Their keys may then have less in common.
    pub(crate) fn widen(&self, path: &[Step<'t>], place: (usize, usize), high: Option<u64>) {
        let (depth, index) = place;
        let above = path[depth].node;
        let mut low = match index.checked_sub(1) {
            Some(before) => Some(above.entry(before).reference),
            None => named_at(path, separator_before(&path[..depth])),
        };
        let mut node = self.child(above, index);
        loop {
            // Planted: nodes skip what their keys have in common with a separator that goes.
            if !perdura_pmem::planted(Mutant::PrefixKeptWithoutSeparator) {
                self.blunt(node, low, high);
            }
            let shape = node.shape();
            if shape.level == 0 {
                return;
            }
            low = shape.count.checked_sub(1).map(|last| node.entry(last).reference).or(low);
            node = self.child(node, shape.count);
        }
    }

    /// Has a node skip no more than the separators `low` and `high` around it have in common.
    fn blunt(&self, node: &'t Node, low: Option<u64>, high: Option<u64>) {
        let skip = node.shape().skip;
        let keys = &self.trunk.keys;
        let most = match (low, high) {
            (Some(low), Some(high)) if skip > 0 => common(keys.key(low), keys.key(high)),
            _ => 0,
        };
        if most < skip {
            node.change().skip(keys, most);
        }
    }

    /// Unlinks the leaf at the end of `path`, whose only entry goes with it, and the nodes above
    /// that hold nothing else.
    pub(crate) fn unlink(&mut self, path: &[Step<'t>], leaf: &'t Node) {
        let at = path.iter().rposition(|step| step.node.shape().count > 0).expect("an inner root has two children");
        let Step { node, index } = path[at];
        let gone: Vec<&Node> = path[at + 1..].iter().map(|step| step.node).chain([leaf]).collect();
        if index > 0 {
            self.widen(path, (at, index - 1), named_at(path, separator_behind(&path[..=at])));
            let (change, _gone) = (node.change(), gone.iter().map(|node| node.change()).collect::<Vec<_>>());
            change.remove(index - 1, Some(index));
        } else {
            self.unlink_first(&path[..at], node, &gone);
        }
        gone.into_iter().for_each(|node| self.arena.put(node));
        self.shrink(&path[..at], node);
    }

    /// Unlinks the first child of `node`, at the end of `path`, with the nodes `gone`. The smallest
    /// entry below `node` is then that of the second child, which the first separator names.
    fn unlink_first(&self, path: &[Step<'t>], node: &'t Node, gone: &[&'t Node]) {
        let smallest = node.entry(0).reference;
        let before = separator_before(path);
        match before {
            Some(place) => self.widen(path, place, Some(smallest)),
            // Planted: the nodes that become the tree's first ones keep skipping bytes.
            None if perdura_pmem::planted(Mutant::FirstNodesKeepSkipping) => {}
            None => self.open_below(self.child(node, 1)),
        }
        let named = before.map(|(depth, index)| {
            let named = path[depth].node;
            (named.change(), index, self.entry(smallest, named.shape().skip))
        });
        // Planted: a leaf that goes keeps its version.
        let left = gone.iter().filter(|_| !perdura_pmem::planted(Mutant::GoneLeafKeepsVersion));
        let (change, _gone) = (node.change(), left.map(|node| node.change()).collect::<Vec<_>>());
        if let Some((named, index, entry)) = &named {
            named.set_entry(*index, *entry);
        }
        change.remove(0, Some(0));
    }

    /// Prepares what will be the tree's first nodes for any smaller key.
    fn open_below(&self, mut node: &'t Node) {
        loop {
            self.blunt(node, None, None);
            if node.shape().level == 0 {
                return;
            }
            node = self.child(node, 0);
        }
    }

    /// Joins `node`, at the end of `path`, with a neighbour if it has little, and so upwards.
    pub(crate) fn shrink(&mut self, path: &[Step<'t>], mut node: &'t Node) {
        for Step { node: above, index } in path.iter().rev() {
            let joins_left = |writer: &mut Self| *index > 0 && writer.join(above, index - 1);
            let joins_right = |writer: &mut Self| *index < above.shape().count && writer.join(above, *index);
            if !node.shape().has_few() || !(joins_left(self) || joins_right(self)) {
                break;
            }
            node = above;
        }
        self.lower_root();
    }

    /// Joins the children at `left` and behind it, if that leaves a quarter of the node free.
    /// Returns whether it did.
    fn join(&mut self, above: &'t Node, left: usize) -> bool {
        let (node, gone) = (self.child(above, left), self.child(above, left + 1));
        let (own, theirs) = (node.shape(), gone.shape());
        // In an inner node the separator comes down.
        let count = own.count + theirs.count + usize::from(own.level > 0);
        if count > own.most() * 3 / 4 {
            return false;
        }
        let keys = &self.trunk.keys;
        // Both skip no more than the separators around them have in common.
        let skip = own.skip.min(theirs.skip);
        let separator = self.entry(above.entry(left).reference, skip);
        let (parent, target, source) = (above.change(), node.change(), gone.change());
        target.skip(keys, skip);
        source.skip(keys, skip);
        if own.level > 0 {
            // The append puts the first child of the right one behind it.
            target.set_entry(own.count, separator);
            target.set_count(own.count + 1);
        }
        target.append(gone, 0);
        parent.remove(left, Some(left + 1));
        drop((parent, target, source));
        self.arena.put(gone);
        true
    }

    /// Makes the only child of the root the root.
    fn lower_root(&mut self) {
        loop {
            let root = self.root();
            let shape = root.shape();
            if shape.level == 0 || shape.count > 0 {
                return;
            }
            let child = self.child(root, 0);
            debug_assert_eq!(child.shape().skip, 0, "any key can be looked for in the only child");
            let change = root.change();
            self.trunk.set_root(child);
            drop(change);
            self.arena.put(root);
        }
    }
}
