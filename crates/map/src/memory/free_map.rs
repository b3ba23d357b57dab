//! The free pages, in DRAM: one bit per page, and a count per block of pages, so that empty
//! ranges are passed quickly. A search for adjacent free pages starts where the last one ended.
//!
//! Memory of pages that were never used stays untouched, and so unmapped.

use crate::memory::format::BLOCK_PAGES;

/// Pages of a window of [`FreeMap::search`].
const WINDOW_PAGES: usize = if cfg!(test) { 100 } else { 1 << 14 };

/// One bit per page, set if the page is used.
pub(crate) struct FreeMap {
    bits: Vec<u64>,
    /// Used pages of each block.
    used_in: Vec<u16>,
    pages: usize,
    used: usize,
    cursor: usize,
    /// No run has this number of pages, as a search has found since the last page was freed.
    no_run: usize,
}

/// A search for the longest run of free pages, window by window.
#[derive(Default)]
pub(crate) struct RunSearch {
    at: usize,
    /// Free pages before `at`, adjacent to it.
    current: usize,
    pub(crate) longest: usize,
}

impl FreeMap {
    /// All of `pages` pages are free.
    pub(crate) fn new(pages: usize) -> FreeMap {
        let blocks = pages.div_ceil(BLOCK_PAGES);
        FreeMap {
            bits: vec![0; pages.div_ceil(64)],
            used_in: vec![0; blocks],
            pages,
            used: 0,
            cursor: 0,
            no_run: usize::MAX,
        }
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
        self.no_run = usize::MAX;
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

    /// Takes up to `wanted` pages of the next run of at least `needed` adjacent free pages. Returns
    /// its first page and how many.
    pub(crate) fn take_run(&mut self, needed: usize, wanted: usize) -> Option<(usize, usize)> {
        if needed >= self.no_run {
            return None;
        }
        let Some(first) = self.next_run(needed) else {
            self.no_run = needed;
            return None;
        };
        let taken = self.take_at(first, wanted);
        self.cursor = if first + taken < self.pages { first + taken } else { 0 };
        Some((first, taken))
    }

    /// Whether there is a run of this number of free pages.
    pub(crate) fn has_run(&self, needed: usize) -> bool {
        needed < self.no_run && self.next_run(needed).is_some()
    }

    /// First page of the next run of `needed` free pages.
    fn next_run(&self, needed: usize) -> Option<usize> {
        let from = self.cursor;
        // A run may begin before the cursor and end after it.
        self.find(from, self.pages, needed).or_else(|| self.find(0, (from + needed).min(self.pages), needed))
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
        self.used_from(0)
    }

    /// The used pages from a page on, ascending.
    pub(crate) fn used_from(&self, mut at: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::from_fn(move || {
            let page = self.next_used(at, self.pages);
            at = page + 1;
            (page < self.pages).then_some(page)
        })
    }

    /// Goes on with a search for the longest run by a window of [`WINDOW_PAGES`]. Returns whether
    /// there is another.
    pub(crate) fn search(&self, search: &mut RunSearch) -> bool {
        let to = (search.at + WINDOW_PAGES).min(self.pages);
        while search.at < to {
            let first = self.next_free(search.at, to).unwrap_or(to);
            if first > search.at {
                search.current = 0;
            }
            search.at = self.next_used(first, to);
            search.current += search.at - first;
            search.longest = search.longest.max(search.current);
        }
        to < self.pages
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
                } else if map.has_run(length) {
                    let (first, taken) = map.take_run(length, length + 3).expect("it has one");
                    prop_assert!((length..=length + 3).contains(&taken));
                    for page in first..first + taken {
                        prop_assert!(model.remove(&page));
                    }
                } else {
                    let fits = |first: &usize| (*first..first + length).all(|page| model.contains(&page));
                    prop_assert!(map.take_run(length, length + 3).is_none() && !model.iter().any(fits));
                }
                prop_assert_eq!(map.len(), model.len());
                let longest = model.iter().map(|first| (*first..).take_while(|page| model.contains(page)).count()).max();
                let mut search = super::RunSearch::default();
                while map.search(&mut search) {}
                prop_assert_eq!(search.longest, longest.unwrap_or(0));
            }
        }
    }
}
