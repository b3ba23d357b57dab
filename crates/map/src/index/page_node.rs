//! Nodes of the B+-tree: read in place, changed in one entry, or built anew.
//!
//! A node is a header word (entries, level, skip), then three arrays of `branching` words each:
//! heads, references to the records, and, in inner nodes, links to the children. The entry of a
//! child is the child's first entry. A head is eight bytes of a key after the first `skip`, which
//! all keys of the node share, so that long common prefixes cost no comparison. Separate arrays let
//! a search read heads only: up to 7 of them lie in the header's cache line.
//!
//! On the way down, the head in the parent tells whether the target has the child's common prefix.

use crate::error::Result;
use crate::memory::format::{Ref, node_header};
use crate::memory::record::{PREFIX_GAIN, Records, common_bytes, head8};
use smallvec::SmallVec;
use std::cmp::Ordering;

/// Up to this many heads a linear scan beats a binary search.
const SCANNED_MAX: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) head: u64,
    pub(crate) record: Ref,
    /// Link to the child. 0 in leaves.
    pub(crate) child: u64,
}

/// Position of a target in a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Count of the entries that are not above the target.
    pub(crate) rank: usize,
    /// Whether the last of those is the target itself.
    pub(crate) exact: bool,
    /// Whether the target has the node's common prefix.
    pub(crate) shares: bool,
}

/// A parent's information on its child's first key: the head, after `skip` bytes that the target
/// has too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Above {
    skip: usize,
    head: u64,
}

/// A node where it lies.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    words: &'a [u64],
    branching: usize,
}

impl<'a> Node<'a> {
    /// Views `words`, which have the length of a node of their level and count at most `branching`
    /// entries.
    #[inline]
    pub(crate) fn new(words: &'a [u64], branching: usize) -> Node<'a> {
        Node { words, branching }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        (self.words[0] & 0xff) as usize
    }

    #[inline]
    pub(crate) fn level(&self) -> u8 {
        (self.words[0] >> 8) as u8
    }

    /// Length of the prefix that all keys share and heads leave out.
    #[inline]
    pub(crate) fn skip(&self) -> usize {
        (self.words[0] >> 16 & 0xffff) as usize
    }

    #[inline]
    fn heads(&self) -> &'a [u64] {
        &self.words[1..1 + self.len()]
    }

    #[inline]
    pub(crate) fn record(&self, index: usize) -> Ref {
        Ref(self.words[1 + self.branching + index])
    }

    /// Link to a child. For inner nodes only.
    #[inline]
    pub(crate) fn child(&self, index: usize) -> u64 {
        self.words[1 + 2 * self.branching + index]
    }

    pub(crate) fn slot(&self, index: usize) -> Slot {
        let child = if self.level() == 0 { 0 } else { self.child(index) };
        Slot { head: self.heads()[index], record: self.record(index), child }
    }

    pub(crate) fn slots(&self) -> impl ExactSizeIterator<Item = Slot> + use<'a> {
        let node = *self;
        (0..self.len()).map(move |index| node.slot(index))
    }

    /// All words of the node, header included.
    pub(crate) fn words(&self) -> &'a [u64] {
        self.words
    }

    /// Information that the search in child `index` needs from this node.
    #[inline]
    pub(crate) fn above(&self, index: usize, standing: &Standing) -> Option<Above> {
        standing.shares.then(|| Above { skip: self.skip(), head: self.heads()[index] })
    }

    /// Finds where the target stands. Error: `Damaged`.
    #[inline]
    pub(crate) fn locate(&self, records: &Records, key: &[u8], above: Option<Above>) -> Result<Standing> {
        let skip = self.skip();
        if skip > 0 {
            match self.order_of_prefix(records, key, above)? {
                Ordering::Equal => {}
                Ordering::Less => return Ok(Standing { rank: 0, exact: false, shares: false }),
                Ordering::Greater => return Ok(Standing { rank: self.len(), exact: false, shares: false }),
            }
        }
        let heads = self.heads();
        let head = head8(key, skip);
        let mut low = match heads.len() {
            ..=SCANNED_MAX => heads.iter().map(|other| usize::from(*other < head)).sum::<usize>(),
            _ => heads.partition_point(|other| *other < head),
        };
        let mut high = low + heads[low..].iter().take_while(|other| **other == head).count();
        while low < high {
            let middle = usize::midpoint(low, high);
            match records.get(self.record(middle))?.key.cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(Standing { rank: middle + 1, exact: true, shares: true }),
                Ordering::Greater => high = middle,
            }
        }
        Ok(Standing { rank: low, exact: false, shares: true })
    }

    /// Compares the target's first `skip` bytes with the common prefix.
    #[inline]
    fn order_of_prefix(&self, records: &Records, key: &[u8], above: Option<Above>) -> Result<Ordering> {
        let skip = self.skip();
        if let Some(above) = above
            && skip <= above.skip + 8
            && key.len() >= skip
        {
            if skip <= above.skip {
                return Ok(Ordering::Equal);
            }
            let beyond = 64 - 8 * (skip - above.skip);
            return Ok((head8(key, above.skip) >> beyond).cmp(&(above.head >> beyond)));
        }
        let first = records.get(self.record(0))?.key;
        Ok(key[..key.len().min(skip)].cmp(&first[..first.len().min(skip)]))
    }

    /// Checks that heads and prefix are those of the records. Error: `Damaged`.
    pub(crate) fn check_heads(&self, records: &Records) -> Result<()> {
        for index in 0..self.len() {
            let key = records.get(self.record(index))?.key;
            if !self.shares(records, key)? || head8(key, self.skip()) != self.heads()[index] {
                return Err(
                    records.damaged(self.record(index).offset(), "a node's head is not that of the record's key")
                );
            }
        }
        Ok(())
    }

    /// Whether a key has the node's common prefix.
    pub(crate) fn shares(&self, records: &Records, key: &[u8]) -> Result<bool> {
        let skip = self.skip();
        Ok(skip == 0 || key.get(..skip) == records.get(self.record(0))?.key.get(..skip))
    }
}

