//! Page states: the words that publish the pages of the row directory.

/// The state word of a directory page: 0 if the page is unpublished. Otherwise bit 0 is set, bit 1
/// is parity, and bits 2 and up are the CSN of the commit that published the page, or 0 if it was
/// published empty. A state is sound iff it is 0, or bit 0 is set and the number of set bits is
/// even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageState(pub u64);

impl PageState {
    /// No word in the page counts.
    pub const UNPUBLISHED: PageState = PageState(0);
    /// Published empty: rows are published one by one.
    pub const OPEN: PageState = PageState(0b11);

    /// Published by commit `csn` together with its rows.
    pub fn published(csn: u64) -> PageState {
        PageState(csn << 2 | u64::from((csn.count_ones() + 1) & 1) << 1 | 1)
    }

    /// Whether the words in the page count.
    pub fn is_published(self) -> bool {
        self.0 & 1 != 0
    }

    /// CSN of the commit that published the page; 0 if it was published empty.
    pub fn csn(self) -> u64 {
        self.0 >> 2
    }

    /// Whether the engine can have written this state.
    pub fn is_sound(self) -> bool {
        self.0 == 0 || self.is_published() && self.0.count_ones().is_multiple_of(2)
    }
}
