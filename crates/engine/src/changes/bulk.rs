//! Bulk inserts: rows in directory pages and segments that one transaction fills alone.
//!
//! From its 65th insert into a table on, a transaction takes whole directory pages and segments. It writes versions and
//! directory words as the rows come, and flushes each line once, when it is full. The log gets one record for each
//! page, and one state word publishes the page. The DRAM cost is an entry for each page and each segment, some 0.2
//! bytes a row. When the transaction changes one of these rows again, it replaces the word in the unpublished page. The
//! writing thread flushes, and fences before another thread goes on (I3).

use crate::error::Result;
use crate::files::cells;
use crate::files::chain::write_at;
use crate::format::{PageState, Record, Rid, VERSION_HEADER, VersionHeader, Word, fold_row, page_crc};
use crate::space::bulk_segment::Bulk;
use crate::space::open_cells::OpenSet;
use crate::table::Table;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Number of single inserts into a table after which a transaction begins a bulk insert.
pub const BULK_AFTER: u64 = 64;
const WORDS_IN_LINE: u64 = 8;

struct BulkPage {
    page: u64,
    /// Row number of the next insert.
    next: u64,
    end: u64,
    /// Folded checksums of the versions in the page.
    folded: u64,
    /// The line of the last word has stores that are not flushed.
    line_dirty: bool,
    /// Rows were changed after their insert: the checksums are folded again before the commit.
    edited: bool,
}

struct Edit {
    row: u64,
    before: Word,
}

/// A position in a bulk insert to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BulkMark {
    pages: usize,
    next: u64,
    edits: usize,
}

/// A transaction's bulk insert into one table.
pub struct BulkInsert {
    table: Arc<Table>,
    pages: Vec<BulkPage>,
    page_index: FxHashMap<u64, u32>,
    segments: OpenSet<Bulk>,
    edits: Vec<Edit>,
    rows: i64,
    /// Something has been written since the last [`BulkInsert::flush_rest`].
    written: bool,
    /// RIDs that the edited pages leave free. They are collected while nobody else can reach the pages: once these are
    /// published, another transaction may delete a row, and purge then frees that RID itself (I8).
    holes: Vec<Rid>,
}

impl BulkInsert {
    /// A bulk insert into `table`, which takes its first page with its first row.
    pub fn new(table: Arc<Table>) -> BulkInsert {
        BulkInsert {
            table,
            pages: Vec::new(),
            page_index: FxHashMap::default(),
            segments: OpenSet::default(),
            edits: Vec::new(),
            rows: 0,
            written: false,
            holes: Vec::new(),
        }
    }

    /// The table it inserts into.
    #[inline]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Whether this bulk insert filled row `row`.
    pub fn owns_row(&self, row: u64) -> bool {
        match self.page_index.get(&self.table.directory().page_of(row)) {
            Some(&index) => row < self.pages[index as usize].next,
            None => false,
        }
    }

    /// Row numbers filled in directory page `page`; `None` if the page belongs to somebody else.
    pub fn page_rows(&self, page: u64) -> Option<std::ops::Range<u64>> {
        let index = *self.page_index.get(&page)?;
        Some(self.table.directory().page_rows(page).start..self.pages[index as usize].next)
    }

    /// Inserts a row as write `sequence` of its session.
    #[inline]
    pub fn insert(&mut self, row: &[u8], sequence: u64) -> Result<Rid> {
        if self.pages.last().is_none_or(|page| page.next == page.end) {
            self.add_page()?;
        }
        let page = self.pages.last().expect("just made sure");
        let rid = Rid::new(page.next, 0);
        let header = VersionHeader::new(Word::EMPTY, rid, row, false);
        let word = self.write_version(&header, row, sequence)?;
        let page = self.pages.last_mut().expect("just made sure");
        self.table.directory().store(page.next, word);
        page.folded ^= fold_row(page.next, header.crc);
        page.next += 1;
        page.line_dirty = !page.next.is_multiple_of(WORDS_IN_LINE);
        if !page.line_dirty {
            self.table.directory().flush(page.next - 1);
        }
        self.rows += 1;
        Ok(rid)
    }

