//! Reading an index: which entries a snapshot sees.

use super::leaf::{LeafBytes, LeafId, bits};
use super::leaf_shadow::View;
use super::page::Page;
use super::tree::{Index, damaged};
use crate::error::Result;
use crate::format::{entry_key, entry_row};

impl Index {
    /// Calls `body` with the leaf that has the entries at `key`, the slots that `view` sees there, and the low key of the next
    /// leaf. What it returns counts only if the leaf was still the one meanwhile; otherwise it is called again. `None`
    /// if the index has no leaf. The caller holds a snapshot.
    pub(super) fn read<'i, T>(
        &'i self,
        key: &[u8],
        view: &View<'_>,
        mut body: impl FnMut(&LeafBytes<'i>, u64, Option<&'i [u8]>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut attempt = |leaf: LeafId, next: Option<u64>, holds: &dyn Fn() -> bool| {
            let (slot, bytes) = (&self.leaves().leaf(leaf).slot, self.leaves().bytes(leaf));
            let high = next.map(|next| perdura_tree::Keys::key(self.tree.keys(), next));
            bytes.prefetch();
            let mark = slot.quiet();
            let shadow = if mark.is_none() { slot.lock_existing() } else { None };
            if mark.is_none() && shadow.is_none() {
                return Ok(None);
            }
            let found = match (bytes.valid(), &shadow) {
                (Some(valid), None) => body(&bytes, valid, high),
                (Some(valid), Some(shadow)) => body(&bytes, shadow.seen(valid, view), high),
                (None, _) => Err(damaged(&bytes, "the valid word of an index' leaf is damaged")),
            };
            let is_still = mark.is_none_or(|mark| slot.is_still(mark));
            // Planted: it is not the leaf any more.
            let counts = is_still && (holds() || perdura_pmem::planted(207));
            if counts { found.map(Some) } else { Ok(None) }
        };
        self.check()?;
        self.at_place(key, |leaf, place| attempt(leaf, place.next(), &|| place.holds()))
    }

    /// The row of the first entry with exactly this key that `view` sees. The caller holds a snapshot.
    pub fn find(&self, key: &[u8], view: &View<'_>) -> Result<Option<u64>> {
        let mut from: Option<Vec<u8>> = None;
        loop {
            let found = self.read(from.as_deref().unwrap_or(key), view, |leaf, slots, high| {
                let mut first: Option<&[u8]> = None;
                for slot in bits(leaf.candidates(slots, key)) {
                    let entry =
                        leaf.entry(slot).ok_or_else(|| damaged(leaf, "an entry of an index' leaf is damaged"))?;
                    let is_in = high.is_none_or(|high| entry < high);
                    if entry_key(entry) == key && is_in && first.is_none_or(|first| entry < first) {
                        first = Some(entry);
                    }
                }
                // More entries of the key may be in the next leaf.
                let next = high.filter(|high| high.starts_with(key)).map(<[u8]>::to_vec);
                Ok((first.map(entry_row), next))
            })?;
            match found {
                Some((None, Some(next))) => from = Some(next),
                found => return Ok(found.and_then(|(row, _)| row)),
            }
        }
    }

    /// Puts the entries that `view` sees in the leaf at `key` into `page`. Returns whether there is a leaf. The caller holds
    /// a snapshot.
    pub fn page_at(&self, key: &[u8], view: &View<'_>, page: &mut Page) -> Result<bool> {
        let found = self.read(key, view, |leaf, slots, high| page.fill(leaf, slots, high))?;
        Ok(found.is_some())
    }

    /// Puts the entries that `view` sees in the last leaf with entries below `key` into `page`, as far as they are below.
    /// Returns whether there is such a leaf. The caller holds a snapshot.
    pub fn page_before(&self, key: &[u8], view: &View<'_>, page: &mut Page) -> Result<bool> {
        self.check()?;
        let Some(before) = self.tree.lower(key) else { return Ok(false) };
        let mut from = perdura_tree::Keys::key(self.tree.keys(), before).to_vec();
        while self.page_at(&from, view, page)? {
            // The leaf may have been split meanwhile.
            match page.high() {
                Some(high) if high < key => from = high.to_vec(),
                _ => break,
            }
        }
        page.cut_from(key);
        Ok(true)
    }
}
