//! The entry that is nearest to a bound, whoever has inserted it.

use super::leaf::{bits, damaged};
use super::leaf_order::LockedLeaf;
use super::leaf_shadow::View;
use super::table_index::Index;
use crate::error::Result;
use perdura_log::Csn;

/// All that is committed, for walks that pass vacant leaves by.
const ALL: View<'static> = View { snapshot: Csn::MAX, own: None };

/// The last entry of `index` below `bound`: also one that a transaction inserts or deletes which is
/// not decided, and one that was deleted and is not purged. The caller holds a snapshot.
pub(crate) fn last_below(index: &Index, bound: &[u8]) -> Result<Option<Vec<u8>>> {
    index.check()?;
    let mut bound = bound.to_vec();
    while let Some((found, low)) = index.order().populated_below(&bound, &ALL) {
        let Some(leaf) = index.order().lock(low) else { continue };
        // If the leaf is still there it has all that lies between its low key and the bound.
        if index.order().populated_below(&bound, &ALL).is_none_or(|(now, _)| now != found) {
            continue;
        }
        let last = entries(&leaf)?.into_iter().filter(|entry| *entry < &bound[..]).max();
        if let Some(last) = last {
            return Ok(Some(last.to_vec()));
        }
        bound = low.to_vec();
    }
    Ok(None)
}

/// The first entry of `index` at `bound` or above, as [`last_below`].
pub(crate) fn first_from(index: &Index, bound: &[u8]) -> Result<Option<Vec<u8>>> {
    index.check()?;
    let mut bound = bound.to_vec();
    while let Some(leaf) = index.order().lock(&bound) {
        let first = entries(&leaf)?.into_iter().filter(|entry| *entry >= &bound[..]).min();
        if let Some(first) = first {
            return Ok(Some(first.to_vec()));
        }
        match leaf.end.high() {
            Some(high) => bound = high.to_vec(),
            None => break,
        }
    }
    Ok(None)
}

/// All entries that have a slot in a leaf.
fn entries<'i>(leaf: &LockedLeaf<'i>) -> Result<Vec<&'i [u8]>> {
    let high = leaf.end.high();
    let entry =
        |slot| leaf.bytes.entry(slot).ok_or_else(|| damaged(&leaf.bytes, "an entry of an index' leaf is damaged"));
    // Entries that a leaf was left with beyond its end are those of the next.
    let is_in = |entry: &Result<&[u8]>| !matches!((entry, high), (Ok(entry), Some(high)) if *entry >= high);
    bits(leaf.shadow.occupied(leaf.valid()?)).map(entry).filter(is_in).collect()
}
