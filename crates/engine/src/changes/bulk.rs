//! Bulk inserts: rows in directory pages that one transaction fills alone.
//!
//! From its 65th insert into a table on, a transaction takes whole directory pages and segments. It
//! writes versions and directory words as the rows come, and flushes each line once, when it is
//! full. The log gets one record for each page, and one state word publishes the page. The pages
//! are in their shadows as changes of the whole page, so rows count for others once the transaction
//! is committed, and for its own statements step by step. When the transaction changes one of these
//! rows again, it replaces the word in the unpublished page. The writing thread flushes, and fences
//! before another thread goes on (I3).

use super::own_segments::OwnSegments;
use super::row_request::Step;
use crate::error::Result;
use crate::files::directory::Directory;
use crate::format::{Record, Rid, VersionHeader, Word, fold_row, page_crc};
use crate::shadow::change::Change;
use crate::shadow::page::PageShadow;
use crate::shadow::writer::Writer;
use crate::table::Table;
use perdura_pmem::Mutant;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Number of single inserts into a table after which a transaction begins a bulk insert.
pub(crate) const BULK_AFTER: u64 = 64;
const WORDS_IN_LINE: u64 = 8;

struct BulkPage {
    page: u64,
    /// Row number of the next insert.
    next: u64,
    /// The rows below it are in the page's shadow.
    noted: u64,
    end: u64,
    /// Folded checksums of the versions in the page.
    folded: u64,
    /// The line of the last word has stores that are not flushed.
    line_dirty: bool,
    /// Rows were changed after their insert: the checksums are folded again before the commit.
    edited: bool,
}

/// A position in a bulk insert to roll back to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BulkMark {
    pages: usize,
    next: u64,
}

/// A transaction's bulk insert into one table.
pub(crate) struct BulkInsert {
    table: Arc<Table>,
    writer: Arc<Writer>,
    pages: Vec<BulkPage>,
    page_index: FxHashMap<u64, u32>,
    /// Index of the first page with rows that are not in its shadow.
    unnoted: usize,
    rows: i64,
    /// RIDs that the edited pages leave free. They are collected while nobody else can reach the
    /// pages: once these are published, another transaction may delete a row, and purge then frees
    /// that RID itself (I8).
    holes: Vec<Rid>,
}

impl BulkInsert {
    /// A bulk insert of `writer` into `table`, which takes its first page with its first row.
    pub(crate) fn new(table: Arc<Table>, writer: Arc<Writer>) -> BulkInsert {
        BulkInsert {
            table,
            writer,
            pages: Vec::new(),
            page_index: FxHashMap::default(),
            unnoted: 0,
            rows: 0,
            holes: Vec::new(),
        }
    }

    fn directory(&self) -> &Directory {
        self.table.directory()
    }

    /// Whether this bulk insert filled row `row`.
    #[inline]
    pub(crate) fn owns_row(&self, row: u64) -> bool {
        match self.page_index.get(&self.directory().page_of(row)) {
            Some(&index) => row < self.pages[index as usize].next,
            None => false,
        }
    }

