//! The row directory: it maps a row number to the directory word that names the row's newest
//! committed version.

use super::datafile::DataFile;
use super::stack::Stack;
use crate::error::{Error, Result};
use crate::format::{Geometry, PageState, Rid, Word};
use perdura_pmem::{Content, LINE_BYTES, Mutant, Region, Step};
use std::sync::atomic::{AtomicU32, Ordering};

/// A page of the row directory.
struct DirectoryPage {
    /// Sequence number of the page's file.
    file: u32,
    /// From this position on nobody has a RID.
    in_use: AtomicU32,
    /// The region that maps the page's file.
    region: Region,
    /// Offset of the page in the file, in bytes.
    at: u64,
}

/// The row directory of a table.
///
/// It is made of pages. The first word of a page is its state, each other word belongs to a row:
/// row number = page number x words in a page + position in the page. A word counts iff the state
/// of its page is published. Reads take no lock. Pages are added a segment at a time and in the
/// order of their numbers, and dropped in the opposite order when their file is given back, both
/// under the lock of the directory's free places (`space/directory_space.rs`). A reader that has
/// still looked a dropped page up finds it unpublished.
///
/// DRAM knows of each page how far it is *in use*: behind that mark nobody has a RID, so the words
/// there are empty, and no shadow has anything of these rows. A scan reads no further, so a table
/// of one row costs it a line and not a page. All of a page counts as in use until something better
/// is known: when the page is opened for single inserts, whose RIDs come one after the other, and
/// when it is swept. The mark rises before a RID is given out; a bulk insert takes all of a page.
/// Whoever may see a row has synchronized with that, through the lock of the page's slot, under
/// which the row is entered and its word stored, or through the state that publishes a whole page.
/// So a reader that takes the mark under that lock, or between its two looks at the slot and after
/// the state, misses no row.
pub(crate) struct Directory {
    pages: Stack<DirectoryPage>,
    page_shift: u32,
}

impl Directory {
    /// A directory without pages.
    pub(crate) fn new(geometry: Geometry) -> Directory {
        Directory { pages: Stack::default(), page_shift: geometry.page_words.ilog2() }
    }

    /// Fills segment `index` of `file` with unpublished pages, past the cache, whose words are
    /// empty and have this incarnation. The caller fences.
    pub(crate) fn empty_segment(&self, file: &DataFile, index: u32, incarnation: u16) {
        let (region, at) = (file.region().holding(Content::Directory), file.segment_offset(index));
        if incarnation == 0 {
            return region.zero(at, file.segment_bytes());
        }
        let mut page = vec![Word::empty(incarnation).0.to_le_bytes(); self.page_words()];
        page[0] = PageState::UNPUBLISHED.0.to_le_bytes();
        for at in (at..at + file.segment_bytes()).step_by(8 << self.page_shift) {
            region.write_nt(at, page.as_flattened());
        }
    }

    /// Appends the pages of the next segment, number `index` of `file`, whose descriptor is
    /// durable.
    pub(crate) fn push_segment(&self, file: &DataFile, index: u32) {
        let (region, at) = (file.region().holding(Content::Directory), file.segment_offset(index));
        for at in (at..at + file.segment_bytes()).step_by(8 << self.page_shift) {
            let in_use = AtomicU32::new(1 << self.page_shift);
            self.pages.push(DirectoryPage { file: file.sequence(), in_use, region: region.clone(), at });
        }
    }

    /// Drops the pages from number `first` on. None of them is published or taken.
    pub(crate) fn drop_pages(&self, first: u64) {
        while self.page_count() > first {
            self.pages.pop();
        }
    }

    /// Frees what readers may still have known of dropped pages: nobody else uses the table.
    pub(crate) fn forget_dropped(&mut self) {
        self.pages.forget_popped();
    }

    /// Number of the first of the last pages that lie in file `file`, one after the other.
    pub(crate) fn tail_in(&self, file: u32) -> u64 {
        let pages = 0..self.page_count();
        pages.rev().find(|page| self.file_of(*page) != Some(file)).map_or(0, |page| page + 1)
    }

    /// Sequence number of the file that page `page` lies in; `None` if there is no such page.
    pub(crate) fn file_of(&self, page: u64) -> Option<u32> {
        self.page(page).map(|page| page.file)
    }

