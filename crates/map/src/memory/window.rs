//! The search for the window that a compaction empties: the longest range of pages whose live
//! objects fit in the spare run.

use std::ops::Range;

/// Adjacent pages, some of them free.
pub(crate) type Window = Range<usize>;

/// Pages looked at in one step under the writer's lock.
const STEP_PAGES: usize = 4096;

/// A search from page to page. Live bytes may change from step to step: what it finds is an
/// estimate.
pub(crate) struct WindowSearch {
    at: usize,
    /// First page of the window that ends at `at`, and the live bytes in it.
    first: usize,
    live: u64,
    /// Live bytes in a window, at most.
    most: u64,
    longest: Window,
}

impl WindowSearch {
    /// A search from page `from` on for a window with at most `most` live bytes.
    pub(crate) fn new(from: usize, most: u64) -> WindowSearch {
        WindowSearch { at: from, first: from, live: 0, most, longest: from..from }
    }

    /// Goes on by [`STEP_PAGES`] of `pages` pages; `live_in` has the live bytes of a page, or none
    /// if no window may hold it. Returns whether there are more.
    pub(crate) fn go_on(&mut self, pages: usize, live_in: impl Fn(usize) -> Option<u64>) -> bool {
        let to = (self.at + STEP_PAGES).min(pages);
        for page in self.at..to {
            let Some(live) = live_in(page) else {
                (self.first, self.live) = (page + 1, 0);
                continue;
            };
            self.live += live;
            while self.live > self.most && self.first <= page {
                self.live = self.live.saturating_sub(live_in(self.first).unwrap_or(0));
                self.first += 1;
            }
            if self.first > page {
                self.live = 0;
            }
            if page + 1 - self.first > self.longest.len() {
                self.longest = self.first..page + 1;
            }
        }
        self.at = to;
        to < pages
    }

    /// The longest window found.
    pub(crate) fn longest(self) -> Window {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::WindowSearch;
    use proptest::prelude::*;

    proptest! {
        /// Hazard: a window is longer than what it holds allows, or a longer one is passed over.
        #[test]
        fn finds_the_longest_window(pages in prop::collection::vec(prop_oneof![4 => (0u64..1024).prop_map(Some), 1 => Just(None)], 0..60), most in 0u64..8000) {
            let mut search = WindowSearch::new(0, most);
            while search.go_on(pages.len(), |page| pages[page]) {}
            let found = search.longest();
            let fits = |from: usize, to: usize| pages[from..to].iter().copied().sum::<Option<u64>>().is_some_and(|live| live <= most);
            prop_assert!(fits(found.start, found.end));
            let longest = (0..=pages.len()).flat_map(|from| (from..=pages.len()).map(move |to| (from, to)));
            let longest = longest.filter(|(from, to)| fits(*from, *to)).map(|(from, to)| to - from).max();
            prop_assert_eq!(Some(found.len()), longest);
        }
    }
}