    /// Inserts a row.
    #[inline]
    pub(crate) fn insert(&mut self, segments: &mut OwnSegments, row: &[u8]) -> Result<Rid> {
        if self.pages.last().is_none_or(|page| page.next == page.end) {
            self.add_page()?;
        }
        let page = self.pages.last().expect("just made sure");
        // Planted: incarnations begin again at 0 in a page that was given back.
        let rid = if perdura_pmem::planted(Mutant::BulkRidsOfIncarnationZero) {
            Rid::new(page.next, 0)
        } else {
            self.rid(page.next)
        };
        let header = VersionHeader::new(rid, row);
        let word = segments.write(&self.table, &header, row)?;
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

    /// Takes back the insert of the row that came last, which is not in its page's shadow yet.
    /// Returns its version.
    pub(crate) fn take_back_last(&mut self, rid: Rid) -> Word {
        let (row, version) = (rid.row(), self.word(rid.row()));
        debug_assert!(self.pages.last().is_some_and(|page| page.next == row + 1 && page.noted <= row), "the last row");
        let folded = self.folded_row(rid, version);
        self.table.directory().store(row, Word::empty(rid.incarnation()));
        // With the words before it in the line.
        self.table.directory().flush(row);
        self.rows -= 1;
        if let Some(page) = self.pages.last_mut() {
            page.next = row;
            // Planted: a refused row counts in the checksum of its page.
            page.folded ^= if perdura_pmem::planted(Mutant::RefusedRowInChecksum) { 0 } else { folded };
            page.line_dirty = false;
        }
        version
    }

    /// Share of a row in the folded checksums of its page.
    fn folded_row(&self, rid: Rid, version: Word) -> u64 {
        self.table.chain().header(version, rid).map_or(0, |(_, _, header)| fold_row(rid.row(), header.crc))
    }

    /// The RID of a row in a page of this bulk insert, whose word has its incarnation.
    #[inline]
    fn rid(&self, row: u64) -> Rid {
        Rid::new(row, self.directory().raw_word(row).incarnation())
    }

    /// Takes a page that the transaction has done nothing to: it may hold a lock on a row that once
    /// was in a free page.
    fn add_page(&mut self) -> Result<()> {
        let mut locked = Vec::new();
        let taken = loop {
            match self.table.space().take_page() {
                Ok(page) if self.has_change(page) => locked.push(page),
                taken => break taken,
            }
        };
        locked.into_iter().for_each(|page| self.table.space().free_page(page));
        self.enter_page(taken?, 0);
        Ok(())
    }

    fn has_change(&self, page: u64) -> bool {
        let shadow = self.table.shadows().slot(page).lock_existing();
        shadow.is_some_and(|shadow| shadow.change(&self.writer).is_some())
    }

    /// Makes an unpublished page, with `filled` rows in it, one of this bulk insert.
    fn enter_page(&mut self, page: u64, filled: u64) {
        let rows = self.directory().page_rows(page);
        self.table.shadows().slot(page).lock().change_or_new(&self.writer, true);
        self.page_index.insert(page, self.pages.len() as u32);
        self.pages.push(BulkPage {
            page,
            next: rows.start + filled,
            noted: rows.start,
            end: rows.end,
            folded: 0,
            line_dirty: false,
            edited: false,
        });
    }

    /// Notes the rows inserted since the last call in the shadows of their pages, as writes of step
    /// `step`. Returns those pages. Called before anybody takes a position.
    pub(crate) fn note_rows(&mut self, step: u64) -> Vec<u64> {
        let mut noted = Vec::new();
        for page in &mut self.pages[self.unnoted..] {
            if page.noted < page.next {
                let directory = self.table.directory();
                let positions = directory.position_of(page.noted)..directory.position_of(page.next - 1) + 1;
                let mut shadow = self.table.shadows().slot(page.page).lock();
                shadow.change_or_new(&self.writer, true).0.fill(positions, step);
                page.noted = page.next;
                noted.push(page.page);
            }
        }
        self.unnoted = self.pages.len().saturating_sub(1);
        noted
    }

    /// Word of a row of this bulk insert: its newest version, published or not; empty if the
    /// transaction deleted it.
    pub(crate) fn word(&self, row: u64) -> Word {
        self.directory().raw_word(row)
    }

    /// Replaces the version of a row of this bulk insert; `None` deletes the row. All rows are
    /// noted.
    pub(crate) fn edit(&mut self, segments: &mut OwnSegments, rid: Rid, row: Option<&[u8]>, at: Step) -> Result<()> {
        let before = self.word(rid.row());
        let word = match row {
            Some(row) => segments.write(&self.table, &VersionHeader::new(rid, row), row)?,
            None => Word::empty(before.incarnation()),
        };
        segments.note_written();
        let page = self.directory().page_of(rid.row());
        let position = self.directory().position_of(rid.row());
        let settled = {
            let mut shadow = self.table.shadows().slot(page).lock();
            let (change, _) = shadow.change_or_new(&self.writer, true);
            let settled = change.settle_below(at.floor);
            match row {
                Some(_) => {
                    change.write(position, word, || before, at.step);
                }
                None => change.delete(position, || before, at.step),
            }
            settled
        };
        self.table.space().free_all(settled);
        self.rows -= i64::from(row.is_none());
        self.set_word(rid.row(), word);
        Ok(())
    }

    fn set_word(&mut self, row: u64, word: Word) {
        let index = self.page_index[&self.directory().page_of(row)] as usize;
        let page = &mut self.pages[index];
        page.edited = true;
        page.line_dirty &= row / WORDS_IN_LINE != (page.next - 1) / WORDS_IN_LINE;
        self.table.directory().store(row, word);
        self.table.directory().flush(row);
    }

    /// The present position.
    pub(crate) fn mark(&self) -> BulkMark {
        BulkMark { pages: self.pages.len(), next: self.pages.last().map_or(0, |page| page.next) }
    }

    /// Undoes the edits and inserts since `mark`, the steps after `seen`, and frees what they
    /// wrote. All rows are noted.
    pub(crate) fn rollback_to(&mut self, mark: BulkMark, seen: u64, edited: &[u64]) {
        while self.pages.len() > mark.pages {
            let page = self.pages.pop().expect("counted");
            self.page_index.remove(&page.page);
            self.give_up_page(&page);
        }
        for page in edited.iter().copied() {
            if self.page_index.contains_key(&page) {
                self.undo_in_page(page, seen);
            }
        }
        if let Some(page) = self.pages.last_mut().filter(|_| mark.pages > 0) {
            page.next = mark.next;
            page.noted = page.noted.min(mark.next);
        }
        self.unnoted = self.pages.len().saturating_sub(1);
    }

    /// Takes the transaction's mark off an unpublished page, and frees the page and its versions.
    fn give_up_page(&mut self, page: &BulkPage) {
        let directory = self.table.directory();
        let change = self.table.shadows().slot(page.page).lock().remove(&self.writer);
        let versions = (directory.page_rows(page.page).start..page.next).map(|row| directory.raw_word(row));
        let versions: Vec<Word> = versions.filter(|word| !word.is_empty()).collect();
        self.rows -= versions.len() as i64;
        let replaced = change.map(|mut change| change.take_replaced()).unwrap_or_default();
        self.table.space().free_all(versions.into_iter().chain(replaced));
        self.table.space().free_page(page.page);
    }

    fn undo_in_page(&mut self, page: u64, seen: u64) {
        let undone = {
            let mut shadow = self.table.shadows().slot(page).lock();
            shadow.change_or_new(&self.writer, true).0.undo(seen)
        };
        let base = self.directory().page_base(page);
        for write in undone {
            let row = base + u64::from(write.position);
            let now = self.word(row);
            let before = write.restored.unwrap_or(Word::empty(now.incarnation()));
            self.rows += i64::from(!before.is_empty()) - i64::from(!now.is_empty());
            self.set_word(row, before);
            if !now.is_empty() {
                self.table.space().free(now);
            }
        }
    }

    /// Flushes directory words that are not flushed yet.
    pub(crate) fn flush_rest(&mut self) {
        for page in self.pages.iter_mut().rev() {
            if std::mem::take(&mut page.line_dirty) {
                self.table.directory().flush(page.next - 1);
            }
        }
    }

    /// Brings edited pages to their final state before the commit: frees the versions that the
    /// transaction itself has replaced, and folds the checksums again. The caller flushes the rest
    /// and fences.
    pub(crate) fn settle(&mut self) {
        for index in 0..self.pages.len() {
            if !self.pages[index].edited {
                continue;
            }
            let page = self.pages[index].page;
            let replaced = {
                let mut shadow: crate::shadow::slots::LockedPage<'_> = self.table.shadows().slot(page).lock();
                PageShadow::change_mut(&mut shadow, &self.writer).map(Change::take_replaced).unwrap_or_default()
            };
            self.table.space().free_all(replaced);
            // Planted: the checksum covers the rows as they were inserted, not as they were edited.
            if !perdura_pmem::planted(Mutant::ChecksumOfInsertedRows) {
                self.pages[index].folded = self.fold_again(index);
            }
        }
    }

    fn fold_again(&self, index: usize) -> u64 {
        let page = &self.pages[index];
        let mut folded = 0;
        for row in self.directory().page_rows(page.page).start..page.next {
            let word = self.word(row);
            if !word.is_empty() {
                folded ^= self.folded_row(self.rid(row), word);
            }
        }
        folded
    }

    /// The redo records, one for each page. Called after [`BulkInsert::settle`] and a fence.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record<'static>> + '_ {
        self.pages.iter().map(|page| {
            let (region, at, bytes) = self.directory().page_bytes(page.page).expect("an own page");
            // SAFETY: the page is unpublished and belongs to this transaction, which logs its
            // records now: nobody stores there.
            let words = unsafe { region.slice(at, bytes) };
            let first = self.directory().page_rows(page.page).start;
            Record::Page {
                table: self.table.id(),
                page: page.page,
                rows: (page.next - first) as u32,
                crc: page_crc(words, page.folded),
            }
        })
    }

