//! Nodes of the list's index: arrays in DRAM that the writer changes in place and readers read
//! without locks.
//!
//! A node holds up to [`WIDTH`] entries: heads, sixteen bytes of each key after the first `skip`,
//! which all keys that may ever lie in the node share; and words. The words of a leaf are
//! references to records. Those of an inner node are addresses of its children; its heads are those
//! of separators, the lower bounds of the children, which are kept whole beside them. The first
//! child has none.
//!
//! Every node has a version word: odd while the writer changes the node, and higher afterwards. A
//! reader loads it, reads, and loads it again; what it read counts if both are the same even
//! number. A node's memory stays a node of the same sort as long as the index, so a reader on a
//! stale way reads at worst something that does not count.
//!
//! The one change that needs no version is to replace a word of a leaf: it is an atomic store,
//! before and after which the leaf is whole. Tested under loom.

use crate::error::Result;
use crate::memory::atomic::{AtomicPtr, AtomicU64, Ordering, fence};
use crate::memory::format::Ref;
use crate::memory::record::{Newest, Records, head16};
use std::cmp::Ordering::{Equal, Greater, Less};
use std::ops::Range;

/// Entries of a node.
pub(crate) const WIDTH: usize = if cfg!(loom) { 4 } else { 32 };
/// Entries below which a node is joined with a neighbour, if they fit in three quarters of one.
pub(crate) const FEW: usize = if cfg!(loom) { 2 } else { WIDTH / 4 };

/// A lower bound of the keys in a child.
pub(crate) type Separator = Vec<u8>;

/// Header of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) count: usize,
    /// 0 for a leaf.
    pub(crate) level: u8,
    /// Bytes that all keys of the node share and heads leave out.
    pub(crate) skip: u16,
    /// Leaf: entries that are deletions.
    pub(crate) deletions: u8,
    /// Leaf: the number of deletions from which on the leaf is swept.
    pub(crate) sweep_at: u8,
}

impl Meta {
    fn word(self) -> u64 {
        self.count as u64
            | u64::from(self.level) << 8
            | u64::from(self.skip) << 16
            | u64::from(self.deletions) << 32
            | u64::from(self.sweep_at) << 40
    }

    fn of(word: u64) -> Meta {
        Meta {
            count: (word & 0xff) as usize,
            level: (word >> 8) as u8,
            skip: (word >> 16) as u16,
            deletions: (word >> 32) as u8,
            sweep_at: (word >> 40) as u8,
        }
    }
}

/// A leaf, or what an inner node has in common with one.
#[repr(C)]
pub(crate) struct Node {
    version: AtomicU64,
    meta: AtomicU64,
    heads: [[AtomicU64; 2]; WIDTH],
    words: [AtomicU64; WIDTH],
}

/// An inner node.
#[repr(C)]
pub(crate) struct Inner {
    pub(crate) node: Node,
    separators: [AtomicPtr<Separator>; WIDTH],
}

/// Calls `one` for each index of a range and its new one, so that none is overwritten before it is
/// moved.
#[inline]
fn shift(from: Range<usize>, at: usize, one: impl Fn(usize, usize)) {
    let len = from.len();
    if at > from.start {
        (0..len).rev().for_each(|offset| one(from.start + offset, at + offset));
    } else {
        (0..len).for_each(|offset| one(from.start + offset, at + offset));
    }
}

