//! The row directory: RID -> word naming the newest committed version.
//!
//! Row number = segment number x words per segment + position. The first 16 words of a segment are the states of its
//! 16 pages, so rows start at position 16. A word counts iff its page's state is published.
//! Reads are lock-free; segments are only ever added (under the table's space lock), in order of their number.

use crate::error::{Error, Result};
use crate::format::{Geometry, PAGES_PER_SEGMENT, PageState, Rid, Word};
use perdura_pmem::Region;

/// One segment of the directory.
pub struct DirectorySegment {
    /// The mapping it lies in.
    pub region: Region,
    /// Offset of its first word, in bytes.
    pub at: u64,
}

/// A table's row directory.
pub struct Directory {
    segments: boxcar::Vec<DirectorySegment>,
    segment_shift: u32,
    page_shift: u32,
}

impl Directory {
    /// An empty directory.
    pub fn new(geometry: Geometry) -> Directory {
        Directory {
            segments: boxcar::Vec::new(),
            segment_shift: geometry.words_per_segment().ilog2(),
            page_shift: geometry.words_per_page().ilog2(),
        }
    }

    /// Appends the next segment.
    pub fn push(&self, segment: DirectorySegment) {
        self.segments.push(segment);
    }

    /// Segments so far.
    pub fn segment_count(&self) -> u64 {
        self.segments.count() as u64
    }

    /// Pages so far.
    pub fn page_count(&self) -> u64 {
        self.segment_count() * PAGES_PER_SEGMENT
    }

    /// Rows of page `page`, as a range of row numbers. The first page of a segment is shorter: state words are not rows.
    pub fn page_rows(&self, page: u64) -> std::ops::Range<u64> {
        let first = page << self.page_shift;
        let skip = if page.is_multiple_of(PAGES_PER_SEGMENT) { PAGES_PER_SEGMENT } else { 0 };
        first + skip..first + (1 << self.page_shift)
    }

    /// The page of row `row`.
    pub fn page_of(&self, row: u64) -> u64 {
        row >> self.page_shift
    }

    /// The directory segment of row `row`.
    pub fn segment_of(&self, row: u64) -> u64 {
        row >> self.segment_shift
    }

    /// Mapping and offset of row `row`'s word; `None` if the directory has no such row.
    #[inline]
    pub fn place(&self, row: u64) -> Option<(&Region, u64)> {
        let position = row & ((1 << self.segment_shift) - 1);
        if position < PAGES_PER_SEGMENT {
            return None;
        }
        let segment = self.segments.get(usize::try_from(row >> self.segment_shift).ok()?)?;
        Some((&segment.region, segment.at + position * 8))
    }

    /// Mapping and offset of the rows of page `page` as bytes; `None` if there is no such page.
    pub fn page_bytes(&self, page: u64) -> Option<(&Region, u64, u64)> {
        if page >= self.page_count() {
            return None;
        }
        let rows = self.page_rows(page);
        let (region, at) = self.place(rows.start)?;
        Some((region, at, (rows.end - rows.start) * 8))
    }

    /// Word of row `row`; empty if there is no such row or its page is unpublished.
    pub fn word(&self, row: u64) -> Word {
        match self.place(row) {
            Some((region, at)) if self.state(self.page_of(row)).is_published() => Word(region.load(at)),
            _ => Word::EMPTY,
        }
    }

    /// Word of row `row`, published or not. For the page's owner.
    #[inline]
    pub fn raw_word(&self, row: u64) -> Word {
        self.place(row).map_or(Word::EMPTY, |(region, at)| Word(region.load(at)))
    }

    /// Stores the word of `row`, neither flushed nor fenced.
    pub fn store(&self, row: u64, word: Word) {
        let (region, at) = self.place(row).expect("a row that exists");
        if perdura_pmem::planted(64) {
            // SAFETY: planted, past the one door: in bounds and aligned, racing readers load a word.
            return unsafe { region.as_ptr().add(at as usize).cast_mut().cast::<u64>().write_volatile(word.0) };
        }
        region.store(at, word.0);
    }

    /// Flushes the line of row `row`'s word.
    #[track_caller]
    pub fn flush(&self, row: u64) {
        let (region, at) = self.place(row).expect("a row that exists");
        region.flush(at, 8);
    }

    fn state_place(&self, page: u64) -> Option<(&Region, u64)> {
        let segment = self.segments.get(usize::try_from(page / PAGES_PER_SEGMENT).ok()?)?;
        Some((&segment.region, segment.at + page % PAGES_PER_SEGMENT * 8))
    }

    /// State of page `page`; unpublished if there is none.
    pub fn state(&self, page: u64) -> PageState {
        self.state_place(page).map_or(PageState::UNPUBLISHED, |(region, at)| PageState(region.load(at)))
    }

    /// Publishes page `page`, flushed but not fenced. What is in it must have been fenced (I3).
    #[track_caller]
    pub fn publish(&self, page: u64, state: PageState) {
        let (region, at) = self.state_place(page).expect("a page that exists");
        region.store(at, state.0);
        region.flush(at, 8);
    }

    /// Makes durable what a process that was killed left of segment `number` in the cache only.
    #[track_caller]
    pub fn reclaim(&self, number: u64) {
        if let Some(segment) = self.segments.get(number as usize) {
            segment.region.reclaim(segment.at, 8 << self.segment_shift);
        }
    }

    /// Checks the states of a segment's pages: a damaged one would make a page's rows vanish.
    pub fn check_states(&self, segment: u64) -> Result<()> {
        for page in segment * PAGES_PER_SEGMENT..(segment + 1) * PAGES_PER_SEGMENT {
            let (region, at) = self.state_place(page).expect("a segment that exists");
            let state = PageState(region.load(at));
            if !state.is_sound() {
                let what = format_args!("the state {:#x} of directory page {page} is not valid", state.0);
                return Err(Error::damaged(region.name(), at, what));
            }
        }
        Ok(())
    }

    /// Word of row `row`, published or not, if it is sound.
    pub fn sound_word(&self, row: u64) -> Result<Word> {
        let word = self.raw_word(row);
        match self.place(row) {
            Some((region, at)) if !word.is_sound() => {
                let what = format_args!("the directory word {:#018x} of row {row:#x} is not valid", word.0);
                Err(Error::damaged(region.name(), at, what))
            }
            _ => Ok(word),
        }
    }

    /// Checks a RID from a record or from a user: its row must exist.
    pub fn check(&self, file: &str, rid: Rid) -> Result<()> {
        match self.place(rid.row()) {
            Some(_) => Ok(()),
            None => Err(Error::damaged(
                file,
                rid.row() * 8,
                format_args!("row {:#x} is not in the row directory", rid.row()),
            )),
        }
    }
}
