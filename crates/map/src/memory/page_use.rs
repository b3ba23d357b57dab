//! State of each page in DRAM, and the pages listed as sparse, from which the collector chooses.
//!
//! A page is listed at most once, at the level of its fullness. The lists are linked through the
//! pages' own entries, so they take no memory that grows, and a page that is taken or freed leaves
//! its list at once.
//!
//! Thread-safety: owned by the writer's lock.

use perdura_pmem::{Mutant, planted};
use std::ops::{Index, IndexMut};

/// Levels of fullness at which pages are listed.
const LEVELS: usize = 8;
/// Pages with at least this share of live bytes, in sixteenths, are not listed.
const FULL_SIXTEENTHS: u64 = 14;

#[derive(Clone, Copy, Default)]
#[repr(C, align(8))]
pub(crate) struct PageUse {
    /// Bytes of live objects.
    pub(crate) live: u32,
    /// Bytes of live objects, and of dead records that a list's chain still runs through.
    pub(crate) held: u32,
    /// The neighbours in the list of its level: one more than their numbers, or 0.
    before: u32,
    after: u32,
    /// A run is filling the page.
    pub(crate) open: bool,
    pub(crate) nodes: bool,
    /// Nodes: the page takes no more of them.
    pub(crate) retired: bool,
    /// In use when the map was opened, and its content is not yet known.
    pub(crate) unknown: bool,
    /// Set aside: freed once its epoch is over.
    pub(crate) leaving: bool,
    /// One more than the level at which the page is listed. 0: it is not.
    listed: u8,
}

impl PageUse {
    /// A page that a run begins to fill.
    pub(crate) fn taken(nodes: bool) -> PageUse {
        PageUse { open: true, nodes, ..PageUse::default() }
    }

    pub(crate) fn may_leave(&self) -> bool {
        // Planted: a page that a run is filling is set aside when what it held has ended.
        self.held == 0
            && (!self.open || planted(Mutant::FillingPageReleased))
            && !self.unknown
            && (!self.nodes || self.retired)
    }

    /// Whether the page's content is known, and neither a run nor an epoch's end is about to change
    /// what it is.
    pub(crate) fn is_settled(&self) -> bool {
        !self.open && !self.leaving && !self.unknown
    }
}

/// The uses of all pages.
pub(crate) struct PageUses {
    uses: Box<[PageUse]>,
    page_bytes: u64,
    /// The first page of each level's list, as [`PageUse::after`].
    first: [u32; LEVELS],
}

impl PageUses {
    /// All pages are free, in memory that is allocated zeroed and so stays unmapped until a page is
    /// used.
    pub(crate) fn unused(pages: usize, page_bytes: u64) -> PageUses {
        const _: () = assert!(size_of::<PageUse>() == 24 && align_of::<PageUse>() == 8);
        let words = vec![[0u64; 3]; pages].into_boxed_slice();
        // SAFETY: size and alignment are those of the words, and zeros are numbers and `false`.
        let uses = unsafe { Box::from_raw(Box::into_raw(words) as *mut [PageUse]) };
        PageUses { uses, page_bytes, first: [0; LEVELS] }
    }

    /// Gives a page a new use, and takes it off its list.
    #[inline]
    pub(crate) fn reset(&mut self, page: usize, page_use: PageUse) {
        self.unlist(page);
        self.uses[page] = page_use;
    }

    /// Lists a page if it has become sparse, or sparser.
    #[inline]
    pub(crate) fn note_sparse(&mut self, page: usize) {
        let page_use = &self.uses[page];
        let live = u64::from(page_use.live);
        if !page_use.is_settled() || live * 16 >= self.page_bytes * FULL_SIXTEENTHS {
            return;
        }
        let level = (live * LEVELS as u64 / self.page_bytes) as u8;
        if page_use.listed == 0 || level + 1 < page_use.listed {
            self.unlist(page);
            self.list(page, level);
        }
    }

    fn list(&mut self, page: usize, level: u8) {
        let first = &mut self.first[usize::from(level)];
        let after = std::mem::replace(first, page as u32 + 1);
        if after != 0 {
            self.uses[after as usize - 1].before = page as u32 + 1;
        }
        let page_use = &mut self.uses[page];
        (page_use.before, page_use.after, page_use.listed) = (0, after, level + 1);
    }

    /// Takes a page off its list, if it is on one.
    #[inline]
    pub(crate) fn unlist(&mut self, page: usize) {
        let PageUse { before, after, listed, .. } = self.uses[page];
        if listed == 0 {
            return;
        }
        match before {
            0 => self.first[usize::from(listed) - 1] = after,
            _ => self.uses[before as usize - 1].after = after,
        }
        if after != 0 {
            self.uses[after as usize - 1].before = before;
        }
        let page_use = &mut self.uses[page];
        (page_use.before, page_use.after, page_use.listed) = (0, 0, 0);
    }

    /// Takes the emptiest of the listed pages off its list. It is listed again when it becomes
    /// sparser, or by [`PageUses::note_sparse`].
    pub(crate) fn take_sparsest(&mut self) -> Option<usize> {
        let first = *self.first.iter().find(|first| **first != 0)?;
        let page = first as usize - 1;
        self.unlist(page);
        Some(page)
    }
}

impl Index<usize> for PageUses {
    type Output = PageUse;

    #[inline]
    fn index(&self, page: usize) -> &PageUse {
        &self.uses[page]
    }
}

impl IndexMut<usize> for PageUses {
    #[inline]
    fn index_mut(&mut self, page: usize) -> &mut PageUse {
        &mut self.uses[page]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Hazards: a page is listed twice, or at a level it has left, or a list loses its tail.
        #[test]
        fn every_sparse_page_is_listed_once(steps in prop::collection::vec((0usize..12, 0u32..=1024, 0u8..8), 1..200)) {
            let mut uses = PageUses::unused(12, 1024);
            let mut model = BTreeMap::new();
            for (page, live, step) in steps {
                match step {
                    0 => {
                        uses.reset(page, if live % 2 == 0 { PageUse::taken(false) } else { PageUse::default() });
                        model.remove(&page);
                    }
                    1 => {
                        let sparsest = uses.take_sparsest();
                        prop_assert_eq!(sparsest.is_some(), !model.is_empty());
                        if let Some(sparsest) = sparsest {
                            let level = model.remove(&sparsest);
                            prop_assert_eq!(level, model.values().copied().chain(level).min());
                        }
                    }
                    _ => {
                        uses[page].live = live;
                        uses.note_sparse(page);
                        if uses[page].is_settled() && live < 1024 / 16 * 14 {
                            let level = model.entry(page).or_insert(u8::MAX);
                            *level = (*level).min((live / 128) as u8);
                        }
                    }
                }
            }
            while let Some(page) = uses.take_sparsest() {
                prop_assert!(model.remove(&page).is_some());
            }
            prop_assert!(model.is_empty());
        }
    }
}
