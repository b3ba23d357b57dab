//! How many entries a range has, without looking at each.
//!
//! The optimizer asks for each range of each index that a statement could use, so an estimate must
//! cost little beside the statement. A long range takes two ways down the tree in DRAM, and no
//! leaf.

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
    let key = match from {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key.to_vec(),
        Bound::Excluded(key) => beyond(key),
    };
    let end = match to {
        Bound::Unbounded => beyond(b""),
        Bound::Included(key) => beyond(key),
        Bound::Excluded(key) => key.to_vec(),
    };
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

/// The least bound above all keys that begin with `key`; above all keys if it has only bytes that
/// are greatest.
pub(crate) fn beyond(key: &[u8]) -> Vec<u8> {
    match key.iter().rposition(|byte| *byte != 0xff) {
        Some(last) => {
            let mut bound = key[..=last].to_vec();
            bound[last] += 1;
            bound
        }
        None => vec![0xff; crate::format::ENTRY_BYTES_MAX + 1],
    }
}

#[cfg(test)]
mod tests {
    use super::beyond;

    #[test]
    fn the_bound_beyond_a_key_is_the_least_above_all_that_begin_with_it() {
        const BYTES: [u8; 4] = [0, 1, 0xfe, 0xff];
        let mut all = vec![Vec::new()];
        for length in 0..4 {
            let longest: Vec<Vec<u8>> = all.iter().filter(|key| key.len() == length).cloned().collect();
            all.extend(longest.iter().flat_map(|key| BYTES.map(|byte| [key, &[byte][..]].concat())));
        }
        for key in &all {
            let bound = beyond(key);
            for other in &all {
                assert_eq!(*other < bound, other < key || other.starts_with(key), "{other:?} beside that of {key:?}");
            }
        }
        assert!(beyond(&[0xff; 3072]) > vec![0xff; crate::format::ENTRY_BYTES_MAX]);
    }
}
