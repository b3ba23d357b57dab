//! The page table in persistent memory: which pages are used, and a summary of it, so that opening
//! reads only the parts that are in use.
//!
//! A page is used iff the number in its word is not zero and not above that of the newest
//! persist (docs/maps.md), and the same holds of the summary's word for the page's block.
//! Words of a block that the summary does not name have no meaning; they are written when the first
//! page of the block is taken. Opening takes blocks without used pages out of the summary.
//!
//! Thread-safety: owned by the writer's lock. Keeps (I2).

use crate::error::{Error, Result};
use crate::memory::batch::Batch;
use crate::memory::format::{Geometry, NUMBER_MAX, bytes_of, page_number, page_word, summary_number, summary_word};
use crate::memory::free_map::FreeMap;
use perdura_pmem::{Mutant, Region, planted};
use std::ops::Range;

pub(crate) struct PageTable {
    pub(crate) free: FreeMap,
    /// Number of the next persist.
    pub(crate) number: u64,
    geometry: Geometry,
    salt: u64,
}

impl PageTable {
    /// Reads the table of a map whose newest persist is `persisted`, and the next one `next`. A
    /// page or block whose word has a number above `persisted` was taken but never persisted: it is
    /// free, and its word is set so. That store is in the batch of the next persist, which fences
    /// it before its own number could make the word count. Error: `Damaged`.
    pub(crate) fn open(
        region: &Region,
        geometry: Geometry,
        (persisted, next): (u64, u64),
        salt: u64,
        batch: &mut Batch,
    ) -> Result<PageTable> {
        let mut table = PageTable { free: FreeMap::new(geometry.pages as usize), number: next, geometry, salt };
        for (block, word) in region.words(Geometry::summary_at(0), geometry.blocks()).enumerate() {
            let at = Geometry::summary_at(block);
            match summary_number(word, block, salt) {
                None => {
                    let what = format!("the summary's word of block {block} fails its check");
                    return Err(Error::damaged(region.name(), at, what));
                }
                Some(0) => {}
                Some(number) => {
                    if number <= persisted {
                        table.read_block(region, block, persisted, batch)?;
                    }
                    if table.free.used_in(block) == 0 {
                        region.store(at, summary_word(0, block, salt));
                        batch.add(at, 8);
                    }
                }
            }
        }
        Ok(table)
    }

    fn read_block(&mut self, region: &Region, block: usize, persisted: u64, batch: &mut Batch) -> Result<()> {
        for page in self.geometry.pages_of(block) {
            let at = self.geometry.word_at(page);
            let word = region.load(at);
            let free = page_word(0, page, self.salt);
            if word == free {
                continue;
            }
            let Some(number) = page_number(word, page, self.salt) else {
                let what = format!("the word of page {page} fails its check");
                return Err(Error::damaged(region.name(), at, what));
            };
            // Planted: the pages of the newest persist are free.
            if number <= persisted - u64::from(planted(Mutant::NewestPagesFreeAtStart)) {
                self.free.remove(page);
            } else {
                region.store(at, free);
                batch.add(at, 8);
            }
        }
        Ok(())
    }

    /// Stores the words of pages that were taken from the free map.
    pub(crate) fn use_pages(&self, region: &Region, pages: Range<usize>, batch: &mut Batch) {
        let block_of = |page: usize| page / crate::memory::format::BLOCK_PAGES;
        for block in block_of(pages.start)..=block_of(pages.end - 1) {
            let of_block = self.geometry.pages_of(block);
            let taken = pages.start.max(of_block.start)..pages.end.min(of_block.end);
            if self.free.used_in(block) == taken.len() {
                self.use_block(region, block, batch);
            }
        }
        for page in pages.clone() {
            // Planted: a page has the number of the persist after the one that covers it.
            let number = (self.number + u64::from(planted(Mutant::PageOfLaterPersist))).min(NUMBER_MAX);
            region.store(self.geometry.word_at(page), page_word(number, page, self.salt));
        }
        batch.add(self.geometry.word_at(pages.start), 8 * pages.len() as u64);
    }

    /// Names a block in the summary, unless it is named, and writes its words.
    fn use_block(&self, region: &Region, block: usize, batch: &mut Batch) {
        let (at, pages) = (Geometry::summary_at(block), self.geometry.pages_of(block));
        if summary_number(region.load(at), block, self.salt) != Some(0) {
            return;
        }
        let first = self.geometry.word_at(pages.start);
        let words: Vec<u64> = pages.map(|page| page_word(0, page, self.salt)).collect();
        region.write(first, bytes_of(&words));
        batch.add(first, 8 * words.len() as u64);
        // Planted: a block is named by the persist after the one that covers it.
        let number = (self.number + u64::from(planted(Mutant::PageTableOfLaterPersist))).min(NUMBER_MAX);
        region.store(at, summary_word(number, block, self.salt));
        batch.add(at, 8);
    }

    /// Frees a page.
    pub(crate) fn free_page(&mut self, region: &Region, page: usize, batch: &mut Batch) {
        let at = self.geometry.word_at(page);
        region.store(at, page_word(0, page, self.salt));
        batch.add(at, 8);
        self.free.insert(page);
    }
}
