//! The leaves that a transaction has touched in one table.

use super::leaf::{LeafId, Lines, Range};
use super::leaf_shadow::First;
use super::leaves::Leaves;
use smallvec::SmallVec;

/// Places that are flushed at once: the next locked instruction waits for all flushes, so once for
/// several.
const FLUSHED_AT_ONCE: usize = 16;

/// DRAM of a leaf that a transaction has touched, in bytes: its shadow, the change, entries in
/// lists.
const LEAF_BYTES: usize = 250;

/// The leaves that a transaction has touched in one table.
#[derive(Default)]
pub(crate) struct TouchedLeaves {
    /// In the order in which it came to them; some are named twice.
    leaves: Vec<LeafId>,
    /// The first change of a leaf in each step, in the order of time; forgotten up to the oldest
    /// position that is left.
    journal: Vec<(u64, LeafId)>,
    /// Lines written last and not flushed.
    unflushed: SmallVec<[(LeafId, Lines); FLUSHED_AT_ONCE]>,
    /// Something was flushed and is not fenced.
    flushed: bool,
    /// Entries wait for the record, which may carry them.
    by_value: bool,
}

impl TouchedLeaves {
    /// None so far; `by_value` says that small transactions are logged by value.
    pub(crate) fn new(by_value: bool) -> TouchedLeaves {
        TouchedLeaves { by_value, ..TouchedLeaves::default() }
    }

    /// Whether nothing was touched.
    pub(crate) fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    /// Whether entries wait for the record, which may carry them.
    #[inline]
    pub(super) fn is_by_value(&self) -> bool {
        self.by_value
    }

    /// The leaves touched.
    pub(crate) fn leaves(&self) -> &[LeafId] {
        &self.leaves
    }

    /// Takes the leaves touched.
    pub(crate) fn take(&mut self) -> Vec<LeafId> {
        self.journal.clear();
        std::mem::take(&mut self.leaves)
    }

    /// Estimated DRAM, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.leaves.len() * LEAF_BYTES
    }

    /// Notes a change of a leaf, and what it begins there.
    pub(super) fn note(&mut self, leaf: LeafId, step: u64, first: First) {
        if first.of_writer {
            self.leaves.push(leaf);
        }
        if first.of_step {
            self.journal.push((step, leaf));
        }
    }

    /// Notes what was written, to be flushed together with what follows it, unless it waits for the
    /// record.
    pub(super) fn note_written(&mut self, leaves: &Leaves, leaf: LeafId, ranges: [Range; 3]) {
        if self.by_value {
            return;
        }
        let mut lines = Lines::default();
        ranges.iter().for_each(|range| lines.add(range));
        if let Some((_, known)) = self.unflushed.iter_mut().rev().find(|(known, _)| *known == leaf) {
            return known.add_all(&lines);
        }
        self.unflushed.push((leaf, lines));
        // With what was stored last, which may share lines with the rest.
        if self.unflushed.len() == FLUSHED_AT_ONCE {
            self.flush_gathered(leaves);
        }
    }

    /// Flushes what is not flushed yet.
    pub(super) fn flush_gathered(&mut self, leaves: &Leaves) {
        for (leaf, lines) in self.unflushed.drain(..) {
            leaves.bytes(leaf).flush(&lines);
            self.flushed = true;
        }
    }

    /// Flushes what is not flushed yet. Returns whether anything was since the last call; if so,
    /// the caller fences.
    pub(crate) fn flush_rest(&mut self, leaves: &Leaves) -> bool {
        self.flush_gathered(leaves);
        std::mem::take(&mut self.flushed)
    }

    /// Forgets what nobody can go back to, up to step `floor`.
    pub(crate) fn forget_below(&mut self, floor: u64) {
        if self.journal.last().is_some_and(|(step, _)| *step <= floor) {
            self.journal.clear();
        }
    }

    /// The leaves changed in steps after `seen`; that is forgotten.
    pub(crate) fn take_since(&mut self, seen: u64) -> Vec<LeafId> {
        let kept = self.journal.iter().rposition(|(step, _)| *step <= seen).map_or(0, |last| last + 1);
        self.journal.drain(kept..).map(|(_, leaf)| leaf).collect()
    }
}
