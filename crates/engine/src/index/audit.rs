//! The audit of a table's indexes at rest: it accounts for every leaf and every entry (I4, I8).
//!
//! It is for tests and tools. No transaction may be active.

use super::indexes::Indexes;
use super::leaf::{LeafId, bits};
use super::tree::{Index, damaged};
use crate::error::{Error, Result};
use crate::format::{data_file_name, entry_row};
use perdura_tree::Keys;
use rustc_hash::FxHashSet;

impl Indexes {
    /// Checks that each index has exactly one entry for each of the rows that `is_row` knows, of
    /// which there are `rows`; that entries are sound and in order; and that each place of a leaf
    /// is used once, or free.
    ///
    /// # Errors
    /// Damaged, with what does not add up.
    pub fn audit(&self, rows: u64, is_row: impl Fn(u64) -> bool) -> Result<()> {
        let mut leaves: FxHashSet<LeafId> = FxHashSet::default();
        self.iter().try_for_each(|index| index.audit_rows(Some(rows), &is_row, &mut leaves))?;
        let (free, places) = self.leaves().counts();
        if leaves.len() + free != places {
            let what = format_args!("{} leaves in use and {free} free ones at {places} places", leaves.len());
            return Err(Error::damaged("index", 0, what));
        }
        Ok(())
    }
}

impl Indexes {
    /// Verifies each index of a table that nobody uses, and tells `found` what is wrong. Entries
    /// are compared with `rows` unless redo is still to change them.
    pub fn verify_all(&self, rows: Option<u64>, is_row: impl Fn(u64) -> bool, mut found: impl FnMut(Error)) {
        let mut leaves: FxHashSet<LeafId> = FxHashSet::default();
        for index in self.iter() {
            if let Err(fault) = index.audit_rows(rows, &is_row, &mut leaves) {
                found(fault);
            }
        }
    }
}

impl Index {
    fn audit_rows(
        &self,
        rows: Option<u64>,
        is_row: &impl Fn(u64) -> bool,
        leaves: &mut FxHashSet<LeafId>,
    ) -> Result<()> {
        self.check()?;
        let found = self.audit(rows.is_some(), is_row, leaves)?;
        match rows {
            Some(rows) if found != rows => {
                let what = format_args!("index {} has {found} entries for {rows} rows", self.number());
                Err(Error::damaged(&data_file_name(self.leaves().table(), 0), 0, what))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of entries. Unless `is_strict`, redo is still to come: a row may have an
    /// entry for the key before and one for its present one.
    fn audit(&self, is_strict: bool, is_row: &impl Fn(u64) -> bool, leaves: &mut FxHashSet<LeafId>) -> Result<u64> {
        let mut of_index: Vec<LeafId> = Vec::new();
        self.each_leaf(|leaf| of_index.push(leaf));
        let mut rows: FxHashSet<u64> = FxHashSet::default();
        for (at, leaf) in of_index.iter().enumerate() {
            let high = of_index.get(at + 1).map(|next| self.tree.keys().key((*next).into()));
            let bytes = self.leaves().bytes(*leaf);
            if !leaves.insert(*leaf) {
                return Err(damaged(&bytes, "a leaf is in use twice"));
            }
            if !bytes.is_sound(self.leaves().salt(*leaf)) {
                return Err(damaged(&bytes, "the header of an index' leaf does not match its check"));
            }
            if let Some(shadow) = self.leaves().leaf(*leaf).slot.lock_existing()
                && !shadow.is_stored()
            {
                return Err(damaged(&bytes, "a change of an index' leaf has no transaction"));
            }
            let valid = bytes.valid().ok_or_else(|| damaged(&bytes, "the valid word of an index' leaf is damaged"))?;
            if !self.is_populated(*leaf) && (valid != 0 || !self.leaves().leaf(*leaf).is_vacant()) {
                return Err(damaged(&bytes, "walks pass by a leaf that has entries"));
            }
            for slot in bits(valid) {
                let entry =
                    bytes.entry(slot).ok_or_else(|| damaged(&bytes, "an entry of an index' leaf is damaged"))?;
                if high.is_some_and(|high| entry >= high) {
                    continue;
                }
                let is_first = rows.insert(entry_row(entry)) || !is_strict;
                if entry < bytes.low() || !is_row(entry_row(entry)) || !is_first {
                    return Err(damaged(&bytes, "an entry is out of place, or of no row, or one of two of a row"));
                }
                if bytes.find(1 << slot, entry) != Some(slot) {
                    return Err(damaged(&bytes, "an entry does not have its fingerprint"));
                }
            }
        }
        Ok(rows.len() as u64)
    }
}
