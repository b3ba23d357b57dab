//! The DRAM of a write set, estimated, and the pages whose words may be spilled.
//!
//! A page costs some 600 bytes, whatever was done to it: its shadow, the change, bitmaps, an entry
//! in lists. Each row inserted or updated costs its word and position besides. Those words are what
//! can be spilled.

use std::collections::VecDeque;

/// DRAM of a page that a transaction has locked or written, without its words, in bytes.
const PAGE_BYTES: usize = 600;
/// DRAM of a word and its position, with what growing by half leaves spare, in bytes.
const ROW_BYTES: usize = 12;
/// DRAM of an own version that was replaced, in bytes.
const REPLACED_BYTES: usize = 40;
/// Fewest rows of a page whose words are worth spilling.
pub(crate) const ROWS_MIN: usize = 16;

/// The DRAM that a transaction's writes to one table take.
#[derive(Default)]
pub(crate) struct Memory {
    pages: usize,
    /// Words in DRAM.
    words: usize,
    /// Own versions that were replaced.
    replaced: usize,
    /// Pages with words that are worth spilling, the oldest first; some are named twice.
    offered: VecDeque<u64>,
}

impl Memory {
    /// Estimated DRAM, in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.pages * PAGE_BYTES + self.word_bytes() + self.replaced * REPLACED_BYTES
    }

    /// DRAM of words, in bytes.
    #[inline]
    pub(crate) fn word_bytes(&self) -> usize {
        self.words * ROW_BYTES
    }

    /// Bytes of the log that the words in DRAM take at least.
    pub(crate) fn logged(&self) -> usize {
        self.words * 8
    }

    /// Adds a page.
    pub(crate) fn add_page(&mut self) {
        self.pages += 1;
    }

    /// Adds a write to page `page`, which now has `rows` words; `new` says that it is the first
    /// write of the row.
    #[inline]
    pub(crate) fn add_write(&mut self, page: u64, new: bool, rows: usize) {
        if !new {
            self.replaced += 1;
        } else {
            self.words += 1;
            if rows == ROWS_MIN {
                self.offer(page);
            }
        }
    }

    /// Adds the words of a page that were spilled and are in DRAM again.
    pub(crate) fn add_held(&mut self, page: u64, rows: usize) {
        self.words += rows;
        self.offer(page);
    }

    /// Offers a page with words in DRAM for spilling.
    pub(crate) fn offer(&mut self, page: u64) {
        self.offered.push_back(page);
    }

    /// Takes off words: they are spilled, or their rows are not written any more.
    pub(crate) fn take_words(&mut self, words: usize) {
        self.words = self.words.saturating_sub(words);
    }

    /// Takes off own versions that are freed or count again.
    #[inline]
    pub(crate) fn take_replaced(&mut self, versions: usize) {
        self.replaced = self.replaced.saturating_sub(versions);
    }

    /// Takes the page that was offered first. The one offered last stays, as it may be written on.
    pub(crate) fn oldest(&mut self) -> Option<u64> {
        if self.offered.len() < 2 { None } else { self.offered.pop_front() }
    }
}
