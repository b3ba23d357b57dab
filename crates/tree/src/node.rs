//! A node: its version, and how it is read and changed.
//!
//! Readers load each word by itself and then look whether the version is still the one they began
//! with; an odd version means that the writer is at work. Leaf and inner node share one layout of
//! words, so that a node's memory can serve as either: heads, then references, then, in an inner
//! node, children.

use crate::atomic::{AtomicU64, Ordering, fence, wait_until};
use crate::keys::{Keys, head_of, top_of};
use perdura_pmem::ahead::prefetch;
use std::cmp;
use std::ptr;

const WORDS: usize = if cfg!(loom) { 8 } else { 62 };
/// Most entries of a leaf.
pub(crate) const LEAF_ENTRIES: usize = WORDS / 2;
/// Most entries of an inner node, which has one child more.
pub(crate) const INNER_ENTRIES: usize = (WORDS - 1) / 3;
/// A node with fewer entries than this part of the most is joined with a neighbour. Loom's nodes
/// hold so few that a quarter is none.
const FEW: usize = if cfg!(loom) { 2 } else { 4 };

/// 512 bytes.
#[repr(C, align(64))]
pub(crate) struct Node {
    version: AtomicU64,
    shape: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// Kind and fill of a node, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// 0 for a leaf.
    pub(crate) level: u8,
    /// Entries.
    pub(crate) count: usize,
    /// Bytes in which all keys begin alike that can be looked for in the node.
    pub(crate) skip: usize,
}

impl Shape {
    pub(crate) const EMPTY_LEAF: Shape = Shape { level: 0, count: 0, skip: 0 };

    fn encode(self) -> u64 {
        (self.skip as u64) << 32 | u64::from(self.level) << 16 | self.count as u64
    }

    #[inline]
    fn decode(word: u64) -> Shape {
        Shape { level: (word >> 16) as u8, count: (word & 0xffff) as usize, skip: (word >> 32) as usize }
    }

    /// Most entries.
    #[inline]
    pub(crate) fn most(self) -> usize {
        if self.level == 0 { LEAF_ENTRIES } else { INNER_ENTRIES }
    }

    pub(crate) fn is_full(self) -> bool {
        self.count == self.most()
    }

    /// Whether the node has so little that it should be joined with a neighbour.
    pub(crate) fn has_few(self) -> bool {
        self.count < self.most() / FEW
    }
}

/// The node was changed while it was read: the reader begins again.
#[derive(Debug)]
pub(crate) struct Changed;

/// An entry as the writer moves it about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) head: u64,
    pub(crate) reference: u64,
}

impl Node {
    pub(crate) fn new() -> Node {
        Node {
            version: AtomicU64::new(0),
            shape: AtomicU64::new(Shape::EMPTY_LEAF.encode()),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Asks for the node's memory, which is to be read soon: a search goes from line to line, and
    /// each would be waited for.
    #[inline]
    pub(crate) fn prefetch(&self) {
        let address = ptr::from_ref(self).addr();
        for line in (0..size_of::<Node>()).step_by(align_of::<Node>()) {
            prefetch(address + line);
        }
    }

    /// Begins to read the node. Waits while the writer is at it.
    #[inline]
    pub(crate) fn read(&self) -> Seen<'_> {
        let mut version = self.version.load(Ordering::Acquire);
        // A wait also ends where a simulation is given up.
        while !version.is_multiple_of(2) {
            wait_until(|| {
                version = self.version.load(Ordering::Acquire);
                version.is_multiple_of(2)
            });
        }
        Seen { node: self, version, shape: self.shape() }
    }

    /// The shape. Only the writer, whom nobody races, may rely on it without a check.
    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        Shape::decode(self.shape.load(Ordering::Relaxed))
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Relaxed)
    }

    /// The entry at `index`, for the writer.
    pub(crate) fn entry(&self, index: usize) -> Entry {
        Entry { head: self.word(index), reference: self.word(self.shape().most() + index) }
    }

    /// The child at `index`. Only the writer may follow it without a check.
    pub(crate) fn child(&self, index: usize) -> *const Node {
        ptr::with_exposed_provenance(self.word(2 * INNER_ENTRIES + index) as usize)
    }

    /// Number of entries below `key`, or not above it with `inclusive`; for the writer.
    pub(crate) fn count_below<K: Keys>(&self, keys: &K, key: &[u8], inclusive: bool) -> usize {
        let seen = Seen { node: self, version: self.version.load(Ordering::Relaxed), shape: self.shape() };
        seen.count_below(keys, key, inclusive).expect("only the writer changes nodes")
    }

    /// Marks the node as being changed, until the result is dropped.
    pub(crate) fn change(&self) -> Change<'_> {
        let version = self.version.load(Ordering::Relaxed);
        debug_assert!(version.is_multiple_of(2), "the writer marks each node once");
        self.version.store(version + 1, Ordering::Relaxed);
        // A reader of a word that is stored from here on sees the mark when it looks again.
        fence(Ordering::Release);
        Change(self)
    }
}