/// The one difference between a node and its copy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tweak {
    /// Another link at an index; the child's first entry is unchanged.
    Relink(usize, u64),
    /// Another entry at an index.
    Replace(usize, Slot),
    /// A new entry at an index; the node has room.
    Insert(usize, Slot),
    /// The entry at an index is removed; some remain.
    Remove(usize),
}

impl Tweak {
    /// Whether the first entry changes.
    pub(crate) fn is_first(&self) -> bool {
        matches!(self, Tweak::Replace(0, _) | Tweak::Insert(0, _) | Tweak::Remove(0))
    }

    /// Applies the change to a copied node's words.
    #[inline]
    pub(crate) fn apply(&self, words: &mut [u64], branching: usize) {
        let node = Node::new(words, branching);
        let (count, level, skip) = (node.len(), node.level(), node.skip() as u16);
        let arrays = if level == 0 { 2 } else { 3 };
        let bases = (0..arrays).map(|array| 1 + array * branching);
        let left = match self {
            Tweak::Relink(index, child) => {
                words[1 + 2 * branching + index] = *child;
                count
            }
            Tweak::Replace(..) => count,
            Tweak::Insert(index, _) => {
                bases.clone().for_each(|base| words.copy_within(base + index..base + count, base + index + 1));
                count + 1
            }
            Tweak::Remove(index) => {
                bases.clone().for_each(|base| words.copy_within(base + index + 1..base + count, base + index));
                count - 1
            }
        };
        if let Tweak::Replace(index, slot) | Tweak::Insert(index, slot) = self {
            for (base, word) in bases.zip([slot.head, slot.record.0, slot.child]) {
                words[base + index] = word;
            }
        }
        words[0] = node_header(left, level, skip);
    }
}

/// A node being built. It may have one entry more than a node holds, until it is split.
#[derive(Clone)]
pub(crate) struct Build {
    pub(crate) level: u8,
    pub(crate) skip: u16,
    /// Whether the heads do not match `skip`, or the keys share fewer bytes.
    pub(crate) is_stale: bool,
    pub(crate) slots: SmallVec<[Slot; 36]>,
}

impl Build {
    pub(crate) fn new(level: u8) -> Build {
        Build { level, skip: 0, is_stale: false, slots: SmallVec::new() }
    }

    pub(crate) fn from(node: &Node<'_>) -> Build {
        let slots = node.slots().collect();
        Build { level: node.level(), skip: node.skip() as u16, is_stale: false, slots }
    }

    /// Brings heads and skip up to date, and lengthens the skip if that pays.
    pub(crate) fn settle(&mut self, records: &Records) -> Result<()> {
        let (Some(first), Some(last)) = (self.slots.first(), self.slots.last()) else { return Ok(()) };
        let common = common_bytes(records.get(first.record)?.key, records.get(last.record)?.key);
        let common = common.min(usize::from(u16::MAX));
        if self.is_stale || common >= usize::from(self.skip) + PREFIX_GAIN {
            for slot in &mut self.slots {
                slot.head = head8(records.get(slot.record)?.key, common);
            }
            (self.skip, self.is_stale) = (common as u16, false);
        }
        Ok(())
    }

    /// Writes the node's words. `words` has the length of a node of this level.
    pub(crate) fn write(&self, words: &mut [u64], branching: usize) {
        debug_assert!(!self.is_stale);
        words.fill(0);
        for (index, slot) in self.slots.iter().enumerate() {
            words[1 + index] = slot.head;
            words[1 + branching + index] = slot.record.0;
            if self.level > 0 {
                words[1 + 2 * branching + index] = slot.child;
            }
        }
        words[0] = node_header(self.slots.len(), self.level, self.skip);
    }
}