    /// Number of pages, published or not.
    pub(crate) fn page_count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Number of rows that fit the pages.
    pub(crate) fn row_places(&self) -> u64 {
        self.page_count() * self.rows_in_page() as u64
    }

    /// Row numbers of page `page`.
    pub(crate) fn page_rows(&self, page: u64) -> std::ops::Range<u64> {
        let first = page << self.page_shift;
        first + 1..first + (1 << self.page_shift)
    }

    /// Row number of the first word of page `page`, whether a row or not.
    #[inline]
    pub(crate) fn page_base(&self, page: u64) -> u64 {
        page << self.page_shift
    }

    /// Number of rows in a page.
    pub(crate) fn rows_in_page(&self) -> usize {
        self.page_words() - 1
    }

    /// Number of words in a page.
    pub(crate) fn page_words(&self) -> usize {
        1 << self.page_shift
    }

    /// Position of row `row` in its page.
    #[inline]
    pub(crate) fn position_of(&self, row: u64) -> u16 {
        (row & ((1 << self.page_shift) - 1)) as u16
    }

    /// Loads the words of page `page` that are in use into `words`, by position. What is no row is
    /// empty.
    #[inline]
    pub(crate) fn load_page(&self, page: u64, words: &mut Vec<Word>) {
        words.clear();
        let Some(page) = self.page(page) else { return };
        let rows = (page.in_use.load(Ordering::Acquire) as usize).saturating_sub(1);
        words.reserve(rows + 1);
        words.push(Word::EMPTY);
        words.extend(page.region.words(page.at + 8, rows).map(Word));
    }

    /// Notes that all of page `page` is in use: the caller owns the page, which is unpublished.
    pub(crate) fn use_whole(&self, page: u64) {
        self.page(page).expect("a page that exists").in_use.store(1 << self.page_shift, Ordering::Release);
    }

    /// Notes that page `page` is in use up to position `last` only; 0 if not at all. The caller
    /// owns the page, which is unpublished, or has locked its shadow, and knows that nobody has
    /// anything of the rows behind.
    pub(crate) fn use_up_to(&self, page: u64, last: u16) {
        self.page(page).expect("a page that exists").in_use.store(u32::from(last) + 1, Ordering::Release);
    }

    /// Notes that row `row` is in use, before its RID is given out; with it those in its line, so
    /// that the mark moves seldom.
    #[inline]
    pub(crate) fn use_row(&self, row: u64) {
        let end = u32::from(self.position_of(row) | (LINE_BYTES / 8 - 1) as u16) + 1;
        let page = self.page(self.page_of(row)).expect("a page that exists");
        // Planted: a RID is given out in a part of its page that does not count as in use.
        if page.in_use.load(Ordering::Relaxed) < end && !perdura_pmem::planted(Mutant::RidInUnusedPart) {
            page.in_use.fetch_max(end.min(1 << self.page_shift), Ordering::AcqRel);
        }
    }

    /// Whether row `row` is known to be in use.
    fn is_in_use(&self, row: u64) -> bool {
        let page = self.page(self.page_of(row));
        page.is_some_and(|page| u32::from(self.position_of(row)) < page.in_use.load(Ordering::Relaxed))
    }

    /// Flushes the lines of the words at `positions` of page `page`, each once.
    #[track_caller]
    pub(crate) fn flush_rows(&self, page: u64, positions: impl Iterator<Item = u16>) {
        for position in first_of_each_line(positions) {
            self.flush(self.page_base(page) + u64::from(position));
        }
    }

    /// [`Directory::flush_rows`] of words that are to be durable at the next checkpoint.
    #[track_caller]
    pub(crate) fn flush_settled_rows(&self, page: u64, positions: impl Iterator<Item = u16>) {
        for position in first_of_each_line(positions) {
            self.flush_settled(self.page_base(page) + u64::from(position));
        }
    }

    /// Number of the page that row `row` is in.
    #[inline]
    pub(crate) fn page_of(&self, row: u64) -> u64 {
        row >> self.page_shift
    }

    #[inline]
    fn page(&self, page: u64) -> Option<&DirectoryPage> {
        self.pages.get(page as usize)
    }