/// A node as a reader found it.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'t> {
    node: &'t Node,
    version: u64,
    pub(crate) shape: Shape,
}

impl<'t> Seen<'t> {
    /// Fails if the node was changed since.
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Changed> {
        fence(Ordering::Acquire);
        match self.node.version.load(Ordering::Relaxed) == self.version {
            true => Ok(()),
            false => Err(Changed),
        }
    }

    /// Whether both are the same node, in the same version.
    pub(crate) fn is_same(&self, other: &Seen<'_>) -> bool {
        ptr::eq(self.node, other.node) && self.version == other.version
    }

    /// The reference at `index`, which the node has held since it was found.
    #[inline]
    pub(crate) fn reference(&self, index: usize) -> Result<u64, Changed> {
        let reference = self.node.word(self.shape.most() + index);
        self.check()?;
        Ok(reference)
    }

    /// Adds the references at `range` to `found`; the caller checks.
    pub(crate) fn copy(&self, range: std::ops::Range<usize>, found: &mut Vec<u64>) {
        let first = self.shape.most();
        found.extend(range.map(|index| self.node.word(first + index)));
    }

    /// The child at `index`.
    #[inline]
    pub(crate) fn child(&self, index: usize) -> Result<&'t Node, Changed> {
        let child = self.node.child(index);
        self.check()?;
        // SAFETY: the node has held the child since it was found, and nodes live as long as the
        // tree.
        Ok(unsafe { &*child })
    }

    /// Number of entries below `key`, or not above it with `inclusive`.
    #[inline]
    pub(crate) fn count_below<K: Keys>(&self, keys: &K, key: &[u8], inclusive: bool) -> Result<usize, Changed> {
        let head = head_of(key, self.shape.skip);
        // Heads are compared without a branch, which the processor could not foresee.
        let (mut low, mut rest) = (0, self.shape.count);
        while rest > 0 {
            let step = rest.div_ceil(2);
            low += if self.node.word(low + step - 1) < head { step } else { 0 };
            rest -= step;
        }
        if low < self.shape.count && self.node.word(low) == head {
            return self.count_alike(keys, key, inclusive, low);
        }
        Ok(low)
    }

    /// As [`Seen::count_below`], if the entry at `first` has the head of `key`, and those before it
    /// are below.
    fn count_alike<K: Keys>(&self, keys: &K, key: &[u8], inclusive: bool, first: usize) -> Result<usize, Changed> {
        let head = head_of(key, self.shape.skip);
        let (mut low, mut high) = (first, self.shape.count);
        while low < high {
            let middle = (low + high) / 2;
            let order = match self.node.word(middle) == head {
                true => keys.key(self.reference(middle)?).cmp(key),
                false => cmp::Ordering::Greater,
            };
            let is_below = order.is_lt() || (inclusive && order.is_eq());
            (low, high) = if is_below { (middle + 1, high) } else { (low, middle) };
        }
        Ok(low)
    }

    /// Whether the head of the entry at `index` tells that it is above all keys that begin with
    /// `key`; the caller checks.
    #[inline]
    pub(crate) fn is_above(&self, index: usize, key: &[u8]) -> bool {
        self.node.word(index) > top_of(key, self.shape.skip)
    }
}

