//! The space of an index, estimated: by all of its leaves of one size, or by some of them.

use super::leaf::LeafId;
use super::table_index::Index;

/// Leaves that are looked at.
const LOOKED_AT: usize = 1024;

/// The space of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Number of leaves.
    pub leaves: u64,
    /// Their bytes, estimated by the first thousand if they differ in size.
    pub bytes: u64,
    /// Of the slots of those, how many in a hundred have an entry.
    pub fill: Option<u64>,
    /// Leaves that walks pass by, since older snapshots alone see entries there.
    pub vacant: u64,
    /// Something is wrong with the index.
    pub is_damaged: bool,
}

impl Measured {
    /// Measures an index, and waits for nobody. The caller holds a snapshot.
    pub(crate) fn of(index: &Index) -> Measured {
        let tree = index.order().tree();
        let (mut found, mut from, mut looked_at) = (Vec::new(), Vec::new(), 0usize);
        let (mut bytes, mut slots, mut entries) = (0, 0, 0);
        while looked_at < LOOKED_AT {
            tree.page_from(&from, looked_at == 0, &mut found);
            let Some(last) = found.last() else { break };
            from = index.order().low(*last).to_vec();
            if index.leaves().check_medium().is_err() {
                break;
            }
            for leaf in &found {
                let leaf = index.leaves().bytes(*leaf as LeafId);
                bytes += leaf.size();
                slots += u64::from(leaf.slots());
                entries += u64::from(leaf.loaded_valid().count_ones());
            }
            looked_at += found.len();
        }
        let leaves = tree.len();
        let vacant = leaves.saturating_sub(index.order().populated().len());
        let of_all = |bytes: u64| (u128::from(bytes) * u128::from(leaves) / looked_at.max(1) as u128) as u64;
        let bytes = if looked_at < LOOKED_AT { bytes } else { of_all(bytes) };
        let fill = (slots > 0).then(|| entries * 100 / slots);
        Measured { leaves, bytes, fill, vacant, is_damaged: index.check().is_err() }
    }
}
