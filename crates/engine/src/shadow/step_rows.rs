//! Rows of a table that count from a step of the transaction on.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// Bytes of DRAM of a row, roughly.
const ROW_BYTES: usize = 40;

/// Rows of one table, each from the step on in which it was added.
#[derive(Default)]
pub(crate) struct StepRows {
    /// The step by row number.
    rows: BTreeMap<u64, u64>,
}

impl StepRows {
    /// Adds a row from step `step` on. Returns false if it was there already.
    pub(crate) fn add(&mut self, row: u64, step: u64) -> bool {
        match self.rows.entry(row) {
            Entry::Vacant(place) => {
                place.insert(step);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// Takes a row back.
    pub(crate) fn remove(&mut self, row: u64) {
        self.rows.remove(&row);
    }

    /// Takes the rows back that were added after step `seen`.
    pub(crate) fn undo_to(&mut self, seen: u64) {
        self.rows.retain(|_, step| *step <= seen);
    }

    /// Whether there are none, whatever the step.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether a row counts for a read that sees the steps up to `seen`.
    pub(crate) fn has(&self, row: u64, seen: u64) -> bool {
        self.rows.get(&row).is_some_and(|step| *step <= seen)
    }

    /// The rows in a range of row numbers, whatever the step.
    pub(crate) fn within(&self, rows: Range<u64>) -> impl Iterator<Item = u64> {
        self.rows.range(rows).map(|(row, _)| *row)
    }

    /// Estimated DRAM, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.len() * ROW_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::{ROW_BYTES, StepRows};

    /// Hazard: rows that are added again and again pile up, or undo takes one back too early.
    #[test]
    fn a_row_is_kept_once_and_from_its_first_step() {
        let mut rows = StepRows::default();
        for step in 1..1000 {
            assert_eq!(rows.add(7, step), step == 1);
        }
        assert!(rows.add(9, 5));
        assert_eq!(rows.bytes(), 2 * ROW_BYTES);
        assert!(!rows.has(7, 0) && rows.has(7, 1) && rows.has(9, 5) && !rows.has(9, 4));
        rows.undo_to(4);
        assert_eq!(rows.within(0..10).collect::<Vec<_>>(), [7]);
        rows.remove(7);
        assert!(rows.is_empty() && rows.bytes() == 0);
    }
}
