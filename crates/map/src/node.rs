//! Nodes of the index: read in place, and built anew for every change.
//!
//! A node is a header word (entries, level, CRC32C), then three arrays of `branching` words each: the heads of the keys
//! (first eight bytes), references to the records, and, in inner nodes, links to the children. The entry of a child is
//! that child's first one, exactly. Arrays, so that a search reads heads only: with 7 children one cache line.
//!
//! The same layout serves pages of persistent memory (links are references) and DRAM (links are addresses).

use crate::error::Result;
use crate::format::{Ref, node_header};
use crate::record::{Records, Target};
use smallvec::SmallVec;
use std::cmp::Ordering;

/// Heads up to which looking at all is faster than halving.
const FEW: usize = 8;

/// One entry of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) head: u64,
    pub(crate) record: Ref,
    /// In leaves 0.
    pub(crate) child: u64,
}

impl Slot {
    pub(crate) fn entry(&self) -> (u64, Ref) {
        (self.head, self.record)
    }
}

/// A node that lies somewhere.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    words: &'a [u64],
    branching: usize,
}

impl<'a> Node<'a> {
    /// A node in `words`, which are as many as a node of its level has, and whose count is at most `branching`.
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

    #[inline]
    fn heads(&self) -> &'a [u64] {
        &self.words[1..1 + self.len()]
    }

    #[inline]
    pub(crate) fn record(&self, index: usize) -> Ref {
        Ref(self.words[1 + self.branching + index])
    }

    /// Link to a child; of an inner node.
    #[inline]
    pub(crate) fn child(&self, index: usize) -> u64 {
        self.words[1 + 2 * self.branching + index]
    }

    pub(crate) fn slot(&self, index: usize) -> Slot {
        let child = if self.level() == 0 { 0 } else { self.child(index) };
        Slot { head: self.heads()[index], record: self.record(index), child }
    }

    /// How many entries are not above the target, and whether the last of those is the target itself.
    #[inline]
    pub(crate) fn rank(&self, records: &Records, target: &Target<'_>) -> Result<(usize, bool)> {
        let heads = self.heads();
        let mut low = match heads.len() {
            ..=FEW => heads.iter().map(|head| usize::from(*head < target.head)).sum::<usize>(),
            _ => heads.partition_point(|head| *head < target.head),
        };
        let mut high = low + heads[low..].iter().take_while(|head| **head == target.head).count();
        while low < high {
            let middle = usize::midpoint(low, high);
            match records.compare(self.record(middle), target)? {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok((middle + 1, true)),
                Ordering::Greater => high = middle,
            }
        }
        Ok((low, false))
    }
}

/// How a node differs from the one it is copied from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tweak {
    /// Another entry at an index.
    Replace(usize, Slot),
    /// One entry more, which stands at the index; there is room.
    Insert(usize, Slot),
    /// Some entries are left out, from an index up to another; others are left.
    Remove(usize, usize),
}

impl Node<'_> {
    /// Words of the node.
    pub(crate) fn words(&self) -> &[u64] {
        self.words
    }
}

impl Tweak {
    /// Whether the first entry changes.
    pub(crate) fn is_first(&self) -> bool {
        matches!(self, Tweak::Replace(0, _) | Tweak::Insert(0, _) | Tweak::Remove(0, _))
    }

    /// Changes the words of a node. The checksum is left to `crc`.
    #[inline]
    pub(crate) fn apply(&self, words: &mut [u64], branching: usize, crc: impl FnOnce(&[u64]) -> u32) {
        let node = Node::new(words, branching);
        let (count, level) = (node.len(), node.level());
        let arrays = if level == 0 { 2 } else { 3 };
        let bases = (0..arrays).map(|array| 1 + array * branching);
        let left = match self {
            Tweak::Replace(..) => count,
            Tweak::Insert(index, _) => {
                bases.clone().for_each(|base| words.copy_within(base + index..base + count, base + index + 1));
                count + 1
            }
            Tweak::Remove(from, to) => {
                bases.clone().for_each(|base| words.copy_within(base + to..base + count, base + from));
                count - (to - from)
            }
        };
        if let Tweak::Replace(index, slot) | Tweak::Insert(index, slot) = self {
            for (base, word) in bases.zip([slot.head, slot.record.0, slot.child]) {
                words[base + index] = word;
            }
        }
        words[0] = node_header(left, level, crc(&words[1..]));
    }
}

/// A node being built. Room for one entry too many, before it is split.
#[derive(Clone)]
pub(crate) struct Build {
    pub(crate) level: u8,
    pub(crate) slots: SmallVec<[Slot; 36]>,
}

impl Build {
    pub(crate) fn new(level: u8) -> Build {
        Build { level, slots: SmallVec::new() }
    }

    pub(crate) fn from(node: &Node<'_>) -> Build {
        let mut build = Build::new(node.level());
        build.append(node);
        build
    }

    pub(crate) fn append(&mut self, node: &Node<'_>) {
        self.slots.extend((0..node.len()).map(|index| node.slot(index)));
    }

    /// Writes the node's words; `words` has the length of a node of this level. The checksum is left to `crc`, which is
    /// given all words after the header.
    pub(crate) fn write(&self, words: &mut [u64], branching: usize, crc: impl FnOnce(&[u64]) -> u32) {
        words.fill(0);
        for (index, slot) in self.slots.iter().enumerate() {
            words[1 + index] = slot.head;
            words[1 + branching + index] = slot.record.0;
            if self.level > 0 {
                words[1 + 2 * branching + index] = slot.child;
            }
        }
        words[0] = node_header(self.slots.len(), self.level, crc(&words[1..]));
    }
}