    fn add_page(&mut self) -> Result<()> {
        let page = self.table.space().take_page()?;
        let rows = self.table.directory().page_rows(page);
        self.page_index.insert(page, self.pages.len() as u32);
        self.pages.push(BulkPage {
            page,
            next: rows.start,
            end: rows.end,
            folded: 0,
            line_dirty: false,
            edited: false,
        });
        Ok(())
    }

    /// Writes a version into an open segment, and flushes the lines that are full; or into an extent, and flushes it.
    #[inline]
    fn write_version(&mut self, header: &VersionHeader, row: &[u8], sequence: u64) -> Result<Word> {
        let bytes = VERSION_HEADER + row.len() as u64;
        self.written = true;
        let Some(units) = cells::class_for(bytes, self.table.chain().segment_bytes()) else {
            let word = self.table.space().segments().take_extent(bytes)?;
            let (region, at) = self.table.chain().write_version(word, header, row, sequence);
            region.flush(at, bytes);
            return Ok(word);
        };
        let (word, segment) = self.segments.claim(self.table.space().segments(), units)?;
        write_at(segment.region(), word.offset(), header, row, sequence);
        segment.written(word.offset(), bytes);
        Ok(word)
    }

    /// Word of a row of this bulk insert: its newest version, published or not.
    pub fn word(&self, row: u64) -> Word {
        self.table.directory().raw_word(row)
    }

    /// Replaces the version of a row of this bulk insert; `None` deletes the row.
    pub fn edit(&mut self, rid: Rid, row: Option<&[u8]>, sequence: u64) -> Result<()> {
        let before = self.word(rid.row());
        let header = VersionHeader::new(before, rid, row.unwrap_or_default(), row.is_none());
        let mut word = self.write_version(&header, row.unwrap_or_default(), sequence)?;
        if row.is_none() {
            word = word.tombstone();
        }
        self.set_word(rid.row(), word);
        self.edits.push(Edit { row: rid.row(), before });
        Ok(())
    }

    fn set_word(&mut self, row: u64, word: Word) {
        let index = self.page_index[&self.table.directory().page_of(row)] as usize;
        let page = &mut self.pages[index];
        page.edited = true;
        self.written = true;
        page.line_dirty &= row / WORDS_IN_LINE != (page.next - 1) / WORDS_IN_LINE;
        self.table.directory().store(row, word);
        self.table.directory().flush(row);
    }

    /// The present position.
    pub fn mark(&self) -> BulkMark {
        BulkMark {
            pages: self.pages.len(),
            next: self.pages.last().map_or(0, |page| page.next),
            edits: self.edits.len(),
        }
    }

    /// The position before the first row.
    pub const START: BulkMark = BulkMark { pages: 0, next: 0, edits: 0 };

    /// Undoes the edits and inserts since `mark`, and frees what they wrote.
    pub fn rollback_to(&mut self, mark: BulkMark) {
        // Lines to be undone are flushed too, so that none of them stays dirty.
        self.written = self.flush_rest();
        while self.edits.len() > mark.edits {
            let edit = self.edits.pop().expect("counted");
            let own = self.word(edit.row);
            self.set_word(edit.row, edit.before);
            self.table.space().free(own);
        }
        while self.pages.len() > mark.pages {
            let page = self.pages.pop().expect("counted");
            for row in self.table.directory().page_rows(page.page).start..page.next {
                self.forget_row(row);
            }
            self.page_index.remove(&page.page);
            self.table.space().free_page(page.page);
        }
        while let Some(row) =
            self.pages.last().map(|page| page.next - 1).filter(|row| mark.pages > 0 && *row >= mark.next)
        {
            self.forget_row(row);
            self.set_word(row, Word::EMPTY);
            self.pages.last_mut().expect("just seen").next = row;
        }
    }

    fn forget_row(&mut self, row: u64) {
        let word = self.word(row);
        if !word.is_empty() {
            self.rows -= 1;
            self.table.space().free(word);
        }
    }

    /// Flushes what is not flushed yet. Returns whether anything was written since the last call; if so, the caller
    /// fences.
    pub fn flush_rest(&mut self) -> bool {
        if !std::mem::take(&mut self.written) {
            return false;
        }
        for segment in self.segments.iter_mut() {
            segment.flush();
        }
        for page in &mut self.pages {
            if std::mem::take(&mut page.line_dirty) {
                self.table.directory().flush(page.next - 1);
            }
        }
        true
    }

