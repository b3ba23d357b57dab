//! How many entries a range has, without looking at each.
//!
//! The optimizer asks for each range of each index that a statement could use, so an estimate must
//! cost little beside the statement. A long range takes two ways down the tree in DRAM, and no
//! leaf.

use super::bounds::{end_of, start_of};
use super::entry_order::Bound as EntryBound;
use super::leaf::{LeafBytes, bits};
use super::leaf_shadow::View;
use super::populated::LowKeys;
use super::table_index::Index;
use crate::error::Result;
use perdura_tree::Tree;
use std::ops::Bound;

/// Leaves behind the first up to which the entries of a range are counted.
const COUNTED: u64 = 4;

/// Number of entries of an index between two bounds, which are beginnings of keys: counted within a
/// few leaves, otherwise by the number of leaves between. All of the index has about `entries`. The
/// caller holds a snapshot.
pub(crate) fn estimate(
    index: &Index,
    (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    view: &View<'_>,
    entries: u64,
) -> Result<u64> {
    let (key, end) = (start_of(from), end_of(to));
    if key >= end {
        return index.check().map(|()| 0);
    }
    // Leaves that a walk passes by do not count.
    let order = index.order();
    let between = |tree: &Tree<LowKeys>| (tree.between(&key, &end), tree.len());
    let (leaves, all) = order.populated().among(view, between).unwrap_or_else(|| between(order.tree()));
    if leaves > COUNTED {
        index.check()?;
        return Ok((u128::from(leaves) * u128::from(entries) / u128::from(all.max(1))).max(1) as u64);
    }
    count(index, key, &end, view)
}

/// Number of entries from `key` to before `end`, in twice as many leaves as are counted at
/// most.
fn count(index: &Index, mut key: Vec<u8>, end: &[u8], view: &View<'_>) -> Result<u64> {
    let mut counted = 0;
    for _ in 0..=2 * COUNTED {
        let found = index.read(&key, view, |leaf, slots, end_of_leaf| {
            let high = end_of_leaf.high();
            // Entries that a leaf was left with beyond its end count as well: few leaves have some.
            let end = high.is_none_or(|high| end < high).then_some(end);
            Ok((entries_between(leaf, slots, &key, end), high.map(<[u8]>::to_vec)))
        })?;
        let Some((entries, high)) = found else { break };
        counted += entries;
        match high {
            Some(high) if &high[..] < end => key = high,
            _ => break,
        }
    }
    Ok(counted)
}

/// Number of entries in `slots` of a leaf from `key` to before `end`; `None`: all of them lie below
/// that. An estimate takes entries for what they say: whoever reads them checks them.
fn entries_between(leaf: &LeafBytes<'_>, slots: u64, key: &[u8], end: Option<&[u8]>) -> u64 {
    // All of most leaves of a range lies in it.
    if end.is_none() && leaf.low() >= key {
        return slots.count_ones().into();
    }
    let (from, end) = (EntryBound::new(key), end.map(EntryBound::new));
    let entries = bits(slots).filter_map(|slot| leaf.unchecked_entry(slot));
    let is_in = |entry: &&[u8]| !from.is_above(entry) && end.is_none_or(|end| end.is_above(entry));
    entries.filter(is_in).count() as u64
}