/// A node that the writer changes.
pub(crate) struct Change<'t>(pub(crate) &'t Node);

impl Change<'_> {
    pub(crate) fn set_shape(&self, shape: Shape) {
        self.0.shape.store(shape.encode(), Ordering::Relaxed);
    }

    pub(crate) fn set_count(&self, count: usize) {
        self.set_shape(Shape { count, ..self.0.shape() });
    }

    pub(crate) fn set_entry(&self, index: usize, entry: Entry) {
        self.0.words[index].store(entry.head, Ordering::Relaxed);
        self.0.words[self.0.shape().most() + index].store(entry.reference, Ordering::Relaxed);
    }

    pub(crate) fn set_child(&self, index: usize, child: *const Node) {
        self.0.words[2 * INNER_ENTRIES + index].store(child.expose_provenance() as u64, Ordering::Relaxed);
    }

    /// Inserts an entry at `index`; in an inner node with the child behind it.
    pub(crate) fn insert(&self, index: usize, entry: Entry, child: Option<*const Node>) {
        let count = self.0.shape().count;
        for at in (index..count).rev() {
            self.set_entry(at + 1, self.0.entry(at));
        }
        self.set_entry(index, entry);
        if let Some(child) = child {
            for at in (index + 1..=count).rev() {
                self.set_child(at + 1, self.0.child(at));
            }
            self.set_child(index + 1, child);
        }
        self.set_count(count + 1);
    }

    /// Removes the entry at `index`; in an inner node also the child at `child`.
    pub(crate) fn remove(&self, index: usize, child: Option<usize>) {
        let count = self.0.shape().count;
        for at in index + 1..count {
            self.set_entry(at - 1, self.0.entry(at));
        }
        if let Some(child) = child {
            for at in child + 1..=count {
                self.set_child(at - 1, self.0.child(at));
            }
        }
        self.set_count(count - 1);
    }

    /// Adds what `other` holds behind `from`: its entries, and in an inner node its children. Both
    /// skip the same bytes.
    pub(crate) fn append(&self, other: &Node, from: usize) {
        let (own, theirs) = (self.0.shape(), other.shape());
        for at in from..theirs.count {
            self.set_entry(own.count + at - from, other.entry(at));
        }
        if own.level > 0 {
            for at in from..=theirs.count {
                self.set_child(own.count + at - from, other.child(at));
            }
        }
        self.set_count(own.count + theirs.count - from);
    }

    /// Has the node skip `skip` bytes: makes its heads anew unless they are so already.
    pub(crate) fn skip<K: Keys>(&self, keys: &K, skip: usize) {
        let shape = self.0.shape();
        if shape.skip == skip {
            return;
        }
        let mut heads = [0; LEAF_ENTRIES];
        for (index, head) in heads[..shape.count].iter_mut().enumerate() {
            *head = head_of(keys.key(self.0.entry(index).reference), skip);
        }
        for (index, head) in heads[..shape.count].iter().enumerate() {
            self.set_entry(index, Entry { head: *head, ..self.0.entry(index) });
        }
        self.set_shape(Shape { skip, ..shape });
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let version = self.0.version.load(Ordering::Relaxed);
        // Planted: a node has its old version again once it is changed.
        let next = if perdura_pmem::planted(297) { version - 1 } else { version + 1 };
        self.0.version.store(next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_its_size() {
        assert_eq!(size_of::<Node>(), 512);
        assert_eq!((LEAF_ENTRIES, INNER_ENTRIES), (31, 20));
    }

    #[test]
    fn a_shape_keeps_what_it_is_made_of() {
        let shape = Shape { level: 3, count: 20, skip: 70_000 };
        assert_eq!(Shape::decode(shape.encode()), shape);
        assert!(shape.is_full());
        assert!(!Shape::EMPTY_LEAF.is_full());
    }

    #[test]
    fn a_change_is_seen_during_and_after() {
        let node = Node::new();
        let seen = node.read();
        assert!(seen.check().is_ok());
        let change = node.change();
        assert!(seen.check().is_err());
        drop(change);
        assert!(seen.check().is_err());
        assert!(node.read().check().is_ok());
    }
}