impl Node {
    pub(crate) fn new() -> Node {
        Node {
            version: AtomicU64::new(0),
            meta: AtomicU64::new(0),
            heads: std::array::from_fn(|_| [AtomicU64::new(0), AtomicU64::new(0)]),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// The version, for [`Node::is_still`]; none while the writer changes the node.
    #[inline]
    pub(crate) fn version(&self) -> Option<u64> {
        let version = self.version.load(Ordering::Acquire);
        (version & 1 == 0).then_some(version)
    }

    /// Whether all that was read since [`Node::version`] counts.
    #[inline]
    pub(crate) fn is_still(&self, version: u64) -> bool {
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == version
    }

    /// Begins a change, unless one has begun. Readers do not count what they read until
    /// [`Node::unlock`].
    pub(crate) fn lock(&self) {
        let version = self.version.load(Ordering::Relaxed);
        if version & 1 == 0 {
            self.version.store(version + 1, Ordering::Relaxed);
            fence(Ordering::Release);
        }
    }

    pub(crate) fn unlock(&self) {
        let version = self.version.load(Ordering::Relaxed);
        debug_assert!(version & 1 == 1);
        self.version.store(version + 1, Ordering::Release);
    }

    #[inline]
    pub(crate) fn meta(&self) -> Meta {
        // With an entry counted its separator is seen: what lay there before may have been freed.
        Meta::of(self.meta.load(Ordering::Acquire))
    }

    pub(crate) fn set_meta(&self, meta: Meta) {
        self.meta.store(meta.word(), Ordering::Release);
    }

    #[inline]
    pub(crate) fn head(&self, index: usize) -> u128 {
        let [high, low] = &self.heads[index];
        u128::from(high.load(Ordering::Relaxed)) << 64 | u128::from(low.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn record(&self, index: usize) -> Ref {
        Ref(self.word(index))
    }

    /// Replaces the word of an entry. Readers see the old or the new one.
    #[inline]
    pub(crate) fn set_word(&self, index: usize, word: u64) {
        self.words[index].store(word, Ordering::Release);
    }

    pub(crate) fn set(&self, index: usize, head: u128, word: u64) {
        self.heads[index][0].store((head >> 64) as u64, Ordering::Relaxed);
        self.heads[index][1].store(head as u64, Ordering::Relaxed);
        self.words[index].store(word, Ordering::Release);
    }

    /// Moves entries to `at` and after, as if by a copy of all.
    #[inline]
    pub(crate) fn shift(&self, from: Range<usize>, at: usize) {
        shift(from, at, |from, at| self.set(at, self.head(from), self.word(from)));
    }

    /// The number of heads below `head` among those of `from..count`, and `from`.
    #[inline]
    fn lower_bound(&self, from: usize, count: usize, head: u128) -> usize {
        let (mut low, mut len) = (from, count - from);
        while len > 0 {
            let half = len / 2;
            let is_below = self.head(low + half) < head;
            low = if is_below { low + half + 1 } else { low };
            len = if is_below { len - half - 1 } else { half };
        }
        low
    }

    /// Leaf: the index of a key's entry with its record, or the index where it would be. Error:
    /// `Damaged`.
    #[inline]
    pub(crate) fn find<'r>(&self, records: &'r Records, key: &[u8]) -> Result<(usize, Newest<'r>)> {
        let meta = self.meta();
        let (count, head) = (meta.count.min(WIDTH), head16(key, usize::from(meta.skip)));
        let mut low = self.lower_bound(0, count, head);
        let mut high = low;
        while high < count && self.head(high) == head {
            high += 1;
        }
        // Where the head is the rest of the key, keys of one length and one head are the same.
        let is_whole = key.len() <= usize::from(meta.skip) + 16;
        while low < high {
            let middle = usize::midpoint(low, high);
            let record = self.record(middle);
            let found = records.get(record)?;
            let order = if is_whole { found.key.len().cmp(&key.len()) } else { found.key.cmp(key) };
            match order {
                Less => low = middle + 1,
                Greater => high = middle,
                Equal => return Ok((middle, Some((record, found)))),
            }
        }
        Ok((low, None))
    }
}

impl Inner {
    pub(crate) fn new() -> Inner {
        Inner { node: Node::new(), separators: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())) }
    }

    /// The index of the child whose keys include `key`. The caller is the writer, or has pinned.
    #[inline]
    pub(crate) fn child_of(&self, key: &[u8]) -> usize {
        let meta = self.node.meta();
        let (count, head) = (meta.count.min(WIDTH), head16(key, usize::from(meta.skip)));
        if count <= 1 {
            return 0;
        }
        let mut next = self.node.lower_bound(1, count, head);
        while next < count && self.node.head(next) == head && self.separator(next).is_some_and(|bound| bound <= key) {
            next += 1;
        }
        next - 1
    }

    /// The lower bound of a child's keys; none for the first child, whose bound is the node's own.
    /// The caller is the writer, or has pinned.
    #[inline]
    pub(crate) fn separator(&self, index: usize) -> Option<&[u8]> {
        let separator = self.separators.get(index).filter(|_| index > 0)?.load(Ordering::Acquire);
        // SAFETY: null, or from Box::into_raw. A separator that has left its node is freed when no
        // pin is as old.
        unsafe { separator.as_ref() }.map(|separator| &separator[..])
    }

    pub(crate) fn separator_pointer(&self, index: usize) -> *mut Separator {
        self.separators[index].load(Ordering::Relaxed)
    }

    /// Moves separators as [`Node::shift`] moves entries.
    pub(crate) fn shift_separators(&self, from: Range<usize>, at: usize) {
        shift(from, at, |from, at| self.set_separator(at, self.separator_pointer(from)));
    }

    pub(crate) fn set_separator(&self, index: usize, separator: *mut Separator) {
        self.separators[index].store(separator, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::{Meta, Node};
    use loom::sync::Arc;
    use loom::thread;

    /// Reads a leaf as a reader does, if the read is valid.
    fn read(node: &Node) -> Option<Vec<(u128, u64)>> {
        let version = node.version()?;
        let count = node.meta().count;
        let found = (0..count).map(|index| (node.head(index), node.word(index))).collect();
        node.is_still(version).then_some(found)
    }

    fn leaf(entries: &[u64]) -> Arc<Node> {
        let node = Node::new();
        entries.iter().enumerate().for_each(|(index, entry)| node.set(index, u128::from(*entry), entry * 10));
        node.set_meta(Meta { count: entries.len(), ..Meta::default() });
        Arc::new(node)
    }

    /// A reader beside an insertion in front, and beside a removal, sees the leaf before or after.
    #[test]
    fn a_reader_sees_a_leaf_whole() {
        for (entries, is_insertion) in [([2, 3], true), ([2, 3], false)] {
            loom::model(move || {
                let node = leaf(&entries);
                let other = node.clone();
                let reader = thread::spawn(move || read(&other));
                let meta = node.meta();
                node.lock();
                if is_insertion {
                    node.shift(0..2, 1);
                    node.set(0, 1, 10);
                    node.set_meta(Meta { count: 3, ..meta });
                } else {
                    node.shift(1..2, 0);
                    node.set_meta(Meta { count: 1, ..meta });
                }
                node.unlock();
                let after = if is_insertion { vec![(1, 10), (2, 20), (3, 30)] } else { vec![(3, 30)] };
                if let Some(found) = reader.join().unwrap() {
                    assert!(found == [(2, 20), (3, 30)] || found == after, "{found:?}");
                }
                assert_eq!(read(&node), Some(after));
            });
        }
    }

    /// An overwritten word needs no version.
    #[test]
    fn an_overwritten_entry_is_the_old_or_the_new_one() {
        loom::model(|| {
            let node = leaf(&[1, 2]);
            let other = node.clone();
            let reader = thread::spawn(move || read(&other));
            node.set_word(1, 77);
            let found = reader.join().unwrap().expect("nothing was locked");
            assert!(found == [(1, 10), (2, 20)] || found == [(1, 10), (2, 77)]);
        });
    }
}
