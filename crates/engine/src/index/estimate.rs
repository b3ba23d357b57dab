//! How many entries a range has, without looking at each.

use super::leaf::LeafBytes;
use super::leaf_shadow::View;
use super::page::Page;
use super::tree::Index;
use crate::error::Result;
use perdura_tree::Keys;
use std::ops::Bound;

/// Pages of the tree that are walked for an estimate, some 200 leaves. How many there are beyond those, the way down to them tells.
const WALKED: usize = 8;

/// Leaves of which the entries are counted, to learn what others have.
const SAMPLED: usize = 4;

impl Index {
    /// Number of entries between two bounds, which are beginnings of keys: exact within a few leaves, otherwise by the number
    /// of leaves between. The caller holds a snapshot.
    pub fn estimate(&self, from: Bound<&[u8]>, to: Bound<&[u8]>, view: &View<'_>) -> Result<u64> {
        let mut page = Page::default();
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
        if !self.page_at(&key, view, &mut page)? {
            return Ok(0);
        }
        let mut counted = page.place_of(&end).saturating_sub(page.place_of(&key)) as u64;
        let (mut sampled, mut entries) = (0, 0);
        let mut next = page.high().map(<[u8]>::to_vec);
        while let Some(low) = next.filter(|low| low < &end) {
            if sampled == SAMPLED {
                return Ok(counted + self.leaves_between(&low, &end) * (entries / SAMPLED as u64).max(1));
            }
            // Only the leaf in which the range ends need be put in order.
            let leaf = |_: &LeafBytes<'_>, slots: u64, high: Option<&[u8]>| {
                Ok((u64::from(slots.count_ones()), high.map(<[u8]>::to_vec)))
            };
            let Some((count, high)) = self.read(&low, view, leaf)? else { break };
            let is_within = high.as_ref().is_some_and(|high| high <= &end);
            counted += match is_within {
                true => count,
                false if self.page_at(&low, view, &mut page)? => page.place_of(&end) as u64,
                false => 0,
            };
            (entries, sampled, next) = (entries + count, sampled + 1, high);
        }
        Ok(counted)
    }

    /// Number of leaves with low keys from `key` to before `end`.
    fn leaves_between(&self, key: &[u8], end: &[u8]) -> u64 {
        let (mut found, mut leaves, mut from) = (Vec::new(), 0, key.to_vec());
        for walked in 0..WALKED {
            self.tree.page_from(&from, walked == 0, &mut found);
            let Some(last) = found.last() else { return leaves.max(1) };
            let last = self.tree.keys().key(*last).to_vec();
            if &last[..] >= end {
                leaves += found.iter().filter(|leaf| self.tree.keys().key(**leaf) < end).count() as u64;
                return leaves.max(1);
            }
            leaves += found.len() as u64;
            from = last;
        }
        let beyond = (self.tree.share_below(end) - self.tree.share_below(&from)).max(0.0);
        leaves + (beyond * self.tree.len() as f64) as u64
    }
}

/// A bound above all keys that begin with `key`.
pub fn beyond(key: &[u8]) -> Vec<u8> {
    let mut bound = key.to_vec();
    bound.resize(crate::format::ENTRY_BYTES_MAX + 1, 0xff);
    bound
}