    /// Whether the directory has a place for row `row`.
    #[inline]
    pub(crate) fn has_row(&self, row: u64) -> bool {
        self.position_of(row) != 0 && self.page_of(row) < self.page_count()
    }

    /// Region and offset of the word of row `row`; `None` if the directory has no such row.
    #[inline]
    pub(crate) fn place(&self, row: u64) -> Option<(&Region, u64)> {
        let position = u64::from(self.position_of(row));
        if position == 0 {
            return None;
        }
        let page = self.page(self.page_of(row))?;
        Some((&page.region, page.at + position * 8))
    }

    /// Region, offset and length in bytes of the words of page `page`, without its state; `None` if
    /// there is no such page.
    pub(crate) fn page_bytes(&self, page: u64) -> Option<(&Region, u64, u64)> {
        let page = self.page(page)?;
        Some((&page.region, page.at + 8, (8 << self.page_shift) - 8))
    }

    /// The word of row `row`; empty if there is no such row or its page is unpublished.
    pub(crate) fn word(&self, row: u64) -> Word {
        match self.place(row) {
            Some((region, at)) if self.state(self.page_of(row)).is_published() => Word(region.load(at)),
            _ => Word::EMPTY,
        }
    }

    /// The word of row `row`, whether its page is published or not. For the owner of the page, and
    /// for readers that have looked at the page's state.
    #[inline]
    pub(crate) fn raw_word(&self, row: u64) -> Word {
        self.place(row).map_or(Word::EMPTY, |(region, at)| Word(region.load(at)))
    }

    /// Stores the word of row `row`. It neither flushes nor fences.
    #[inline]
    pub(crate) fn store(&self, row: u64, word: Word) {
        debug_assert!(word.is_empty() || self.is_in_use(row), "row {row:#x} is not in use");
        let (region, at) = self.place(row).expect("a row that exists");
        if perdura_pmem::planted(Mutant::StorePastMedium) {
            // SAFETY: in bounds and aligned, and readers that race load a whole word. It is
            // planted: a store past the one door.
            return unsafe { region.as_ptr().add(at as usize).cast_mut().cast::<u64>().write_volatile(word.0) };
        }
        region.store(at, word.0);
    }

    /// Flushes the line of the word of row `row`.
    #[track_caller]
    #[inline]
    pub(crate) fn flush(&self, row: u64) {
        let (region, at) = self.place(row).expect("a row that exists");
        region.flush(at, 8);
    }

    /// Flushes the line of the word of row `row`, which is to be durable at the next checkpoint.
    #[track_caller]
    #[inline]
    pub(crate) fn flush_settled(&self, row: u64) {
        let (region, at) = self.place(row).expect("a row that exists");
        region.flush_settled(at, 8);
    }

    /// The state of page `page`; unpublished if there is no such page.
    #[inline]
    pub(crate) fn state(&self, page: u64) -> PageState {
        self.page(page).map_or(PageState::UNPUBLISHED, |page| PageState(page.region.load(page.at)))
    }

    /// Loads the words of `rows`, which are of page `page`, whether it is published or not. What is
    /// no row is empty.
    #[inline(always)]
    pub(crate) fn load_rows(&self, page: u64, rows: &[u64], words: &mut [Word]) {
        let Some(page) = self.page(page) else { return words.fill(Word::EMPTY) };
        for (row, word) in rows.iter().zip(words) {
            let position = u64::from(self.position_of(*row));
            *word = if position == 0 { Word::EMPTY } else { Word(page.region.load(page.at + position * 8)) };
        }
    }

    /// Stores and flushes the state word that publishes page `page`. Its words must be fenced
    /// before (I3); the caller fences the state.
    #[track_caller]
    pub(crate) fn publish(&self, page: u64, state: PageState) {
        let page = self.page(page).expect("a page that exists");
        page.region.store(page.at, state.0);
        page.region.flush(page.at, 8);
    }

    /// Stores and flushes the state word that unpublishes page `page`, whose words are durably
    /// empty. The caller fences before anybody stores to the page (I3).
    #[track_caller]
    pub(crate) fn unpublish(&self, page: u64) {
        self.publish(page, PageState::UNPUBLISHED);
    }

