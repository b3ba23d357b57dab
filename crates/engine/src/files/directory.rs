//! The row directory: it maps a row number to the directory word that names the row's newest committed version.
//!
//! Row number = segment number x words per segment + position. The first 16 words of a segment are the states of its 16
//! pages, so rows begin at position 16. A word counts iff the state of its page is published. Reads take no lock.
//! Segments are only ever added, in the order of their numbers, under the lock of the directory's free places
//! (`space/directory_space.rs`).

use crate::error::{Error, Result};
use crate::format::{Geometry, PAGES_PER_SEGMENT, PageState, Rid, Word};
use perdura_pmem::{LINE_BYTES, Region};

/// A segment of the row directory.
pub struct DirectorySegment {
    /// The region that maps the segment's file.
    pub region: Region,
    /// Offset of the segment in the file, in bytes.
    pub at: u64,
}

/// The row directory of a table.
pub struct Directory {
    segments: boxcar::Vec<DirectorySegment>,
    segment_shift: u32,
    page_shift: u32,
}

impl Directory {
    /// A directory without segments.
    pub fn new(geometry: Geometry) -> Directory {
        Directory {
            segments: boxcar::Vec::new(),
            segment_shift: geometry.words_per_segment().ilog2(),
            page_shift: geometry.words_per_page().ilog2(),
        }
    }

    /// Appends the next segment, whose descriptor is durable.
    pub fn push(&self, segment: DirectorySegment) {
        self.segments.push(segment);
    }

    /// Number of segments.
    pub fn segment_count(&self) -> u64 {
        self.segments.count() as u64
    }

    /// Number of pages, published or not.
    pub fn page_count(&self) -> u64 {
        self.segment_count() * PAGES_PER_SEGMENT
    }

    /// Row numbers of page `page`. The first page of a segment is 16 rows shorter, for the state words.
    pub fn page_rows(&self, page: u64) -> std::ops::Range<u64> {
        let first = page << self.page_shift;
        let skip = if page.is_multiple_of(PAGES_PER_SEGMENT) { PAGES_PER_SEGMENT } else { 0 };
        first + skip..first + (1 << self.page_shift)
    }

    /// Row number of the first word of page `page`, whether a row or not.
    #[inline]
    pub fn page_base(&self, page: u64) -> u64 {
        page << self.page_shift
    }

    /// Number of words in a page.
    pub fn page_words(&self) -> usize {
        1 << self.page_shift
    }

    /// Position of row `row` in its page.
    #[inline]
    pub fn position_of(&self, row: u64) -> u16 {
        (row & ((1 << self.page_shift) - 1)) as u16
    }

    /// Loads the words of page `page`, by position, into `words`. What is no row is empty.
    #[inline]
    pub fn load_page(&self, page: u64, words: &mut [Word]) {
        let (base, rows) = (self.page_base(page), self.page_rows(page));
        let Some((region, at)) = self.place(rows.start) else { return words.fill(Word::EMPTY) };
        let first = (rows.start - base) as usize;
        words[..first].fill(Word::EMPTY);
        for (word, at) in words[first..].iter_mut().zip((at..).step_by(8)) {
            *word = Word(region.load(at));
        }
    }

    /// Flushes the lines of the words at `positions` of page `page`, each once.
    #[track_caller]
    pub fn flush_rows(&self, page: u64, positions: impl Iterator<Item = u16>) {
        let (mut flushed, words_in_line) = ([0u64; 16], (LINE_BYTES / 8) as u16);
        for position in positions {
            let line = position / words_in_line;
            let bit = 1 << (line % 64);
            if flushed[usize::from(line / 64)] & bit == 0 {
                flushed[usize::from(line / 64)] |= bit;
                self.flush(self.page_base(page) + u64::from(position));
            }
        }
    }

    /// Number of the page that row `row` is in.
    pub fn page_of(&self, row: u64) -> u64 {
        row >> self.page_shift
    }

    /// Number of the directory segment that row `row` is in.
    pub fn segment_of(&self, row: u64) -> u64 {
        row >> self.segment_shift
    }

    /// Region and offset of the word of row `row`; `None` if the directory has no such row.
    #[inline]
    pub fn place(&self, row: u64) -> Option<(&Region, u64)> {
        let position = row & ((1 << self.segment_shift) - 1);
        if position < PAGES_PER_SEGMENT {
            return None;
        }
        let segment = self.segments.get(usize::try_from(row >> self.segment_shift).ok()?)?;
        Some((&segment.region, segment.at + position * 8))
    }

