//! State words of the row directory's pages.

/// State word of a directory page: 0 is unpublished; otherwise bit 0 is set, bit 1 is parity, and bits 2 and up are the
/// CSN of the commit that published it (0 if it was published empty). Sound iff it is 0, or bit 0 is set and the number of bits set is even.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageState(pub u64);

impl PageState {
    /// Nothing in the page counts.
    pub const UNPUBLISHED: PageState = PageState(0);
    /// Published before any row was in it.
    pub const OPEN: PageState = PageState(0b11);

    /// Published, with the rows in it, by commit `csn`.
    pub fn published(csn: u64) -> PageState {
        PageState(csn << 2 | u64::from((csn.count_ones() + 1) & 1) << 1 | 1)
    }

    /// Whether its words count.
    pub fn is_published(self) -> bool {
        self.0 & 1 != 0
    }

    /// The commit that published its first rows.
    pub fn csn(self) -> u64 {
        self.0 >> 2
    }

    /// Whether it can have been written so.
    pub fn is_sound(self) -> bool {
        self.0 == 0 || self.is_published() && self.0.count_ones().is_multiple_of(2)
    }
}