    /// Empties and flushes the words that a crash or a rollback left in page `number`, which is
    /// unpublished. Each keeps the incarnation of its RID; a damaged word has none. The caller
    /// fences.
    pub(crate) fn empty_page(&self, number: u64) {
        let Some(page) = self.page(number) else { return };
        for line in (page.at..page.at + (8 << self.page_shift)).step_by(LINE_BYTES as usize) {
            let mut stored = false;
            // The first word of the page is its state.
            for at in (line.max(page.at + 8)..line + LINE_BYTES).step_by(8) {
                let word = Word(page.region.load(at));
                // Planted: incarnations begin again at 0.
                let is_kept = word.is_sound() && !perdura_pmem::planted(Mutant::LeftPageLosesIncarnations);
                let empty = if is_kept { Word::empty(word.incarnation()) } else { Word::EMPTY };
                if word != empty {
                    page.region.store(at, empty.0);
                    stored = true;
                }
            }
            if stored {
                page.region.flush(line, LINE_BYTES);
            }
        }
    }

    /// The store that publishes page `page`, for [`perdura_pmem::publish`].
    pub(crate) fn publishing(&self, page: u64, state: PageState) -> Step<'_> {
        let page = self.page(page).expect("a page that exists");
        Step { region: &page.region, offset: page.at, value: state.0 }
    }

    /// Fences the region of page `page`.
    #[track_caller]
    pub(crate) fn fence(&self, page: u64) {
        self.page(page).expect("a page that exists").region.fence();
    }

    /// Makes durable what a killed process left of page `number` in the cache only: its state, and
    /// words that it had emptied.
    pub(crate) fn reclaim_page(&self, number: u64) {
        if let Some(page) = self.page(number) {
            page.region.reclaim(page.at, 8 << self.page_shift);
        }
    }

    /// Makes durable what a killed process left of the words of `rows` in the cache only. Skips
    /// rows that do not exist.
    pub(crate) fn reclaim_words(&self, mut rows: Vec<u64>) {
        rows.sort_unstable();
        rows.dedup_by_key(|row| *row * 8 / LINE_BYTES);
        for rows in rows.chunk_by(|row, next| self.page_of(*row) == self.page_of(*next)) {
            if let Some(page) = self.page(self.page_of(rows[0])) {
                let at = |row: &u64| page.at + u64::from(self.position_of(*row)) * 8;
                page.region.reclaim_all(rows.iter().map(|row| (at(row), 8)));
            }
        }
    }

    /// Checks the state of page `number`, if there is such a page: a damaged one could make the
    /// page's rows vanish.
    pub(crate) fn check_state(&self, number: u64) -> Result<()> {
        let Some(page) = self.page(number) else { return Ok(()) };
        let state = PageState(page.region.load(page.at));
        if !state.is_sound() {
            let what = format_args!("the state {:#x} of directory page {number} is not valid", state.0);
            return Err(Error::damaged(page.region.name(), page.at, what));
        }
        Ok(())
    }

    /// The word of row `row`, whether its page is published or not. Fails with Damaged if the word
    /// is not sound.
    pub(crate) fn sound_word(&self, row: u64) -> Result<Word> {
        let word = self.raw_word(row);
        match self.place(row) {
            Some((region, at)) if !word.is_sound() => {
                let what = format_args!("the directory word {:#018x} of row {row:#x} is not valid", word.0);
                Err(Error::damaged(region.name(), at, what))
            }
            _ => Ok(word),
        }
    }

    /// Checks that the row of `rid`, which comes from a record in `file`, exists. Fails with
    /// Damaged.
    pub(crate) fn check(&self, file: impl FnOnce() -> String, rid: Rid) -> Result<()> {
        match self.place(rid.row()) {
            Some(_) => Ok(()),
            None => Err(Error::damaged(
                &file(),
                rid.row() * 8,
                format_args!("row {:#x} is not in the row directory", rid.row()),
            )),
        }
    }
}

/// One position of each line of a page that `positions` are in.
fn first_of_each_line(positions: impl Iterator<Item = u16>) -> impl Iterator<Item = u16> {
    let (mut seen, words_in_line) = ([0u64; 16], (LINE_BYTES / 8) as u16);
    positions.filter(move |position| {
        let line = position / words_in_line;
        let (word, bit) = (&mut seen[usize::from(line / 64)], 1 << (line % 64));
        std::mem::replace(word, *word | bit) & bit == 0
    })
}
