//! The audit of a table's indexes at rest: it accounts for every leaf and every entry (I4, I8).
//!
//! It is for tests and tools. No transaction may be active.

use super::indexes::Indexes;
use super::leaf::{LeafId, bits, damaged};
use super::table_index::Index;
use crate::error::{Error, Result};
use crate::format::{Word, data_file_name, entry_row};
use rustc_hash::FxHashSet;

/// Checks that each index has exactly one entry for each of the rows that `is_row` knows, of which
/// there are `rows`; that entries are sound and in order; and that each place of a leaf is used
/// once, or free.
///
/// # Errors
/// Damaged, with what does not add up.
pub(crate) fn audit(indexes: &Indexes, rows: u64, is_row: impl Fn(u64) -> bool) -> Result<()> {
    let mut audit = Audit { rows: Some(rows), is_row, carried: &|_, _| None, leaves: FxHashSet::default() };
    indexes.iter().try_for_each(|index| audit.index(index))?;
    let (free, places) = indexes.leaves().counts();
    if audit.leaves.len() + free != places {
        let what = format_args!("{} leaves in use and {free} free ones at {places} places", audit.leaves.len());
        return Err(Error::damaged("index", 0, what));
    }
    Ok(())
}

/// Verifies each index of a table that nobody uses, and tells `found` what is wrong. Entries are
/// compared with `rows` unless redo is still to change them; `carried` tells those that it is still
/// to write, by the place of the leaf and slot.
pub(crate) fn verify_all(
    indexes: &Indexes,
    rows: Option<u64>,
    is_row: impl Fn(u64) -> bool,
    carried: CarriedAt<'_>,
    found: impl FnMut(Error),
) {
    let mut audit = Audit { rows, is_row, carried, leaves: FxHashSet::default() };
    indexes.iter().filter_map(|index| audit.index(index).err()).for_each(found);
}

/// Tells entries that redo is still to write, by the place of the leaf and slot.
pub(crate) type CarriedAt<'c> = &'c dyn Fn(Word, u32) -> Option<&'c [u8]>;

/// An audit of a table's indexes.
struct Audit<'c, R> {
    /// Number of rows of the table. `None` if redo is still to come: a row may then have an entry
    /// for the key before and one for its present one.
    rows: Option<u64>,
    /// Whether the table has a row.
    is_row: R,
    carried: CarriedAt<'c>,
    /// The leaves met so far.
    leaves: FxHashSet<LeafId>,
}

impl<R: Fn(u64) -> bool> Audit<'_, R> {
    fn index(&mut self, index: &Index) -> Result<()> {
        index.check()?;
        let found = self.entries(index)?;
        match self.rows {
            Some(rows) if found != rows => {
                let what = format_args!("index {} has {found} entries for {rows} rows", index.number());
                Err(Error::damaged(&data_file_name(index.leaves().table(), 0), 0, what))
            }
            _ => Ok(()),
        }
    }

    /// Checks the leaves of an index. Returns the number of entries.
    fn entries(&mut self, index: &Index) -> Result<u64> {
        let mut of_index: Vec<LeafId> = Vec::new();
        index.order().each_leaf(|leaf| of_index.push(leaf));
        let mut rows: FxHashSet<u64> = FxHashSet::default();
        for (at, leaf) in of_index.iter().enumerate() {
            let high = of_index.get(at + 1).map(|next| index.order().low((*next).into()));
            let bytes = index.leaves().bytes(*leaf);
            if !self.leaves.insert(*leaf) {
                return Err(damaged(&bytes, "a leaf is in use twice"));
            }
            if !bytes.is_sound(index.leaves().salt(*leaf)) {
                return Err(damaged(&bytes, "the header of an index' leaf does not match its check"));
            }
            if let Some(shadow) = index.leaves().leaf(*leaf).slot.lock_existing()
                && !shadow.is_stored()
            {
                return Err(damaged(&bytes, "a change of an index' leaf has no transaction"));
            }
            let valid = bytes.sound_valid()?;
            if !index.order().populated().has(*leaf) && (valid != 0 || !index.leaves().leaf(*leaf).is_vacant()) {
                return Err(damaged(&bytes, "walks pass by a leaf that has entries"));
            }
            for slot in bits(valid) {
                let carried = (self.carried)(index.leaves().word(*leaf), slot);
                let entry = carried.map_or_else(|| bytes.sound_entry(slot), Ok)?;
                if high.is_some_and(|high| entry >= high) {
                    continue;
                }
                let is_first = rows.insert(entry_row(entry)) || self.rows.is_none();
                if entry < bytes.low() || !(self.is_row)(entry_row(entry)) || !is_first {
                    return Err(damaged(&bytes, "an entry is out of place, or of no row, or one of two of a row"));
                }
                if carried.is_none() && bytes.find(1 << slot, entry) != Some(slot) {
                    return Err(damaged(&bytes, "an entry does not have its fingerprint"));
                }
            }
        }
        Ok(rows.len() as u64)
    }
}
