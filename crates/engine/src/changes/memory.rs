//! The DRAM of a write set, estimated, and the pages whose words may be spilled.
//!
//! A page costs some 600 bytes, whatever was done to it: its shadow, the change, bitmaps, an entry in lists. Each row
//! inserted or updated costs its word and position besides. Those words are what can be spilled.

use std::collections::VecDeque;

/// DRAM of a page that a transaction has locked or written, without its words, in bytes.
const PAGE_BYTES: usize = 600;
/// DRAM of a word and its position, with what growing by half leaves spare, in bytes.
const ROW_BYTES: usize = 12;
/// DRAM of an own version that was replaced, in bytes.
const REPLACED_BYTES: usize = 40;
/// Fewest rows of a page whose words are worth spilling.
const ROWS_MIN: usize = 16;

/// The DRAM that a transaction's writes to one table take.
#[derive(Default)]
pub struct Memory {
    bytes: usize,
    /// Words in DRAM.
    words: usize,
    /// Pages with words in DRAM, the oldest first.
    held: VecDeque<u64>,
}

impl Memory {
    /// Estimated DRAM, in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the log that the words in DRAM take at least.
    pub fn logged(&self) -> usize {
        self.words * 8
    }

    /// Adds a page.
    pub fn add_page(&mut self, page: u64) {
        self.bytes += PAGE_BYTES;
        self.held.push_back(page);
    }

    /// Adds a write; `new` says that it is the first one of the row.
    #[inline]
    pub fn add_write(&mut self, new: bool) {
        self.bytes += if new { ROW_BYTES } else { REPLACED_BYTES };
        self.words += usize::from(new);
    }

    /// Adds the words of a page that were spilled and are held in DRAM again.
    pub fn add_held(&mut self, page: u64, rows: usize) {
        self.bytes += rows * ROW_BYTES;
        self.words += rows;
        self.held.push_back(page);
    }

    /// Takes off the words of a page, which are spilled now.
    pub fn spilled(&mut self, rows: usize) {
        self.bytes = self.bytes.saturating_sub(rows * ROW_BYTES);
        self.words = self.words.saturating_sub(rows);
    }

    /// Takes the page that was written first and has words in DRAM. The one written last is not offered.
    pub fn oldest(&mut self) -> Option<u64> {
        if self.held.len() < 2 { None } else { self.held.pop_front() }
    }

    /// Whether spilling the words of a page with `rows` of them saves DRAM.
    pub fn is_worth(rows: usize) -> bool {
        rows >= ROWS_MIN
    }
}
