//! Rows of the transaction's snapshot in whose place its own rows are: another transaction has deleted them since, or moved
//! them to another key, and the own row has their primary key. Consistent reads leave them out, so that they never show
//! two rows with one primary key. A row that the transaction writes itself afterwards is shown as it has written it.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of DRAM of a row, roughly.
const ROW_BYTES: usize = 40;

/// Hidden rows of one table. There are no more than keys that the transaction has inserted.
#[derive(Default)]
pub struct HiddenRows {
    /// By row number, the step from which on the row is hidden.
    rows: BTreeMap<u64, u64>,
}

impl HiddenRows {
    /// Hides a row from step `step` on. Returns false if it was hidden already.
    pub fn hide(&mut self, row: u64, step: u64) -> bool {
        let is_new = !self.rows.contains_key(&row);
        self.rows.entry(row).or_insert(step);
        is_new
    }

    /// Shows a row again.
    pub fn show(&mut self, row: u64) {
        self.rows.remove(&row);
    }

    /// Shows the rows again that were hidden after step `seen`.
    pub fn undo_to(&mut self, seen: u64) {
        self.rows.retain(|_, step| *step <= seen);
    }

    /// Whether a row is hidden from a read that sees the steps up to `seen`.
    pub fn has(&self, row: u64, seen: u64) -> bool {
        self.rows.get(&row).is_some_and(|step| *step <= seen)
    }

    /// Hidden rows of a range of row numbers.
    pub fn within(&self, rows: Range<u64>) -> impl Iterator<Item = u64> {
        self.rows.range(rows).map(|(row, _)| *row)
    }

    /// Estimated DRAM, in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.len() * ROW_BYTES
    }
}
