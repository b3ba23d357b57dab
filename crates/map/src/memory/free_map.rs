//! The free pages, in DRAM: one bit per page, and a count per block of pages, so that empty
//! ranges are passed quickly. A search for adjacent free pages starts where the last one ended, and
//! leaves out the *spare run* and the range that a compaction empties.
//!
//! Memory of pages that were never used stays untouched, and so unmapped.

use crate::memory::format::BLOCK_PAGES;
use std::ops::Range;

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
    /// Adjacent free pages that only a request for the spare run may take. They are taken from the
    /// first on.
    spare: Range<usize>,
    /// Pages that nobody may take, free or not.
    emptied: Range<usize>,
}

/// A search for the longest run of free pages, window by window.
#[derive(Default)]
pub(crate) struct RunSearch {
    at: usize,
    /// Free pages before `at`, adjacent to it.
    current: usize,
    longest: Range<usize>,
}

impl RunSearch {
    /// The longest run found.
    pub(crate) fn longest(&self) -> &Range<usize> {
        &self.longest
    }
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
            spare: 0..0,
            emptied: 0..0,
        }
    }

    /// Count of the free pages.
    pub(crate) fn len(&self) -> usize {
        self.pages - self.used
    }

    /// Page from which the next run is searched.
    pub(crate) fn cursor(&self) -> usize {
        self.cursor
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

    /// Takes this number of pages from `first` on, if they are free. Returns whether they were.
    pub(crate) fn take_all(&mut self, first: usize, needed: usize, with_spare: bool) -> bool {
        // The spare run is taken page by page from its first on.
        let at = |page| if with_spare && self.spare.contains(&page) { self.spare.start } else { page };
        let are_free = (first..first + needed).all(|page| self.is_open(at(page), with_spare));
        are_free && self.take_at(first, needed, with_spare) == needed
    }

    /// Takes up to `wanted` pages from `first` on, as far as they are free. Returns how many.
    fn take_at(&mut self, first: usize, wanted: usize, with_spare: bool) -> usize {
        let mut taken = 0;
        while taken < wanted && self.is_open(first + taken, with_spare) {
            let page = first + taken;
            self.remove(page);
            if self.spare.contains(&page) {
                self.spare.start = page + 1;
            }
            taken += 1;
        }
        taken
    }

    /// Whether the page may be taken: the spare run is taken from its first page on.
    fn is_open(&self, page: usize, with_spare: bool) -> bool {
        let is_left_out = self.spare.contains(&page) && !(with_spare && page == self.spare.start);
        self.is_free(page) && !is_left_out && !self.emptied.contains(&page)
    }

    /// Takes up to `wanted` pages of the next run of at least `needed` adjacent free pages, or
    /// `with_spare` of the spare run if there is none elsewhere. Returns its first page and how
    /// many.
    pub(crate) fn take_run(&mut self, needed: usize, wanted: usize, with_spare: bool) -> Option<(usize, usize)> {
        let elsewhere = if needed < self.no_run { self.next_run(needed) } else { None };
        if elsewhere.is_none() {
            self.no_run = self.no_run.min(needed);
        }
        let spare = (with_spare && self.spare.len() >= needed).then_some(self.spare.start);
        let first = elsewhere.or(spare)?;
        let taken = self.take_at(first, wanted, elsewhere.is_none());
        if elsewhere.is_some() {
            self.cursor = if first + taken < self.pages { first + taken } else { 0 };
        }
        Some((first, taken))
    }

    /// The spare run.
    pub(crate) fn spare(&self) -> &Range<usize> {
        &self.spare
    }

    /// Makes a run that a search has found the spare run, if it is longer than the one there is:
    /// each with the free pages beside it, up to `most`.
    pub(crate) fn renew_spare(&mut self, found: &Range<usize>, most: usize) {
        let before = std::mem::take(&mut self.spare);
        let (before, found) = (self.grown(&before, most), self.grown(found, most));
        self.spare = if found.len() > before.len() { found } else { before };
        self.no_run = usize::MAX;
    }

    /// The last pages of a run, up to `most`, as far as they are still free, with those beside
    /// them.
    fn grown(&self, run: &Range<usize>, most: usize) -> Range<usize> {
        let mut start = run.start;
        loop {
            let used = self.next_used(start, run.end);
            if used == run.end {
                break;
            }
            start = used + 1;
        }
        let start = start.max(run.end.saturating_sub(most));
        if start == run.end {
            return start..start;
        }
        let end = self.next_used(run.end, (start + most).min(self.limit(run.end - 1)));
        let more = most - (end - start);
        start - (0..start).rev().take_while(|page| self.is_open(*page, false)).take(more).count()..end
    }

    /// Leaves a range of pages out of every search, also of those for the spare run.
    pub(crate) fn begin_emptying(&mut self, pages: Range<usize>) {
        debug_assert!(
            self.spare.is_empty() || self.spare.end <= pages.start || pages.end <= self.spare.start,
            "the spare run is moved into"
        );
        self.emptied = pages;
    }

    /// Whether a range is left out.
    pub(crate) fn is_emptying(&self) -> bool {
        !self.emptied.is_empty()
    }

    /// Takes the range back in, if there is one. Returns whether all of it is free.
    pub(crate) fn end_emptying(&mut self) -> bool {
        let pages = std::mem::take(&mut self.emptied);
        self.no_run = usize::MAX;
        !pages.is_empty() && self.next_used(pages.start, pages.end) == pages.end
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
        let mut first = self.next_open(from, to)?;
        loop {
            let end = self.next_used(first, to.min(self.limit(first)).min(first + needed));
            if end - first >= needed {
                return Some(first);
            }
            first = self.next_open(end, to)?;
        }
    }

    /// The next free page that searches do not leave out.
    fn next_open(&self, from: usize, to: usize) -> Option<usize> {
        let mut page = self.next_free(from, to)?;
        while let Some(left_out) = [&self.spare, &self.emptied].into_iter().find(|pages| pages.contains(&page)) {
            page = self.next_free(left_out.end, to)?;
        }
        Some(page)
    }

    /// First page after `page` that searches leave out, or the end.
    fn limit(&self, page: usize) -> usize {
        let is_ahead = |pages: &&Range<usize>| !pages.is_empty() && pages.start > page;
        let ahead = [&self.spare, &self.emptied].into_iter().filter(is_ahead);
        ahead.map(|pages| pages.start).min().unwrap_or(self.pages)
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
            let first = self.next_open(search.at, to).unwrap_or(to);
            if first > search.at {
                search.current = 0;
            }
            search.at = self.next_used(first, to.min(self.limit(first)));
            search.current += search.at - first;
            if search.current > search.longest.len() {
                search.longest = search.at - search.current..search.at;
            }
        }
        to < self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::FreeMap;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Clone, Debug)]
    enum Step {
        Free(usize, usize),
        Take { length: usize, with_spare: bool },
        Renew(usize),
        Empty(usize, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0usize..600, 1usize..20).prop_map(|(page, length)| Step::Free(page, length)),
            4 => (1usize..20, any::<bool>()).prop_map(|(length, with_spare)| Step::Take { length, with_spare }),
            1 => (1usize..40).prop_map(Step::Renew),
            1 => (0usize..600, 0usize..40).prop_map(|(page, length)| Step::Empty(page, length)),
        ]
    }

    proptest! {
        /// Hazards: a page is given away twice; the spare run, or a window that is being emptied,
        /// is given to somebody else; a run is not found.
        #[test]
        fn agrees_with_a_set(pages in prop_oneof![1usize..300, 512usize..600], steps in prop::collection::vec(step(), 1..60)) {
            let (mut map, mut model) = (FreeMap::new(pages), BTreeSet::from_iter(0..pages));
            let mut emptied = 0..0;
            for step in steps {
                let spare = map.spare().clone();
                let is_open = |page: &usize| model.contains(page) && !spare.contains(page) && !emptied.contains(page);
                let has_run = |length: usize| (0..pages).any(|first| (first..first + length).all(|page| is_open(&page)));
                match step {
                    Step::Free(page, length) => {
                        for page in page..(page + length).min(pages) {
                            if model.insert(page) {
                                map.insert(page);
                            }
                        }
                    }
                    Step::Take { length, with_spare } => {
                        prop_assert_eq!(map.has_run(length), has_run(length));
                        let found = map.take_run(length, length + 3, with_spare);
                        prop_assert_eq!(found.is_some(), has_run(length) || with_spare && spare.len() >= length);
                        if let Some((first, taken)) = found {
                            prop_assert!((length..=length + 3).contains(&taken));
                            prop_assert!((first..first + taken).all(|page| is_open(&page)) || first == spare.start && !has_run(length));
                            for page in first..first + taken {
                                prop_assert!(!emptied.contains(&page) && model.remove(&page));
                            }
                        }
                    }
                    Step::Renew(most) => {
                        // Windows are taken back in before.
                        map.end_emptying();
                        emptied = 0..0;
                        let mut search = super::RunSearch::default();
                        while map.search(&mut search) {}
                        map.renew_spare(search.longest(), most);
                        prop_assert!(map.spare().len() >= search.longest().len().max(spare.len()).min(most));
                        prop_assert!(map.spare().len() <= most);
                    }
                    Step::Empty(page, length) => {
                        let is_free = map.end_emptying();
                        prop_assert_eq!(is_free, !emptied.is_empty() && emptied.clone().all(|page| model.contains(&page)));
                        emptied = page.min(pages)..(page + length).min(pages);
                        if !spare.is_empty() && emptied.start < spare.end && spare.start < emptied.end {
                            emptied = 0..0;
                        }
                        map.begin_emptying(emptied.clone());
                    }
                }
                let spare = map.spare().clone();
                prop_assert!(spare.clone().all(|page| model.contains(&page)));
                prop_assert_eq!(map.len(), model.len());
                let is_open = |page: &usize| model.contains(page) && !spare.contains(page) && !emptied.contains(page);
                let longest = (0..pages).map(|first| (first..).take_while(is_open).count()).max();
                let mut search = super::RunSearch::default();
                while map.search(&mut search) {}
                prop_assert_eq!(search.longest.len(), longest.unwrap_or(0));
            }
        }
    }
}