    /// Region, offset and length in bytes of the words of page `page`; `None` if there is no such page.
    pub fn page_bytes(&self, page: u64) -> Option<(&Region, u64, u64)> {
        if page >= self.page_count() {
            return None;
        }
        let rows = self.page_rows(page);
        let (region, at) = self.place(rows.start)?;
        Some((region, at, (rows.end - rows.start) * 8))
    }

    /// The word of row `row`; empty if there is no such row or its page is unpublished.
    pub fn word(&self, row: u64) -> Word {
        match self.place(row) {
            Some((region, at)) if self.state(self.page_of(row)).is_published() => Word(region.load(at)),
            _ => Word::EMPTY,
        }
    }

    /// The word of row `row`, whether its page is published or not. For the owner of the page, and for readers that
    /// have looked at the page's state.
    #[inline]
    pub fn raw_word(&self, row: u64) -> Word {
        self.place(row).map_or(Word::EMPTY, |(region, at)| Word(region.load(at)))
    }

    /// Stores the word of row `row`. It neither flushes nor fences.
    #[inline]
    pub fn store(&self, row: u64, word: Word) {
        let (region, at) = self.place(row).expect("a row that exists");
        if perdura_pmem::planted(64) {
            // SAFETY: in bounds and aligned, and readers that race load a whole word. It is planted: a store past the
            // one door.
            return unsafe { region.as_ptr().add(at as usize).cast_mut().cast::<u64>().write_volatile(word.0) };
        }
        region.store(at, word.0);
    }

    /// Flushes the line of the word of row `row`.
    #[track_caller]
    #[inline]
    pub fn flush(&self, row: u64) {
        let (region, at) = self.place(row).expect("a row that exists");
        region.flush(at, 8);
    }

    fn state_place(&self, page: u64) -> Option<(&Region, u64)> {
        let segment = self.segments.get(usize::try_from(page / PAGES_PER_SEGMENT).ok()?)?;
        Some((&segment.region, segment.at + page % PAGES_PER_SEGMENT * 8))
    }

    /// The state of page `page`; unpublished if there is no such page.
    pub fn state(&self, page: u64) -> PageState {
        self.state_place(page).map_or(PageState::UNPUBLISHED, |(region, at)| PageState(region.load(at)))
    }

    /// Stores and flushes the state word that publishes page `page`. Its words must be fenced before (I3); the caller
    /// fences the state.
    #[track_caller]
    pub fn publish(&self, page: u64, state: PageState) {
        let (region, at) = self.state_place(page).expect("a page that exists");
        region.store(at, state.0);
        region.flush(at, 8);
    }

    /// Fences the region of page `page`.
    #[track_caller]
    pub fn fence(&self, page: u64) {
        let (region, _) = self.state_place(page).expect("a page that exists");
        region.fence();
    }

    /// Makes durable what a killed process left of segment `number` in the cache only.
    pub fn reclaim_segment(&self, number: u64) {
        self.reclaim_within(number, &[(0, 8 << self.segment_shift)]);
    }

    /// Makes durable what a killed process left of the words of `rows` in the cache only. Skips rows that do not exist.
    pub fn reclaim_words(&self, mut rows: Vec<u64>) {
        rows.sort_unstable();
        rows.dedup_by_key(|row| *row * 8 / LINE_BYTES);
        for rows in rows.chunk_by(|row, next| self.segment_of(*row) == self.segment_of(*next)) {
            let position = |row: &u64| (row & ((1 << self.segment_shift) - 1)) * 8;
            let words: Vec<_> = rows.iter().map(|row| (position(row), 8)).collect();
            self.reclaim_within(self.segment_of(rows[0]), &words);
        }
    }

    fn reclaim_within(&self, number: u64, ranges: &[(u64, u64)]) {
        if let Some(segment) = self.segments.get(number as usize) {
            segment.region.reclaim_all(ranges.iter().map(|(at, bytes)| (segment.at + at, *bytes)));
        }
    }

    /// Checks the page states of a segment: a damaged one could make the rows of its page vanish.
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

    /// The word of row `row`, whether its page is published or not. Fails with Damaged if the word is not sound.
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

    /// Checks that the row of `rid`, which comes from a record in `file`, exists. Fails with Damaged.
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