    /// Brings words and checksums of edited pages to their final state before the commit. The caller flushes the rest
    /// and fences.
    pub fn settle(&mut self) {
        self.drop_replaced();
        for index in 0..self.pages.len() {
            // Planted: the checksum covers the rows as they were inserted, not as they were edited.
            if self.pages[index].edited && !perdura_pmem::planted(52) {
                self.pages[index].folded = self.fold_again(index);
            }
        }
    }

    /// Collects the RIDs that edited pages leave free; called before publication (I8).
    pub fn collect_holes(&mut self) {
        let directory = self.table.directory();
        for page in self.pages.iter().filter(|page| page.edited) {
            let rows = directory.page_rows(page.page).start..page.next;
            self.holes.extend(rows.filter(|row| directory.raw_word(*row).is_empty()).map(|row| Rid::new(row, 0)));
        }
    }

    /// Frees the versions that the transaction itself has replaced, and empties the words of rows that it inserted and
    /// deleted.
    fn drop_replaced(&mut self) {
        for edit in std::mem::take(&mut self.edits) {
            self.table.space().free(edit.before);
            let now = self.word(edit.row);
            if now.is_tombstone() {
                self.set_word(edit.row, Word::EMPTY);
                self.table.space().free(now);
                self.rows -= 1;
            }
        }
    }

    fn fold_again(&self, index: usize) -> u64 {
        let page = &self.pages[index];
        let mut folded = 0;
        for row in self.table.directory().page_rows(page.page).start..page.next {
            let word = self.word(row);
            if !word.is_empty()
                && let Ok((_, _, header)) = self.table.chain().header(word, Rid::new(row, 0))
            {
                folded ^= fold_row(row, header.crc);
            }
        }
        folded
    }

    /// The redo records, one for each page. Called after [`BulkInsert::settle`] and a fence.
    pub fn records(&self) -> impl Iterator<Item = Record> + '_ {
        self.pages.iter().map(|page| {
            let (region, at, bytes) = self.table.directory().page_bytes(page.page).expect("an own page");
            // SAFETY: the page is unpublished and belongs to this transaction, which logs its records now: nobody
            // stores there.
            let words = unsafe { region.slice(at, bytes) };
            let first = self.table.directory().page_rows(page.page).start;
            Record::Page {
                table: self.table.id(),
                page: page.page,
                rows: (page.next - first) as u32,
                crc: page_crc(words, page.folded),
            }
        })
    }

    /// Stores and flushes the state words that publish the pages. The caller fences.
    pub fn publish(&self, csn: u64) {
        for page in &self.pages {
            self.table.directory().publish(page.page, PageState::published(csn));
        }
    }

    /// Number of rows that it adds to the table.
    pub fn rows(&self) -> i64 {
        self.rows
    }

    /// Returns unused cells, unused RIDs and holes to the table's allocator, after publication.
    pub fn finish(mut self) {
        self.release_segments();
        // Planted: holes are collected after publication, when others may have made more of them.
        if perdura_pmem::planted(65) {
            self.holes.clear();
            self.collect_holes();
        }
        let unused = self.pages.iter().flat_map(|page| (page.next..page.end).rev().map(|row| Rid::new(row, 0)));
        self.table.space().free_rids(std::mem::take(&mut self.holes).into_iter().chain(unused));
    }

    /// Undoes the whole bulk insert, and returns its pages and segments to the table's allocator.
    pub fn abandon(mut self) {
        self.rollback_to(BulkInsert::START);
        self.release_segments();
    }

    fn release_segments(&mut self) {
        self.segments.close_all(self.table.space().segments());
    }

    /// Takes over a page that a prepared transaction filled before the restart.
    pub(crate) fn adopt_page(&mut self, page: u64, rows: u32, folded: u64) {
        let range = self.table.directory().page_rows(page);
        self.page_index.insert(page, self.pages.len() as u32);
        self.pages.push(BulkPage {
            page,
            next: range.start + u64::from(rows),
            end: range.end,
            folded,
            line_dirty: false,
            // The page may have holes.
            edited: true,
        });
        self.rows +=
            (range.start..range.start + u64::from(rows)).filter(|row| !self.word(*row).is_empty()).count() as i64;
    }
}
