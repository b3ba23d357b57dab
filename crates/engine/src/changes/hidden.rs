//! Rows of the transaction's snapshot in whose place its own rows are: another transaction has
//! deleted them since, or moved them to another key, and the own row has their primary key.
//! Consistent reads leave them out, so that they never show two rows with one primary key. A row
//! that the transaction writes itself afterwards is shown as it has written it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// Bytes of DRAM of a row, roughly.
const ROW_BYTES: usize = 40;

/// Hidden rows of one table. There are no more than keys that the transaction has inserted.
#[derive(Default)]
pub(crate) struct HiddenRows {
    /// By row number, the step from which on the row is hidden.
    rows: BTreeMap<u64, u64>,
}

impl HiddenRows {
    /// Hides a row from step `step` on. Returns false if it was hidden already.
    pub(crate) fn hide(&mut self, row: u64, step: u64) -> bool {
        match self.rows.entry(row) {
            Entry::Vacant(place) => {
                place.insert(step);
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// Shows a row again.
    pub(crate) fn show(&mut self, row: u64) {
        self.rows.remove(&row);
    }

    /// Shows the rows again that were hidden after step `seen`.
    pub(crate) fn undo_to(&mut self, seen: u64) {
        self.rows.retain(|_, step| *step <= seen);
    }

    /// Whether a row is hidden from a read that sees the steps up to `seen`.
    pub(crate) fn has(&self, row: u64, seen: u64) -> bool {
        self.rows.get(&row).is_some_and(|step| *step <= seen)
    }

    /// Hidden rows of a range of row numbers.
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
    use super::{HiddenRows, ROW_BYTES};

    /// Hazard: keys that come and go within a transaction pile up what they hide, or undo shows a
    /// row too early.
    #[test]
    fn a_row_is_kept_once_and_from_its_first_step() {
        let mut hidden = HiddenRows::default();
        for step in 1..1000 {
            assert_eq!(hidden.hide(7, step), step == 1);
        }
        assert!(hidden.hide(9, 5));
        assert_eq!(hidden.bytes(), 2 * ROW_BYTES);
        assert!(!hidden.has(7, 0) && hidden.has(7, 1) && hidden.has(9, 5) && !hidden.has(9, 4));
        hidden.undo_to(4);
        assert_eq!(hidden.within(0..10).collect::<Vec<_>>(), [7]);
        hidden.show(7);
        assert_eq!(hidden.bytes(), 0);
    }
}
