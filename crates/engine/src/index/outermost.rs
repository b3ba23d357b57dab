//! The entry that is nearest to a bound, whoever has inserted it.

use super::leaf_shadow::View;
use super::table_index::Index;
use crate::error::Result;

/// All that is committed, for walks that pass vacant leaves by.
const ALL: View<'static> = View::newest(None);

/// The last entry of `index` below `bound`: also one that a transaction inserts or deletes which is
/// not decided, and one that was deleted and is not purged. The caller holds a snapshot.
pub(crate) fn last_below(index: &Index, bound: &[u8]) -> Result<Option<Vec<u8>>> {
    index.check()?;
    let mut bound = bound.to_vec();
    while let Some((found, low)) = index.order().populated_below(&bound, &ALL) {
        let Some(leaf) = index.order().lock(low)? else { continue };
        // If the leaf is still there it has all that lies between its low key and the bound.
        if index.order().populated_below(&bound, &ALL).is_none_or(|(now, _)| now != found) {
            continue;
        }
        let entries = leaf.entries()?;
        if let Some((last, _)) = entries.iter().rfind(|(entry, _)| *entry < &bound[..]) {
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
    while let Some(leaf) = index.order().lock(&bound)? {
        let entries = leaf.entries()?;
        if let Some((first, _)) = entries.iter().find(|(entry, _)| *entry >= &bound[..]) {
            return Ok(Some(first.to_vec()));
        }
        match leaf.end.high() {
            Some(high) => bound = high.to_vec(),
            None => break,
        }
    }
    Ok(None)
}
