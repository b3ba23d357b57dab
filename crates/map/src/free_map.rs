//! The free pages, in DRAM: one bit per page, and a count per block of pages, so that empty stretches are passed quickly. A
//! search for adjacent free pages starts where the last one ended.
//!
//! Memory of pages that were never used stays untouched, and so unmapped.

use crate::format::BLOCK_PAGES;

/// One bit per page, set if the page is used.
pub(crate) struct FreeMap {
    bits: Vec<u64>,
    /// Used pages of each block.
    used_in: Vec<u16>,
    pages: usize,
    used: usize,
    cursor: usize,
}

impl FreeMap {
    /// All of `pages` pages are free.
    pub(crate) fn new(pages: usize) -> FreeMap {
        let blocks = pages.div_ceil(BLOCK_PAGES);
        FreeMap { bits: vec![0; pages.div_ceil(64)], used_in: vec![0; blocks], pages, used: 0, cursor: 0 }
    }

    /// Count of the free pages.
    pub(crate) fn len(&self) -> usize {
        self.pages - self.used
    }

    pub(crate) fn is_free(&self, page: usize) -> bool {
        page < self.pages && self.bits[page / 64] >> (page % 64) & 1 == 0
    }

    /// Used pages of a block.
    pub(crate) fn used_in(&self, block: usize) -> usize {
        usize::from(self.used_in[block])
    }

    pub(crate) fn insert(&mut self, page: usize) {
        debug_assert!(!self.is_free(page));
        self.bits[page / 64] &= !(1 << (page % 64));
        self.used_in[page / BLOCK_PAGES] -= 1;
        self.used -= 1;
    }

    pub(crate) fn remove(&mut self, page: usize) {
        debug_assert!(self.is_free(page));
        self.bits[page / 64] |= 1 << (page % 64);
        self.used_in[page / BLOCK_PAGES] += 1;
        self.used += 1;
    }

    /// Takes up to `wanted` pages from `first` on, as far as they are free. Returns how many.
    pub(crate) fn take_at(&mut self, first: usize, wanted: usize) -> usize {
        let mut taken = 0;
        while taken < wanted && self.is_free(first + taken) {
            self.remove(first + taken);
            taken += 1;
        }
        taken
    }

    /// Takes up to `wanted` pages of the next run of at least `needed` adjacent free pages. Returns its first page and
    /// how many.
    pub(crate) fn take_run(&mut self, needed: usize, wanted: usize) -> Option<(usize, usize)> {
        let from = self.cursor;
        let first = self.find(from, self.pages, needed).or_else(|| {
            // A run may begin before the cursor and end after it.
            self.find(0, (from + needed).min(self.pages), needed)
        })?;
        let taken = self.take_at(first, wanted);
        self.cursor = if first + taken < self.pages { first + taken } else { 0 };
        Some((first, taken))
    }

    /// First page of a run of `needed` free pages within `from..to`.
    fn find(&self, from: usize, to: usize, needed: usize) -> Option<usize> {
        let mut first = self.next_free(from, to)?;
        loop {
            let end = self.next_used(first, to.min(first + needed));
            if end - first >= needed {
                return Some(first);
            }
            first = self.next_free(end, to)?;
        }
    }

    fn next_free(&self, from: usize, to: usize) -> Option<usize> {
        let mut page = from;
        while page < to {
            let rest = !self.bits[page / 64] >> (page % 64);
            if rest != 0 {
                page += rest.trailing_zeros() as usize;
                return (page < to).then_some(page);
            }
            page = (page / 64 + 1) * 64;
        }
        None
    }

    /// First page of `from..to` that is not free, or `to`.
    fn next_used(&self, from: usize, to: usize) -> usize {
        let mut page = from;
        while page < to {
            if page.is_multiple_of(BLOCK_PAGES) && self.used_in[page / BLOCK_PAGES] == 0 {
                page += BLOCK_PAGES;
                continue;
            }
            let rest = self.bits[page / 64] >> (page % 64);
            if rest != 0 {
                return (page + rest.trailing_zeros() as usize).min(to);
            }
            page = (page / 64 + 1) * 64;
        }
        to
    }

    /// The used pages, ascending.
    pub(crate) fn used(&self) -> impl Iterator<Item = usize> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let page = self.next_used(at, self.pages);
            at = page + 1;
            (page < self.pages).then_some(page)
        })
    }

    /// Pages in the longest run of free pages. Linear in the number of used pages and of blocks.
    pub(crate) fn longest_run(&self) -> usize {
        let (mut longest, mut from) = (0, 0);
        while let Some(first) = self.next_free(from, self.pages) {
            from = self.next_used(first, self.pages);
            longest = longest.max(from - first);
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::FreeMap;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set(pages in prop_oneof![1usize..300, 512usize..600], steps in prop::collection::vec((any::<bool>(), 1usize..20, 0usize..600), 1..40)) {
            let (mut map, mut model) = (FreeMap::new(pages), BTreeSet::from_iter(0..pages));
            for (free, length, page) in steps {
                if free {
                    for page in page..(page + length).min(pages) {
                        if model.insert(page) {
                            map.insert(page);
                        }
                    }
                } else if let Some((first, taken)) = map.take_run(length, length + 3) {
                    prop_assert!((length..=length + 3).contains(&taken));
                    for page in first..first + taken {
                        prop_assert!(model.remove(&page));
                    }
                } else {
                    let fits = |first: &usize| (*first..first + length).all(|page| model.contains(&page));
                    prop_assert!(!model.iter().any(fits));
                }
                prop_assert_eq!(map.len(), model.len());
                let longest = model.iter().map(|first| (*first..).take_while(|page| model.contains(page)).count()).max();
                prop_assert_eq!(map.longest_run(), longest.unwrap_or(0));
            }
        }
    }
}