    /// Collects the RIDs that edited pages leave free; called before publication (I8).
    pub(crate) fn collect_holes(&mut self) {
        let mut holes = std::mem::take(&mut self.holes);
        for page in self.pages.iter().filter(|page| page.edited) {
            let rows = self.directory().page_rows(page.page).start..page.next;
            holes.extend(rows.filter(|row| self.word(*row).is_empty()).map(|row| self.rid(row)));
        }
        self.holes = holes;
    }

    /// Numbers of the pages.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        self.pages.iter().map(|page| page.page)
    }

    /// Number of rows that it adds to the table.
    pub(crate) fn rows(&self) -> i64 {
        self.rows
    }

    /// Returns unused RIDs and holes to the table's allocator, after publication.
    pub(crate) fn finish(mut self) {
        // Planted: holes are collected after publication, when others may have made more of them.
        if perdura_pmem::planted(Mutant::HolesCollectedAfterPublication) {
            self.holes.clear();
            self.collect_holes();
        }
        let holes = std::mem::take(&mut self.holes);
        let unused = self.pages.iter().flat_map(|page| (page.next..page.end).map(|row| self.rid(row)));
        self.table.space().free_rids(holes.into_iter().chain(unused));
    }

    /// Undoes the whole bulk insert.
    pub(crate) fn abandon(mut self) {
        self.rollback_to(BulkMark::default(), 0, &[]);
    }

    /// Takes over a page that a prepared transaction filled before the restart.
    pub(crate) fn adopt_page(&mut self, page: u64, rows: u32, folded: u64) {
        self.enter_page(page, u64::from(rows));
        let last = self.pages.last_mut().expect("just entered");
        last.folded = folded;
        // The page may have holes.
        last.edited = true;
        let filled = self.directory().page_rows(page).start..self.pages[self.pages.len() - 1].next;
        self.rows += filled.filter(|row| !self.word(*row).is_empty()).count() as i64;
    }
}
